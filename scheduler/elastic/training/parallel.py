"""Measures how far ranks' gradients are apart where `DistributedDataParallel` averages them. Imports torch.

The numbers are taken in DDP's communication hook, which sees a bucket's gradients before and after they are averaged.
"""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.modules.module import register_module_module_registration_hook
from torch.nn.parallel import DistributedDataParallel

from scheduler.elastic.group.group import Group
from scheduler.elastic.training.gradients import square

#: As `DistributedDataParallel.register_comm_hook` takes it.
Hook = Callable[[Any, GradBucket], torch.futures.Future[torch.Tensor]]
#: This rank's part of a measurement: shares, samples, and what they add to `Shares.apart` and `Shares.together`.
Told = tuple[float, ...]
NOTHING: Told = (0.0, 0.0, 0.0, 0.0)


class ParallelGradients:
    """Follows the models that the script wraps in `DistributedDataParallel` while a group lives.

    What DDP averages are gradients that add up to the mean loss over all ranks' samples (see `sampler.weight`), so
    that a rank's own one times samples ÷ ranks is the sum over its share. A step is measured where each model's
    gradients were averaged once in it: after gradient accumulation without `no_sync`, a bucket holds what others
    computed as well.

    With one rank alone the last gradient and the one before stand for two shares, as in `GradientAverager`.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter], group: Group) -> None:
        self._parameters = {id(parameter) for parameter in parameters}
        self._group = group
        self._rank = group.rank
        self._size = group.size
        self._found: list[weakref.ref[DistributedDataParallel]] = []
        self._step = _Step()
        #: Of the step before, where this rank is alone: the sums in each bucket, and what they are of.
        self._last: _Step | None = None
        self._measured: _Step | None = None
        # DDP is a module whose `module` is the model: this is called while one is being made.
        self._handle = register_module_module_registration_hook(self._registered)

    def close(self) -> None:
        """Looks for no more of them."""
        self._handle.remove()

    def attend(self) -> bool:
        """Gives its hook to each model found since the last call; whether there was one.

        One with a hook of the script's own is left as it is: see `measured`.
        """
        found, self._found = self._found, []
        attended = False
        for reference in found:
            model = reference()
            if model is not None and self._is_trained(model):
                attended |= self._attend(model)
        return attended

    def measured(self, hook: Hook) -> Hook:
        """A communication hook that does what this one does, and measures."""

        def measure(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
            key = self._before(bucket)
            future = self._group.guard(hook(state, bucket), bucket.buffer())
            return future.then(lambda done: self._after(key, done.value()))

        return measure

    def deal(self, samples: int, total: int) -> None:
        """Another share of this step: samples of this rank, and of all."""
        self._step.samples += samples
        self._step.total += total

    def end_step(self) -> None:
        """The gradients are about to be used: what was averaged until now belongs to one step."""
        step, self._step = self._step, _Step()
        if self._measured is not None:
            # Nobody has read it: with it the steps before would be kept.
            self._measured.before = None
        if step.averaged:
            whole = step.total > 0 and not step.repeated
            self._measured = step if whole else None
            self._last = step if whole and self._size == 1 else None

    def take(self) -> Told:
        """This rank's part of the last measurement, nothing twice; call it where the device has done its work."""
        step, self._measured = self._measured, None
        if step is None:
            return NOTHING
        return step.alone() if self._size == 1 else step.told(self._size, source=self._rank == 0)

    def _registered(self, module: torch.nn.Module, name: str, _submodule: torch.nn.Module | None) -> None:
        if name == "module" and isinstance(module, DistributedDataParallel):
            self._found.append(weakref.ref(module))

    def _is_trained(self, model: DistributedDataParallel) -> bool:
        return any(id(parameter) in self._parameters for parameter in model.parameters())

    def _attend(self, model: DistributedDataParallel) -> bool:
        if model._comm_hooks:
            return False
        try:
            model.register_comm_hook(model.process_group, self.measured(self._average))
        except RuntimeError:
            # It has one of torch's built-in hooks, which leave no other trace.
            model._comm_hooks.pop()
            return False
        return True

    def _average(self, group: dist.ProcessGroup, bucket: GradBucket) -> torch.futures.Future[Any]:
        """What DDP does where there is no hook."""
        buffer = bucket.buffer().div_(group.size())
        work = dist.all_reduce(buffer, group=group, async_op=True)
        assert work is not None
        future: torch.futures.Future[Any] = work.get_future()
        return future

    def _before(self, bucket: GradBucket) -> "_Key":
        """Looks at this rank's gradients; which bucket of which model it is."""
        step, buffer = self._step, bucket.buffer()
        parameters = bucket.parameters()
        key = (id(parameters[0]), len(parameters), buffer.numel())
        step.note(parameters)
        step.apart[key] = square(buffer)
        if self._size == 1:
            step.sums[key] = buffer * step.samples
            if self._last is not None and key in self._last.sums:
                both = self._last.sums.pop(key).add_(step.sums[key])
                step.together[key] = square(both)
                step.before = self._last
        return key

    def _after(self, key: "_Key", result: Any) -> torch.Tensor:
        averaged: torch.Tensor = result[0] if isinstance(result, list) else result
        if self._size > 1 and self._rank == 0:
            self._step.together[key] = square(averaged)
        return averaged


_Key = tuple[int, int, int]


class _Step:
    """What is known of one step: numbers by bucket, on the device."""

    def __init__(self) -> None:
        #: Dealt to this rank, and to all.
        self.samples = 0
        self.total = 0
        #: Parameters whose gradients were averaged, and whether any were so again.
        self.averaged: set[int] = set()
        self.repeated = False
        self.apart: dict[_Key, torch.Tensor] = {}
        self.together: dict[_Key, torch.Tensor] = {}
        #: Of a rank that is alone: gradients of the sum over its samples, until the next step has looked at them.
        self.sums: dict[_Key, torch.Tensor] = {}
        self.before: _Step | None = None

    def note(self, parameters: Iterable[torch.Tensor]) -> None:
        """These are averaged now. By parameter, since DDP lays its buckets out anew after the first time."""
        found = {id(parameter) for parameter in parameters}
        self.repeated |= not self.averaged.isdisjoint(found)
        self.averaged |= found

    def told(self, size: int, source: bool) -> Told:
        """`source`: this rank's numbers stand for what all of them see."""
        apart = _number(self.apart) * (self.total / size) ** 2 / self.samples if self.samples else 0.0
        return (
            float(self.samples > 0),
            float(self.total) if source else 0.0,
            apart,
            _number(self.together) if source else 0.0,
        )

    def alone(self) -> Told:
        """Two steps as two shares; nothing where the buckets are others than in the step before."""
        before, self.before = self.before, None
        if before is None or self.together.keys() != self.apart.keys() or before.apart.keys() != self.apart.keys():
            return NOTHING
        samples = before.samples + self.samples
        apart = _number(before.apart) * before.samples + _number(self.apart) * self.samples
        return 2.0, float(samples), apart, _number(self.together) / samples**2


def _number(squares: dict[_Key, torch.Tensor]) -> float:
    return float(sum(value.item() for value in squares.values()))
