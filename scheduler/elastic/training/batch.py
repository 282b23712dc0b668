"""What happens to the batch when the number of ranks changes, and handling of uneven batches. Imports torch."""

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, Protocol, assert_never, get_args, runtime_checkable

import torch
from torch.utils.data import default_collate

from scheduler.elastic.errors import UsageError
from scheduler.elastic.training.arguments import shown, whole
from scheduler.elastic.training.noise import gain


@runtime_checkable
class BatchPolicy(Protocol):
    """Says how large a step is and how the learning rate follows."""

    def global_batch(self, world_size: int) -> int:
        """Samples of one step on all ranks together."""

    def rate_factor(self, world_size: int, noise: float | None) -> float:
        """What the learning rate is multiplied with once it has settled at this size; `noise`: the noise scale."""

    def base_steps(self, world_size: int, rate_factor: float) -> float:
        """How many steps of the base size one step at this size is worth, taken with this factor."""

    @property
    def warmup_steps(self) -> int:
        """Steps over which the factor moves to its new value after a resize."""

    @property
    def needs_noise(self) -> bool:
        """Whether the factor depends on the noise scale."""


@dataclass(frozen=True, slots=True)
class ConstantBatch:
    """A step has the same number of samples at every size, so a resize changes nothing for the optimizer.

    Fewer ranks get larger shares; `micro_batches` keeps the memory bounded by gradient accumulation.
    """

    samples: int

    def __post_init__(self) -> None:
        whole("samples of a ConstantBatch", self.samples, 1)

    def global_batch(self, world_size: int) -> int:
        """Constant."""
        return self.samples

    def rate_factor(self, world_size: int, noise: float | None) -> float:
        """Always one."""
        return 1.0

    def base_steps(self, world_size: int, rate_factor: float) -> float:
        """Always one."""
        return 1.0

    @property
    def warmup_steps(self) -> int:
        """None needed."""
        return 0

    @property
    def needs_noise(self) -> bool:
        """It does not."""
        return False


Rate = Literal["linear", "sqrt", "adascale"]


@dataclass(frozen=True, slots=True)
class ScaledBatch:
    """Each rank has the same number of samples at every size, and the learning rate grows with the number of ranks.

    The rates that the optimizer and its schedule hold are those for `base_workers`; the factor is applied during
    `optimizer.step()` only, so schedules never see it. With k = ranks / `base_workers` it is, by `rate`:

    linear: k. Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour" (2017).
    sqrt: √k. Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014); for Adam and
        RMSProp: Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms" (2022).
    adascale: AdaScale's gain, 1 to k by the noise in the gradients; see `noise.gain`.
    """

    per_worker: int
    base_workers: int = 1
    warmup_steps: int = 100
    rate: Rate = "linear"

    def __post_init__(self) -> None:
        whole("per_worker", self.per_worker, 1)
        whole("base_workers", self.base_workers, 1)
        whole("warmup_steps", self.warmup_steps, 0)
        if self.rate not in get_args(Rate):
            raise UsageError(f"rate must be one of {', '.join(get_args(Rate))}, not {shown(self.rate)}")

    def global_batch(self, world_size: int) -> int:
        """Grows with the group."""
        return self.per_worker * world_size

    def rate_factor(self, world_size: int, noise: float | None) -> float:
        """By `rate`."""
        scale = world_size / self.base_workers
        match self.rate:
            case "linear":
                return scale
            case "sqrt":
                return math.sqrt(scale)
            case "adascale":
                return gain(noise, self.global_batch(self.base_workers), self.global_batch(world_size))
            case _:
                assert_never(self.rate)

    def base_steps(self, world_size: int, rate_factor: float) -> float:
        """Base steps that hold the same number of samples; with AdaScale, its gain."""
        return rate_factor if self.needs_noise else world_size / self.base_workers

    @property
    def needs_noise(self) -> bool:
        """For AdaScale."""
        return self.rate == "adascale"


def micro_batches(tensors: Sequence[torch.Tensor], samples: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """Splits a loaded batch along its first dimension into pieces of at most `samples`, for gradient accumulation.

    An empty batch yields nothing. Use losses that are sums over samples (`loss="sum"` in `average_gradients`):
    pieces may be of unequal size.
    """
    size = whole("samples", samples, 1)
    if not _are_a_batch(tensors):
        raise UsageError("micro_batches() expects the tensors of a batch: micro_batches((inputs, targets), samples)")
    lengths = {len(tensor) for tensor in tensors}
    if len(lengths) > 1:
        raise UsageError(f"the tensors of a batch must have the same first dimension, not {sorted(lengths)}")
    return zip(*(tensor.split(size) for tensor in tensors), strict=True) if lengths != {0} else iter(())


def collate_empty(dataset: Any, collate: Callable[[list[Any]], Any] = default_collate) -> Callable[[list[Any]], Any]:
    """A `collate_fn` that turns an empty share into a batch of zero samples with the right shapes and types.

    What counts samples in a batch is what grows from one sample to two: dimensions of tensors and arrays, and lists.
    It is found in whatever `collate` makes of lists, tuples, mappings and dataclasses; `UsageError` where nothing is.
    """

    def collate_any(items: list[Any]) -> Any:
        if items:
            return collate(items)
        one, two = collate([dataset[0]]), collate([dataset[0], dataset[0]])
        emptied = _emptied(one, two)
        if emptied is one:
            raise UsageError(
                f"collate_empty() finds nothing that counts samples in {shown(one)}: let collate give tensors, "
                "arrays, or lists, tuples, mappings or dataclasses of them"
            )
        return emptied

    return collate_any


def _are_a_batch(tensors: Any) -> bool:
    """Not one tensor, whose rows would be taken for tensors."""
    if isinstance(tensors, torch.Tensor) or not tensors:
        return False
    return all(isinstance(tensor, torch.Tensor) and tensor.dim() for tensor in tensors)


def _emptied(one: Any, two: Any) -> Any:
    """A batch of one sample without it; `two`: one of two samples."""
    shape = getattr(one, "shape", None)
    if isinstance(shape, tuple):
        grown = next((at for at, (few, more) in enumerate(zip(shape, two.shape, strict=False)) if few != more), None)
        return one if grown is None else one[(slice(None),) * grown + (slice(0),)]
    if isinstance(one, Mapping):
        kept = {key: _emptied(value, two[key]) for key, value in one.items() if key in two}
        return _replaced(one, kept) if isinstance(one, MutableMapping) else kept
    if isinstance(one, list | tuple):
        if len(one) != len(two):
            return one[:0]
        parts = [_emptied(few, more) for few, more in zip(one, two, strict=True)]
        return type(one)(*parts) if hasattr(one, "_fields") else type(one)(parts)
    if is_dataclass(one) and not isinstance(one, type):
        names = [each.name for each in fields(one) if each.init]
        return replace(one, **{name: _emptied(getattr(one, name), getattr(two, name)) for name in names})
    return one


def _replaced(batch: MutableMapping[Any, Any], values: Mapping[Any, Any]) -> MutableMapping[Any, Any]:
    """A mapping of the same type with these values."""
    made = copy(batch)
    made.update(values)
    return made
