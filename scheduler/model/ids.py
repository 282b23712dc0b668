"""Identifiers. A job's id is a number; a worker's is `<job>-<ordinal>`, and a database never reuses either.

A database that is restored from a backup gives the same ids again, to other jobs. Each job has a random nonce, and a
`JobKey` holds both.
"""

from typing import NewType

JobId = NewType("JobId", int)
WorkerId = NewType("WorkerId", str)
#: A job among all that had its id in any life of the database: `<id>-<nonce>`, or `<id>` for a job without nonce.
JobKey = NewType("JobKey", str)
NodeName = NewType("NodeName", str)


def worker_id(job_id: JobId, ordinal: int) -> WorkerId:
    """The id of a job's `ordinal`-th worker, counted from 1 over all attempts."""
    return WorkerId(f"{job_id}-{ordinal}")


def job_key(job_id: JobId, nonce: str) -> JobKey:
    """Names the directories of the job."""
    return JobKey(f"{job_id}-{nonce}" if nonce else str(job_id))


def split_job_key(key: str) -> tuple[JobId, str]:
    """Id and nonce of the job. ValueError where it is no key."""
    number, _, nonce = key.partition("-")
    return JobId(int(number)), nonce


def ordinal_of(worker: WorkerId) -> int:
    """Which of its job's workers it is."""
    return int(worker.rpartition("-")[2])


def job_of(worker: WorkerId) -> JobId:
    """The job that a worker of this id belongs to. Raises `ValueError` if there is no such id."""
    return JobId(int(worker.rpartition("-")[0]))
