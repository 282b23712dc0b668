"""Importance: who goes before whom in the queue, and who may take from whom."""

import math
from collections.abc import Iterable

from scheduler.config import PolicySettings
from scheduler.model.job import Job

_HOUR_SECONDS = 3600.0


def aged(priority: int, waited_seconds: float, settings: PolicySettings) -> float:
    """The priority after so much waiting; always below every ceiling that lies above the base priority."""
    if settings.aging_per_hour == 0:
        return priority
    value = priority + settings.aging_per_hour * max(waited_seconds, 0.0) / _HOUR_SECONDS
    ceilings = [ceiling for ceiling in settings.aging_ceilings if ceiling > priority]
    if not ceilings:
        return value
    return min(value, math.nextafter(min(ceilings), -math.inf))


class Order:
    """Importance of jobs at one moment."""

    def __init__(self, now: float, settings: PolicySettings) -> None:
        self._now = now
        self._settings = settings

    def effective(self, job: Job) -> float:
        """Base priority and what waiting added: up to now for a waiting job, up to its start for an active one."""
        if self._settings.aging_per_hour == 0:
            return job.priority
        waited = job.waited_seconds if job.state.active else self._now - job.queued_at
        return aged(job.priority, waited, self._settings)

    def more_important(self, a: Job, b: Job) -> bool:
        """Whether `a` may take from `b`: both its base and its effective priority are strictly higher."""
        return a.priority > b.priority and self.effective(a) > self.effective(b)

    def queue(self, jobs: Iterable[Job]) -> list[Job]:
        """Waiting jobs in the order in which they are served: effective priority, then age, then id."""
        if self._settings.aging_per_hour == 0:
            return sorted(jobs, key=_plain_key)
        effective = self.effective
        return sorted(jobs, key=lambda job: (-effective(job), job.submitted_at, job.id))


def _plain_key(job: Job) -> tuple[int, float, int]:
    return (-job.priority, job.submitted_at, job.id)
