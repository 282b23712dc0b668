"""The work that a job has left, and the time that it takes.

Work is counted in slot-seconds at the job's present size, of a waiting job at its preferred one. How much is left comes
from the share that workers report as done, else from the duration that the user declared. Where neither tells, a guess
is made from the service attained so far: a job that has had little is likely to need little (least attained service:
Nuyens & Wierman, "The foreground-background queue: a survey", 2008; for training jobs Gu et al., "Tiresias", 2019).
"""

import math
from enum import StrEnum
from typing import NamedTuple

from scheduler.config import PolicySettings
from scheduler.model.job import Job

#: Progress below this share says nothing yet about the whole.
FRACTION_MIN = 0.005
#: A job that overran its declared duration by no more than this share is expected to end at any moment.
OVERRUN_SHARE = 0.05
#: Ratio of the bounds of a service class and the one before it.
CLASS_FACTOR = 4.0


class EndBasis(StrEnum):
    """The basis of a predicted end."""

    #: The time limit of its attempt; it may end earlier, and not later.
    TIME_LIMIT = "TIME_LIMIT"
    #: The duration that was declared for it.
    DECLARED = "DECLARED"
    #: The share of the work that its workers report as done.
    REPORTED = "REPORTED"
    #: One of its workers has already ended with success.
    FINISHING = "FINISHING"


class WorkLeft(NamedTuple):
    """The work that a job has left, and how that is known."""

    slot_seconds: float
    basis: EndBasis


def work_left(job: Job, at: float, *, trusts_declared: bool = False) -> WorkLeft | None:
    """The work left at this moment; None: nothing tells, or the job ran far longer than declared.

    `trusts_declared`: apply the reported share to the declared work rather than to the measured work.
    """
    progress, declared = job.progress, _declared(job)
    whole = progress.whole_slot_seconds if declared is None or not trusts_declared else declared
    if whole is not None and progress.fraction is not None and progress.fraction >= FRACTION_MIN:
        since_report = job.attained(at) - job.attained(progress.reported_at or at)
        return WorkLeft(max(whole * (1.0 - progress.fraction) - since_report, 0.0), EndBasis.REPORTED)
    if declared is None:
        return None
    left = declared - _attained(job, at)
    return WorkLeft(max(left, 0.0), EndBasis.DECLARED) if left >= -OVERRUN_SHARE * declared else None


def overrun_at(job: Job, now: float) -> float:
    """When a job of which nothing but a declared duration tells will have run far longer; infinite: it waits."""
    declared = _declared(job)
    return math.inf if declared is None else _had_at(job, declared * (1.0 + OVERRUN_SHARE) - _attained(job, now), now)


def guessed_work(job: Job, now: float, settings: PolicySettings) -> tuple[float, float]:
    """Slot-seconds that a job of this attained service is taken to need, and when time alone changes that."""
    had = job.attained(now)
    first = settings.service_class_slot_seconds
    level = service_class(had, settings)
    up_at = _had_at(job, first * math.pow(CLASS_FACTOR, level) - had, now)
    return first * math.pow(CLASS_FACTOR, level - 1), up_at


def service_class(slot_seconds: float, settings: PolicySettings) -> int:
    """The class of jobs with about this attained service; 0 is the least.

    `slot_seconds` is the attained service. A job needs about as much again; class 0 counts as a quarter of its bound.
    """
    if slot_seconds < settings.service_class_slot_seconds:
        return 0
    return 1 + int(math.log(slot_seconds / settings.service_class_slot_seconds, CLASS_FACTOR))


def seconds_left(job: Job, size: int, now: float, settings: PolicySettings) -> float:
    """Seconds left at this size, for published rules.

    Declared work counts before measured work; without either, it is a guess.
    """
    known = work_left(job, now, trusts_declared=True)
    return seconds_for(job, guessed_work(job, now, settings)[0] if known is None else known.slot_seconds, size)


def seconds_for(job: Job, slot_seconds: float, size: int) -> float:
    """Seconds that the job takes for this work with this number of workers; one without slots counts as one slot."""
    present = len(job.wanted_workers) or job.preferred_workers
    seconds = slot_seconds / (present * max(job.shape.slots, 1))
    return seconds if size == present else seconds * job.speed(present) / job.speed(size)


def keeps_work(job: Job) -> bool:
    """Whether the job goes on where it was stopped; an ordinary command begins again at each attempt."""
    return job.spec.runtime.reports or job.spec.data is not None


def _had_at(job: Job, more: float, now: float) -> float:
    """When the job will have had this many slot-seconds more, after now; infinite: it waits."""
    slots = sum(len(worker.slot_ids) for worker in job.workers)
    return max(now + more / slots, math.nextafter(now, math.inf)) if slots else math.inf


def _declared(job: Job) -> float | None:
    """Slot-seconds of the declared duration, at the job's present size."""
    expected = job.spec.expected_seconds
    return None if expected is None else expected / seconds_for(job, 1.0, job.preferred_workers)


def _attained(job: Job, at: float) -> float:
    """The service whose work counts."""
    attained = job.attained(at)
    return attained if keeps_work(job) or job.attempt <= 1 else attained - job.served_slot_seconds
