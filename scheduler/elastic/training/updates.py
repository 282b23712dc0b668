"""The way from gradients to parameters: average, measure, scale the learning rate. Imports torch."""

from collections.abc import Iterator
from typing import Any

import torch

from scheduler.elastic.errors import UsageError
from scheduler.elastic.group.group import Group
from scheduler.elastic.training.batch import BatchPolicy
from scheduler.elastic.training.gradients import GradientAverager
from scheduler.elastic.training.learning_rate import RateScaler
from scheduler.elastic.training.noise import NoiseScale, Shares, efficiency
from scheduler.elastic.training.parallel import NOTHING, Hook, ParallelGradients, Told


class Updates:
    """What an elastic training adds around `optimizer.step()`; what it has learnt is part of the committed state."""

    def __init__(self, optimizer: torch.optim.Optimizer, policy: BatchPolicy | None) -> None:
        self._optimizer = optimizer
        self._policy = policy
        self._noise = NoiseScale()
        #: None where there is no batch policy to follow
        self.rates = RateScaler(policy, optimizer, self._noise) if policy is not None else None
        self._averager: GradientAverager | None = None
        #: while there is a group
        self._parallel: ParallelGradients | None = None
        self._world_size = 1
        optimizer.register_step_pre_hook(self._step_begins)

    @property
    def noise_scale(self) -> float | None:
        """In samples; None before two gradients were measured."""
        return self._noise.samples

    @property
    def efficiency(self) -> float | None:
        """What a sample of the present batch brings, against one of the batch of a single worker: 0 to 1."""
        noise = self._noise.samples
        if self._policy is None or noise is None:
            return None
        base, batch = self._policy.global_batch(1), self._policy.global_batch(self._world_size)
        return min(efficiency(noise, base, batch), 1.0)

    def average(self, group: Group, samples: int, loss_is_sum: bool, vote: bool) -> tuple[int, bool]:
        """See `GradientAverager.average`. How many samples all ranks had, and whether any voted."""
        trainable = [parameter for parameter in self._parameters() if parameter.requires_grad]
        if self._averager is None or not self._averager.is_of(trainable):  # at first, and where layers are unfrozen
            self._averager = GradientAverager(trainable)
            self._measures()
        averaged = self._averager.average(group, samples, loss_is_sum, vote)
        if averaged.shares is not None:
            self._noise.add(averaged.shares)
        return averaged.samples, averaged.voted

    def deal(self, samples: int, total: int) -> None:
        """A share of a step begins: samples of this rank, and of all."""
        if self._parallel is not None:
            if self._parallel.attend():
                self._measures()
            self._parallel.deal(samples, total)

    def measured(self, hook: Hook) -> Hook:
        """See `State.measured`."""
        if self._parallel is None:
            raise UsageError("measured() only works inside the function passed to run()")
        self._measures()
        return self._parallel.measured(hook)

    def tell(self) -> Told:
        """What this rank measured under DDP, for all ranks' sum of it; call it where the device has done its work."""
        return self._parallel.take() if self._parallel is not None else NOTHING

    def hear(self, told: Told) -> None:
        """The sum of what all ranks told."""
        count, samples, apart, together = told
        # Fewer than two shares tell nothing about each other.
        if count > 1:
            self._noise.add(Shares(round(count), round(samples), apart, together))

    def settle(self) -> None:
        """A step has ended, also on the device."""
        if self._averager is not None:
            self._averager.settle()
        if self.rates is not None:
            self.rates.put_back(self._optimizer)

    def set_group(self, group: Group) -> None:
        """From now on this is the group."""
        self._world_size = group.size
        self._parallel = ParallelGradients(self._parameters(), group)
        if self.rates is not None:
            self.rates.set_group(group.size)

    def leave_group(self) -> None:
        """Drops the buffers, which a collective of a lost group may still hold, and leaves the learning rate alone."""
        self._averager = None
        if self._parallel is not None:
            self._parallel.close()
            self._parallel = None
        if self.rates is not None:
            self.rates.rest(self._optimizer)

    def state_dict(self) -> dict[str, Any]:
        """Means of what was measured, and where the learning rate stands."""
        rates = self.rates.state_dict() if self.rates is not None else None
        return {"noise": self._noise.state_dict(), "rates": rates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes back to them."""
        self._noise.load_state_dict(state["noise"])
        if self.rates is not None and state["rates"] is not None:
            self.rates.load_state_dict(state["rates"])

    def _parameters(self) -> Iterator[torch.nn.Parameter]:
        return (parameter for group in self._optimizer.param_groups for parameter in group["params"])

    def _measures(self) -> None:
        if self.rates is not None:
            self.rates.measures = True

    def _step_begins(self, *_: Any) -> None:
        if self._parallel is not None:
            self._parallel.end_step()
