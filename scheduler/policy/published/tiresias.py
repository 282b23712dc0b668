"""tiresias: two queues by attained service, first come, first served in each; the first stops the second.

A job that has had little is likely to need little: discretized two-dimensional least attained service, J. Gu et al.,
"Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019. Service is slots times seconds, so nothing
need be known of a job. Sizes are fixed.
"""

import math

from scheduler.config import PolicySettings
from scheduler.model.job import Job
from scheduler.policy.published.rule import Rule

#: A moment computed for the fall into the second queue counts as having reached it.
_ROUNDING = 1e-3


def queue_of(job: Job, now: float, settings: PolicySettings) -> float:
    """0 for a job that has had little, 1 for one that has had as much as the setting says."""
    return 1.0 if job.attained(now) >= settings.tiresias_slot_seconds - _ROUNDING else 0.0


def demoted_at(job: Job, now: float, settings: PolicySettings) -> float:
    """When a running job in the first queue has had so much that it falls into the second."""
    slots = sum(len(worker.slot_ids) for worker in job.workers if worker.started_at is not None)
    missing = settings.tiresias_slot_seconds - job.attained(now)
    return now + missing / slots if slots and missing > _ROUNDING else math.inf


RULE = Rule(key=queue_of, stops_equals=True, key_changes_at=demoted_at)
