"""A result in numbers."""

import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from scheduler.model.job_state import JobState
from scheduler.simulate.faults import FaultCounts
from scheduler.simulate.result import JobResult, Result


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one quantity over jobs."""

    mean: float
    median: float
    p99: float

    @staticmethod
    def of(values: list[float]) -> "Spread | None":
        """None where there are no jobs to speak of."""
        if not values:
            return None
        return Spread(fmean(values), *map(float, np.quantile(values, (0.5, 0.99))))


@dataclass(frozen=True, slots=True)
class Summary:
    """One run; seconds, and means per job where nothing else is said."""

    jobs: int
    #: Jobs whose work was done; the others failed or were never started.
    succeeded: int
    unfinished: int
    completion_seconds: Spread | None
    waiting_seconds: Spread | None
    #: From the first submission to the last end; where jobs still ran when the run was given up, to that.
    makespan_seconds: float
    #: Share of all slots that jobs held as their own, over the same time, or until the scheduler had all of them back.
    utilization: float
    resizes: float
    preemptions: float
    stops: float
    lost_slot_hours: float
    held_slot_hours: float
    shared_slot_hours: float
    #: What went wrong, and what it cost; None: nothing was asked to.
    faults: FaultCounts | None = None


def summarize(result: Result) -> Summary:
    """The numbers of a run."""
    jobs = result.jobs
    begin = min(job.submitted_at for job in jobs)
    end, freed_at = _end(result), result.held[-1].at if result.held else 0.0
    busy_seconds = max(end, freed_at) - begin
    held = math.fsum(job.slot_seconds for job in jobs)
    return Summary(
        jobs=len(jobs),
        succeeded=sum(1 for job in jobs if job.state is JobState.SUCCEEDED),
        unfinished=sum(1 for job in jobs if job.finished_at is None),
        completion_seconds=Spread.of([job.completion_seconds for job in jobs if job.completion_seconds is not None]),
        waiting_seconds=Spread.of([job.waiting_seconds for job in jobs if job.waiting_seconds is not None]),
        makespan_seconds=max(end - begin, 0.0),
        utilization=held / (result.slots * busy_seconds) if busy_seconds > 0 else 0.0,
        resizes=_mean([job.resizes for job in jobs]),
        preemptions=_mean([job.preemptions for job in jobs]),
        stops=_mean([job.stops for job in jobs]),
        lost_slot_hours=math.fsum(job.lost_slot_seconds for job in jobs) / 3600.0,
        held_slot_hours=held / 3600.0,
        shared_slot_hours=math.fsum(job.shared_slot_seconds for job in jobs) / 3600.0,
        faults=result.faults,
    )


def _end(result: Result) -> float:
    """When the last job ended, or the run was given up."""
    ended = [job.finished_at for job in result.jobs if job.finished_at is not None]
    ran_on = any(job.state.active for job in result.jobs)
    return result.ended_at if ran_on else max(ended, default=result.ended_at)


def _mean(values: list[int]) -> float:
    return fmean(values) if values else 0.0


def unfinished(result: Result) -> list[JobResult]:
    """Jobs that did not come to an end."""
    return [job for job in result.jobs if job.finished_at is None]


def failed(result: Result) -> list[JobResult]:
    """Jobs that came to an end without having done their work, as by their time limit."""
    return [job for job in result.jobs if job.finished_at is not None and job.state is not JobState.SUCCEEDED]
