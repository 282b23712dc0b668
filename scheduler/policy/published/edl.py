"""edl: the job that is least fulfilled gets the next worker, and the most fulfilled gives when a job waits.

Fulfilment is the share of the way from the minimum to the maximum, as in the autoscaler of Paddle EDL (PaddlePaddle
Elastic Deep Learning, `pkg/autoscaler.go`, 2018).
"""

from collections.abc import Mapping, Sequence

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.published.minimums import one_by_one
from scheduler.policy.published.rule import Rule


def fulfilment(job: Job, size: int) -> float:
    """0 at the minimum, 1 at the maximum."""
    return (size - job.min_workers) / (job.max_workers - job.min_workers) if job.elastic else 1.0


def sizes(jobs: Sequence[Job], slots: int, now: float, settings: PolicySettings) -> Mapping[JobId, int]:
    return one_by_one(jobs, slots, fulfilment)


RULE = Rule(sizes=sizes)
