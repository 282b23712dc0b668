"""Training with a measured profile: steps, batch sizes and progress per epoch, as in AdaptDL's simulator.

The batch size is either fixed, and then divided among the workers, or the workers choose the one that makes most
progress at their number and epoch, as Pollux does. A worker whose share does not fit into its memory accumulates
gradients over several smaller steps, of which only the last synchronises.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

from scheduler.clusters.simulated.work import Pace
from scheduler.simulate.adaptdl_profile import Application

#: Batch sizes that a tuning worker tries, in equal ratios.
_CHOICES = 40
_EPSILON = 1e-8


@dataclass(frozen=True, slots=True)
class Step:
    """How a job trains at one placement: total batch size, and seconds per step."""

    batch: int
    seconds: float


class Batching(Protocol):
    """How the batch size follows from the workers."""

    def steps(self, application: Application, members: tuple[int, ...]) -> tuple[Step, ...]:
        """What these workers may do; they take what makes most progress."""
        ...


@dataclass(frozen=True, slots=True)
class FixedBatch:
    """Always the same total, but for rounding."""

    batch: int

    def steps(self, application: Application, members: tuple[int, ...]) -> tuple[Step, ...]:
        return (step_of(application, members, self.batch),)


@dataclass(frozen=True, slots=True)
class TunedBatch:
    """From the smallest that was measured, or that fills the workers, to the largest."""

    def steps(self, application: Application, members: tuple[int, ...]) -> tuple[Step, ...]:
        low = max(application.batch_min, application.local_batch_min * sum(members))
        high = max(application.batch_max, low)
        ratio = (high / low) ** (1 / (_CHOICES - 1))
        batches = sorted({round(low * ratio**i) for i in range(_CHOICES)})
        return tuple(step_of(application, members, batch) for batch in batches)


def step_of(application: Application, members: tuple[int, ...], batch: int) -> Step:
    """One step of these workers over a total batch of about this size."""
    workers = sum(members)
    share = _ceil(batch / workers)
    accumulated = _ceil(share / application.local_batch_max) - 1
    if workers == 1 and batch > application.batch_min:
        accumulated = max(1, accumulated)  # two gradients are needed to measure their variance
    parts = workers * (accumulated + 1)
    local = max(min(_ceil(share / (accumulated + 1)), application.batch_max // parts), 1)
    step_seconds, sync_seconds = application.step_seconds(members, local)
    return Step(parts * local, step_seconds + accumulated * (step_seconds - sync_seconds))


def _ceil(number: float) -> int:
    return math.ceil(number - _EPSILON)


class AdaptdlWork:
    """All epochs of an application, in units of its progress. Jobs that do the same may share one."""

    def __init__(self, application: Application, batching: Batching) -> None:
        self._application = application
        self._batching = batching
        self._steps: dict[tuple[int, ...], tuple[Step, ...]] = {}
        self._paces: dict[tuple[tuple[int, ...], int], Pace] = {}

    @property
    def total(self) -> float:
        return self._application.progress[-1]

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        epoch = min(bisect_right(self._application.progress, done), len(self._application.progress) - 1)
        key = (members, epoch)
        if key not in self._paces:
            self._paces[key] = self._best(members, epoch)
        return self._paces[key]

    def fraction(self, done: float) -> float:
        """Workers count epochs; these make more and less progress."""
        progress = self._application.progress
        epoch = min(bisect_right(progress, done), len(progress) - 1)
        before = progress[epoch - 1] if epoch else 0.0
        return (epoch + (done - before) / (progress[epoch] - before)) / len(progress)

    def _best(self, members: tuple[int, ...], epoch: int) -> Pace:
        if members not in self._steps:
            self._steps[members] = self._batching.steps(self._application, members)
        paces = [self._pace(step, epoch) for step in self._steps[members]]
        return max(paces, key=lambda pace: pace.per_second)

    def _pace(self, step: Step, epoch: int) -> Pace:
        application = self._application
        gain = application.gain(min(max(step.batch, application.batch_min), application.batch_max), epoch)
        tuned = isinstance(self._batching, TunedBatch)  # of a fixed batch, every sample is worth the same at any size
        return Pace(
            gain / step.seconds,
            application.progress[epoch],
            samples_per_second=step.batch / step.seconds,
            efficiency=min(gain * application.batch_min / step.batch, 1.0) if tuned else None,
        )
