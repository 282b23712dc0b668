"""Membership of a job's group: publishing generations, and the job states that follow from it.

No worker is published before it is ready, and the list of a generation never changes: a membership change is a
new generation with a new list, written in one transaction.
"""

from scheduler.config import EngineSettings
from scheduler.engine.changeset import Changeset
from scheduler.engine.state.lifecycle import ask_to_leave
from scheduler.model.event import Cause, EventKind
from scheduler.model.evolve import evolve
from scheduler.model.hosts import host_list
from scheduler.model.ids import JobId
from scheduler.model.job import Job, Runtime
from scheduler.model.job_state import JobState
from scheduler.model.observation import Agreed
from scheduler.model.worker import LeaveReason, Worker, WorkerState

#: Groups of these form anew by themselves.
_REFORMING = frozenset({Runtime.ELASTIC, Runtime.TORCHRUN})
#: Number of workers named in one event.
_NAMED_MAX = 8


def settle(changeset: Changeset, job_id: JobId, settings: EngineSettings) -> None:
    """Publish the next generation if it is due, and move the job between STARTING, RUNNING and RESIZING."""
    job = changeset.the_job(job_id)
    if job.state not in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING):
        return
    members = next_members(job, changeset.now, settings)
    if members is not None:
        job = _publish(changeset, job, members)
    _follow(changeset, job)


def adopt(changeset: Changeset, job_id: JobId, agreed: Agreed) -> None:
    """Apply what a majority of the job's workers agreed on while they could not reach the scheduler; once.

    Live workers that were left out have to leave: `settle` then publishes the others as the next generation. Where that
    is published already, since all of these were found dead, nothing is left to do.
    """
    job = changeset.the_job(job_id)
    if (agreed.generation, agreed.sub) <= job.progress.adopted or agreed.generation > job.generation:
        return
    changeset.put(evolve(job, progress=evolve(job.progress, adopted=(agreed.generation, agreed.sub))))
    names = ", ".join(agreed.lost[:_NAMED_MAX]) + (", …" if len(agreed.lost) > _NAMED_MAX else "")
    changeset.event(
        EventKind.SUBGENERATION_ADOPTED,
        job_id=job_id,
        cause=Cause.WORKERS_LOST,
        detail=f"generation {agreed.name}: its workers continued without {names} while the scheduler was unreachable",
        amount=float(len(agreed.lost)),
    )
    if agreed.generation < job.generation or job.finishing:
        return
    for worker in job.members:
        if worker.id in agreed.lost and worker.wanted:
            ask_to_leave(changeset, job_id, worker.id, LeaveReason.LEFT_OUT)


def next_members(job: Job, now: float, settings: EngineSettings) -> tuple[Worker, ...] | None:
    """The members of the next generation in rank order; None while the present one stands."""
    wanted = job.wanted_workers
    members = sorted((w for w in wanted if w.member), key=lambda w: w.rank or 0)
    ready = [w for w in wanted if not w.member and w.state is WorkerState.READY]
    target = (*members, *ready)
    broken = len(members) != job.published_size
    if job.finishing:
        # A worker that left early, with work undone, left the others without a group; one that is done ignores that.
        return tuple(members) if broken and members and job.spec.runtime in _REFORMING else None
    if len(target) < job.min_workers or not target:
        return None
    if broken and job.published_size:
        return target
    if not ready:
        return None
    if job.published_size and any(w.reported_generation < job.generation for w in members):
        return None  # one change at a time: the present generation has not formed yet
    slower = any(not w.member and w.state is not WorkerState.READY and w.not_before <= now for w in wanted)
    waited = now - min(w.ready_at or now for w in ready)
    return None if slower and waited < settings.join_wait_seconds else target


def _publish(changeset: Changeset, job: Job, members: tuple[Worker, ...]) -> Job:
    """Write generation + 1: ranks, size and host list."""
    generation = job.generation + 1
    ranks = {worker.id: rank for rank, worker in enumerate(members)}
    at_once = not job.spec.runtime.reports  # nothing re-forms: being listed is being a member
    changed = []
    for worker in job.workers:
        rank = ranks.get(worker.id)
        reported = generation if rank is not None and at_once else worker.reported_generation
        if rank != worker.rank or reported != worker.reported_generation:
            changed.append(evolve(worker, rank=rank, reported_generation=reported))
    first = job.state is JobState.STARTING
    published = evolve(
        job,
        generation=generation,
        published_size=len(members),
        last_resize_at=job.last_resize_at if first else changeset.now,
    )
    job = changeset.put_workers(published, changed)
    hosts = host_list(job)
    assert hosts is not None, "a job with members in a published state has a list"
    changeset.publish(hosts)
    changeset.event(
        EventKind.GENERATION_PUBLISHED,
        job_id=job.id,
        cause=Cause.MEMBERS_CHANGED,
        detail=f"generation {generation}: {len(members)} workers",
        amount=float(len(members)),
    )
    return job


def _follow(changeset: Changeset, job: Job) -> None:
    """Make the transition that the membership requires, if any."""
    formed = job.published_size > 0 and all(w.reported_generation >= job.generation for w in job.members)
    if job.state is JobState.STARTING:
        if formed and len(job.members) == job.published_size:
            changeset.put(evolve(job, running_at=changeset.now))
            job = changeset.move(changeset.the_job(job.id), JobState.RUNNING)
            changeset.event(EventKind.JOB_RUNNING, job_id=job.id, detail=f"{job.published_size} workers")
        else:
            return
    settled = formed and len(job.members) == job.published_size == len(job.workers)
    if job.state is JobState.RUNNING and not settled and not job.finishing:
        changeset.move(job, JobState.RESIZING)
    elif job.state is JobState.RESIZING and settled:
        changeset.move(job, JobState.RUNNING)
