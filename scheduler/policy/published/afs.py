"""afs: short jobs first, but a worker goes to a longer one where it gains more there than the shorter one loses.

AFS-L of C. Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021: minimums in order of the
time left with one worker, then worker by worker in a contest of pairs. It needs speeds at different sizes (measured or
declared) and what is left to do; where nothing tells, a job needs about as much as it has had, and its speed is a
power of its size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.estimate.work_left import seconds_left
from scheduler.policy.published.minimums import minimums
from scheduler.policy.published.rule import Rule


@dataclass(frozen=True, slots=True)
class Contestant:
    """A job at a size, and its speed with one more worker."""

    job: Job
    #: Seconds that it still takes at this size.
    seconds: float
    speed: float
    speed_more: float

    @property
    def gain(self) -> float:
        """The gain relative to its present speed: what a shorter job loses when it goes without."""
        return (self.speed_more - self.speed) / self.speed

    @property
    def gain_of_more(self) -> float:
        """The gain relative to its speed with the worker: what a longer job gains."""
        return (self.speed_more - self.speed) / self.speed_more


def time_alone(job: Job, now: float, settings: PolicySettings) -> float:
    """Seconds that the job would still take with one worker."""
    return seconds_left(job, 1, now, settings)


def preferred(a: Contestant, b: Contestant) -> Contestant:
    """The one of the two that gets the next worker."""
    shorter, longer = (a, b) if a.seconds <= b.seconds else (b, a)
    return longer if longer.gain_of_more > shorter.gain else shorter


def sizes(jobs: Sequence[Job], slots: int, now: float, settings: PolicySettings) -> Mapping[JobId, int]:
    """Workers per job; `jobs` come in the order of `time_alone`."""
    given, left = minimums(jobs, slots)
    alone = {job.id: time_alone(job, now, settings) for job in jobs}
    # A contest of pairs may end otherwise in another order: it is always that of submission.
    in_turn = sorted(jobs, key=lambda job: job.id)
    contest = {job.id: _contestant(job, given[job.id], alone[job.id]) for job in in_turn if given[job.id]}
    while True:
        open_to = [
            each
            for each in contest.values()
            if each.job.shape.slots <= left
            and given[each.job.id] < each.job.max_workers
            and each.speed_more > each.speed
        ]
        if not open_to:
            return given
        job = reduce(preferred, open_to).job
        given[job.id] += 1
        left -= job.shape.slots
        contest[job.id] = _contestant(job, given[job.id], alone[job.id])


def _contestant(job: Job, size: int, alone: float) -> Contestant:
    speed = job.speed(size)
    return Contestant(job, alone * job.speed(1) / speed, speed, job.speed(size + 1))


RULE = Rule(key=time_alone, sizes=sizes)
