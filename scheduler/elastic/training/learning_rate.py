"""The learning rate follows the size of the group. Imports torch."""

import math
from typing import Any

import torch

from scheduler.elastic.errors import UsageError
from scheduler.elastic.training.batch import BatchPolicy
from scheduler.elastic.training.noise import NoiseScale

#: Sums of thirds and the like must not miss a whole number.
_ROUNDING = 1e-9


class RateScaler:
    """Applies a policy's factor around each `optimizer.step()`; its progress is part of the committed state.

    Rates as the optimizer and its schedule hold them are those of the base size. The factor begins with that size's,
    1, or lower where the group is smaller; after a resize it begins where it stood. From there it moves to the
    policy's over the warm-up, also downwards: the momentum at a resize is still that of the batches before (Lin et
    al., "Dynamic Mini-batch SGD for Elastic Distributed Training", 2019).

    It acts while the training has a group: the optimizer may be another State's before or after.
    """

    def __init__(self, policy: BatchPolicy, optimizer: torch.optim.Optimizer, noise: NoiseScale) -> None:
        self._policy = policy
        self._noise = noise
        self._world_size = 0
        self._acts = False
        self._start = 1.0
        self._warmed_steps = 0
        self._scheduled_steps = 0
        self._applied = 1.0
        #: the optimizer's own, during a step
        self._rates: list[Any] = []
        #: whether gradients are looked at, so that there is a noise scale
        self.measures = False
        #: how many steps of the base size the steps so far are worth
        self.base_steps = 0.0
        optimizer.register_step_pre_hook(self._scale)
        optimizer.register_step_post_hook(self._unscale)

    @property
    def factor(self) -> float:
        """What the next step's learning rate is multiplied with."""
        if self._world_size == 0:
            return 1.0
        target = self._policy.rate_factor(self._world_size, self._noise.samples)
        if self._warmed_steps >= self._policy.warmup_steps:
            return target
        return self._start + (target - self._start) * (self._warmed_steps + 1) / self._policy.warmup_steps

    def set_group(self, world_size: int) -> None:
        """Aims at the factor for this size from now on."""
        self._acts = True
        if world_size == self._world_size:
            return
        first = min(self._policy.rate_factor(world_size, self._noise.samples), 1.0)
        self._start = self.factor if self._world_size else first
        self._world_size = world_size
        self._warmed_steps = 0

    def rest(self, optimizer: torch.optim.Optimizer) -> None:
        """Leaves the rates alone until the next `set_group`, as they were before a step that was cut off."""
        self._acts = False
        self.put_back(optimizer)

    def put_back(self, optimizer: torch.optim.Optimizer) -> None:
        """Gives the optimizer its own rates again, also after a step that failed: nobody is told of its end."""
        for group, rate in zip(optimizer.param_groups, self._rates, strict=False):  # groups may have been added since
            group["lr"] = rate
        self._rates = []

    def take_schedule_steps(self) -> int:
        """How often a schedule that counts steps of the base size is to be stepped now, so that it keeps up."""
        due = math.floor(self.base_steps + _ROUNDING) - self._scheduled_steps
        self._scheduled_steps += due
        return due

    def state_dict(self) -> dict[str, Any]:
        """Where the warm-up and the count stand."""
        return {
            "world_size": self._world_size,
            "start": self._start,
            "warmed_steps": self._warmed_steps,
            "scheduled_steps": self._scheduled_steps,
            "base_steps": self.base_steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes back to where they stood."""
        self._world_size = state["world_size"]
        self._start = state["start"]
        self._warmed_steps = state["warmed_steps"]
        self._scheduled_steps = state["scheduled_steps"]
        self.base_steps = state["base_steps"]
        self._rates = []  # the optimizer has gone back to its own

    def _scale(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._acts:
            return
        if self._policy.needs_noise and not self.measures:
            raise UsageError(
                "this learning rate depends on the noise in the gradients: call average_gradients() first, or create "
                "DistributedDataParallel inside the training function and wrap a hook of your own in state.measured()"
            )
        self.put_back(optimizer)
        self._rates = [group["lr"] for group in optimizer.param_groups]
        self._applied = self.factor
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * self._applied

    def _unscale(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._acts:
            return
        self.put_back(optimizer)
        self._warmed_steps += 1
        self.base_steps += self._policy.base_steps(max(self._world_size, 1), self._applied)
