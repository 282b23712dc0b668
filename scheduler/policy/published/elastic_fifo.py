"""elastic-fifo: every job gets the minimum in order of submission, then one worker after the other in turns.

The ElasticFIFO algorithm of the Voda scheduler for elastic training (https://github.com/heyfey/vodascheduler, 2021).
"""

from collections.abc import Mapping, Sequence

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.published.minimums import one_by_one
from scheduler.policy.published.rule import Rule


def sizes(jobs: Sequence[Job], slots: int, now: float, settings: PolicySettings) -> Mapping[JobId, int]:
    """The job with the fewest workers beyond its minimum is next."""
    return one_by_one(jobs, slots, lambda job, size: size - job.min_workers)


RULE = Rule(sizes=sizes)
