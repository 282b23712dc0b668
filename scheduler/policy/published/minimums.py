"""Common steps of elastic policies: first all minimums, then one worker at a time."""

from collections.abc import Callable, Sequence

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState


def minimums(jobs: Sequence[Job], slots: int) -> tuple[dict[JobId, int], int]:
    """The minimum for running jobs, then for the others in their order as far as it goes; and the slots left."""
    sizes = dict.fromkeys((job.id for job in jobs), 0)
    for job in sorted(jobs, key=lambda job: job.state is JobState.QUEUED):
        needed = job.min_workers * job.shape.slots
        if needed <= slots or job.state is not JobState.QUEUED:
            sizes[job.id] = job.min_workers
            slots -= needed
    return sizes, max(slots, 0)


def one_by_one(jobs: Sequence[Job], slots: int, rank: Callable[[Job, int], float]) -> dict[JobId, int]:
    """Minimums, then each further worker to the job of the smallest rank at its size; the first of those that tie."""
    sizes, left = minimums(jobs, slots)
    growing = [job for job in jobs if sizes[job.id]]
    while growing := [job for job in growing if sizes[job.id] < job.max_workers and job.shape.slots <= left]:
        job = min(growing, key=lambda job: rank(job, sizes[job.id]))
        sizes[job.id] += 1
        left -= job.shape.slots
    return sizes
