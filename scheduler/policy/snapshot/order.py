"""Importance of jobs: their order in the queue, which may take from which, and when a time limit ends a job."""

import math
from collections.abc import Iterable

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job

_HOUR_SECONDS = 3600.0

#: Place in the queue, smaller first: effective priority, then age, then id.
Rank = tuple[float, float, JobId]


def aged(priority: int, waited_seconds: float, settings: PolicySettings) -> float:
    """The priority after waiting; always below every ceiling that lies above the base priority."""
    if settings.aging_per_hour == 0:
        return priority
    value = priority + settings.aging_per_hour * max(waited_seconds, 0.0) / _HOUR_SECONDS
    ceilings = [ceiling for ceiling in settings.aging_ceilings if ceiling > priority]
    if not ceilings:
        return value
    return min(value, math.nextafter(min(ceilings), -math.inf))


def end_of(job: Job, started_at: float | None) -> float | None:
    """When the job's time limit ends the attempt; None if it has none."""
    if job.spec.time_limit_seconds is None or started_at is None:
        return None
    return started_at + job.spec.time_limit_seconds


class Order:
    """Importance of jobs at one moment."""

    def __init__(self, now: float, settings: PolicySettings) -> None:
        self.now = now
        self._settings = settings
        #: Whether ranks of waiting jobs change with time; published policies have orders of their own.
        self.ages = settings.aging_per_hour > 0 and settings.name == "elastic"

    def effective(self, job: Job) -> float:
        """Base priority and aging: up to now for a waiting job, up to its start for an active one."""
        if not self.ages:
            return job.priority
        waits = 0.0 if job.state.active else self.now - job.queued_at
        return aged(job.priority, job.waited_seconds + waits, self._settings)

    def more_important(self, a: Job, b: Job) -> bool:
        """Whether `a` may take from `b`: both its base and its effective priority are strictly higher."""
        return a.priority > b.priority and (not self.ages or self.effective(a) > self.effective(b))

    def rank(self, job: Job) -> Rank:
        """The rank of a waiting job in the queue."""
        importance = self.effective(job) if self.ages else job.priority
        return (-importance, job.submitted_at, job.id)

    def queue(self, jobs: Iterable[Job]) -> list[Job]:
        """Waiting jobs in the order in which they are served."""
        return sorted(jobs, key=self.rank)
