"""What a test of the store does over and over: submit, admit, lead, commit."""

from dataclasses import replace

from scheduler.engine.ports import Lease
from scheduler.model.ids import JobId, NodeName, worker_id
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.worker import ExitReason, Worker, WorkerState
from scheduler.model.world import Changes
from scheduler.store import SqlStore

NOW = 1_000.25
SPEC = JobSpec("train", ("python", "train.py"), max_workers=4)
#: The node of all workers.
HOME = "home"


def lead(store: SqlStore, holder: str = "engine") -> Lease:
    lease = store.acquire_lease(holder, NOW, 1e9)
    assert lease is not None
    return lease


def admitted(store: SqlStore, lease: Lease, *specs: JobSpec) -> list[Job]:
    """Submit the specs and take them out of the inbox, as a tick does."""
    store.submit(specs or (SPEC,), NOW)
    inbox = store.take_inbox(10_000)
    nodes = () if store.list_nodes() else (Node(NodeName(HOME), "10.0.0.1", 8),)  # where workers are
    store.commit(Changes(nodes=nodes, intents_done=tuple(intent.id for intent in inbox.intents)), lease, NOW)
    return list(inbox.jobs)


def live_worker(job_id: JobId, ordinal: int, **fields: object) -> Worker:
    worker = Worker(worker_id(job_id, ordinal), job_id, ordinal, NodeName(HOME), "10.0.0.1", (0,), NOW)
    return replace(worker, **fields)  # type: ignore[arg-type]


def started(job: Job, count: int = 2) -> Job:
    """The job with `count` workers that are to be launched."""
    workers = tuple(live_worker(job.id, n) for n in range(1, count + 1))
    return replace(
        job,
        state=JobState.STARTING,
        attempt=1,
        started_at=NOW,
        wait_reason=None,
        workers=workers,
        next_ordinal=count + 1,
    )


def ended(worker: Worker) -> Worker:
    return replace(worker, state=WorkerState.EXITED, ended_at=NOW + 5, exit_code=0, exit_reason=ExitReason.DONE)


def finished(job: Job) -> tuple[Job, tuple[Worker, ...]]:
    """The job as it succeeds, and its workers as they ended."""
    done = replace(job, state=JobState.SUCCEEDED, finished_at=NOW + 5, workers=())
    return done, tuple(ended(worker) for worker in job.workers)


def stored(*jobs: Job) -> list[Job]:
    """The jobs as a commit leaves them."""
    return [replace(job, version=job.version + 1) for job in jobs]
