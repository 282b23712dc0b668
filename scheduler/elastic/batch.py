"""What happens to the batch when the number of ranks changes, and handling of uneven batches. Imports torch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import default_collate

from scheduler.elastic.errors import UsageError


class BatchPolicy(Protocol):
    """Says how large a step is and how the learning rate follows."""

    def global_batch(self, world_size: int) -> int:
        """Samples of one step on all ranks together."""

    def rate_factor(self, world_size: int) -> float:
        """What the learning rate is multiplied with once it has settled at this size."""

    @property
    def warmup_steps(self) -> int:
        """Steps over which the factor moves to its new value after a resize."""


@dataclass(frozen=True, slots=True)
class ConstantBatch:
    """A step has the same number of samples at every size, so a resize changes nothing for the optimizer.

    Fewer ranks get larger shares; `micro_batches` keeps the memory bounded by gradient accumulation.
    """

    samples: int

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise UsageError(f"a global batch has at least one sample, not {self.samples}")

    def global_batch(self, world_size: int) -> int:
        """The same for every size."""
        return self.samples

    def rate_factor(self, world_size: int) -> float:
        """Always one."""
        return 1.0

    @property
    def warmup_steps(self) -> int:
        """None needed."""
        return 0


@dataclass(frozen=True, slots=True)
class ScaledBatch:
    """Each rank has the same number of samples at every size, and the learning rate grows with the number of ranks.

    Linear scaling with warm-up as in Goyal et al., "Accurate, Large Minibatch SGD" (2017). The rates that the
    optimizer and its schedule hold are those for `base_workers`; the factor is applied during `optimizer.step()`
    only, so schedules never see it.
    """

    per_worker: int
    base_workers: int = 1
    warmup_steps: int = 100

    def __post_init__(self) -> None:
        if self.per_worker < 1 or self.base_workers < 1 or self.warmup_steps < 0:
            raise UsageError("per_worker and base_workers are at least 1, warmup_steps at least 0")

    def global_batch(self, world_size: int) -> int:
        """Grows with the group."""
        return self.per_worker * world_size

    def rate_factor(self, world_size: int) -> float:
        """Linear in the number of ranks."""
        return world_size / self.base_workers


class RateScaler:
    """Applies a policy's factor around each `optimizer.step()`; its progress is part of the committed state."""

    def __init__(self, policy: BatchPolicy, optimizer: torch.optim.Optimizer) -> None:
        self._policy = policy
        self._start = self._target = 0.0
        self._steps = 0
        self._rates: list[Any] = []
        optimizer.register_step_pre_hook(self._scale)
        optimizer.register_step_post_hook(self._unscale)

    @property
    def factor(self) -> float:
        """What the next step's learning rate is multiplied with."""
        if self._steps >= self._policy.warmup_steps:
            return self._target
        return self._start + (self._target - self._start) * (self._steps + 1) / self._policy.warmup_steps

    def set_group(self, world_size: int) -> None:
        """Aims at the factor for this size; the first size is taken at once, later ones over the warm-up."""
        target = self._policy.rate_factor(world_size)
        if target == self._target:
            return
        self._start = self.factor or target
        self._target = target
        self._steps = 0

    def state_dict(self) -> dict[str, Any]:
        """Where the warm-up stands."""
        return {"start": self._start, "target": self._target, "steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes back to where it stood."""
        self._start, self._target, self._steps = state["start"], state["target"], state["steps"]

    def _scale(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._rates = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * self.factor

    def _unscale(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate
        self._steps += 1


def micro_batches(tensors: Sequence[torch.Tensor], samples: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """Splits a loaded batch along its first dimension into pieces of at most `samples`, for gradient accumulation.

    An empty batch yields nothing. Use losses that are sums over samples (`loss="sum"` in `average_gradients`):
    pieces may be of unequal size.
    """
    if len(tensors[0]):
        yield from zip(*(tensor.split(samples) for tensor in tensors), strict=True)


def collate_empty(dataset: Any, collate: Callable[[list[Any]], Any] = default_collate) -> Callable[[list[Any]], Any]:
    """A `collate_fn` that turns an empty share into a batch of zero samples with the right shapes and types."""

    def collate_any(items: list[Any]) -> Any:
        return collate(items) if items else _emptied(collate([dataset[0]]))

    return collate_any


def _emptied(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, dict):
        return {key: _emptied(value) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_emptied(value) for value in batch)
    if isinstance(batch, list):
        return [_emptied(value) for value in batch]
    return batch
