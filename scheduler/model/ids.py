"""Identifiers. A job's id is a number; a worker's is `<job>-<ordinal>`, and neither is ever reused."""

from typing import NewType

JobId = NewType("JobId", int)
WorkerId = NewType("WorkerId", str)
NodeName = NewType("NodeName", str)


def worker_id(job_id: JobId, ordinal: int) -> WorkerId:
    """The id of a job's `ordinal`-th worker, counted from 1 over all attempts."""
    return WorkerId(f"{job_id}-{ordinal}")


def ordinal_of(worker: WorkerId) -> int:
    """Which of its job's workers it is."""
    return int(worker.rpartition("-")[2])


def job_of(worker: WorkerId) -> JobId:
    """The job that a worker of this id belongs to. Raises `ValueError` if there is no such id."""
    return JobId(int(worker.rpartition("-")[0]))
