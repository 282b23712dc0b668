"""shortest: the job with the least time left at its preferred size goes first, and stops those that need longer.

Shortest remaining processing time first has the least mean completion time on one machine: L. Schrage, "A Proof of the
Optimality of the Shortest Remaining Processing Time Discipline", 1968. It needs declared durations; without one, a
job is taken to need about as much as it has had.
"""

import math

from scheduler.config import PolicySettings
from scheduler.model.job import Job
from scheduler.policy.estimate.work_left import EndBasis, guessed_work, overrun_at, seconds_left, work_left
from scheduler.policy.published.rule import Rule


def time_left(job: Job, now: float, settings: PolicySettings) -> float:
    """Seconds that the job still needs at its preferred size."""
    return seconds_left(job, job.preferred_workers, now, settings)


def time_left_grows(job: Job, now: float, settings: PolicySettings) -> float:
    """When the time left of a running job grows, as it has had more than was guessed or declared; else it shrinks."""
    known = work_left(job, now, trusts_declared=True)
    if known is None:
        return guessed_work(job, now, settings)[1]
    return overrun_at(job, now) if known.basis is EndBasis.DECLARED else math.inf


RULE = Rule(key=time_left, stops_equals=True, key_changes_at=time_left_grows)
