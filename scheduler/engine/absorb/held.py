"""Intents on held jobs. Nothing here looks at more of such a job than its state and its workers' ids."""

from dataclasses import replace

from scheduler.engine.changeset import Changeset
from scheduler.model.event import EventKind
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.observation import Observation
from scheduler.model.worker import ExitReason, Worker, WorkerState


def absorb_held_intent(changeset: Changeset, job: Job, intent: Intent) -> str:
    """Cancel or release the job; returns why any other request is refused."""
    if intent.kind is IntentKind.CANCEL:
        changeset.put_held(replace(job, stop_reason=StopReason.CANCELLED, stop_for=None))
        return ""
    if job.cancelled and job.held_from is not JobState.STOPPING:
        return "it is being cancelled"
    if intent.kind is IntentKind.RESUME:
        _release(changeset, job)
        return ""
    return "it is held: only resume and cancel are possible"


def end_cancelled(changeset: Changeset) -> None:
    """End held jobs that were cancelled, once the cluster lists none of their workers as alive."""
    alive = {stray.job_id for stray in changeset.base.strays.values()}
    for job in changeset.held_jobs():
        if job.cancelled and job.id not in alive:
            _end(changeset, job)


def _release(changeset: Changeset, job: Job) -> None:
    """Restore the job's former state; changes of its workers since are absorbed next."""
    assert job.held_from is not None, "a held job has the state that it was in"
    queued = job.held_from is JobState.QUEUED
    wait_reason = WaitReason.SUBMITTED if queued else None
    changeset.move(replace(job, held_from=None, wait_reason=wait_reason, detail=""), job.held_from)
    strays = changeset.base.strays.items()
    others = {key: s for key, s in strays if s.job_id != job.id or changeset.base.held_job_of(s) is None}
    changeset.see_strays(others)
    changeset.released.append(job.id)
    changeset.event(EventKind.JOB_RELEASED, job_id=job.id, cause=IntentKind.RESUME)


def end_unstarted(changeset: Changeset, job: Job, observation: Observation) -> list[Worker]:
    """End workers of a released job that were not started before it was held: others may have their slots now."""
    unstarted = [w for w in job.all_workers if w.state is WorkerState.PENDING and w.id not in observation.workers]
    detail = "not started while the job was held"
    return [changeset.end_worker(worker, WorkerState.LOST, ExitReason.LOST, None, detail) for worker in unstarted]


def _end(changeset: Changeset, job: Job) -> None:
    for worker in job.all_workers:
        changeset.keep_ended(
            replace(worker, state=WorkerState.EXITED, exit_reason=ExitReason.ASKED, ended_at=changeset.now, rank=None)
        )
    ended = replace(
        job, held_from=None, workers=(), fixed_workers=(), fixed_hosts=(), published_size=0, finished_at=changeset.now
    )
    changeset.move(ended, JobState.CANCELLED)
    cause = StopReason.CANCELLED.value
    changeset.event(EventKind.JOB_CANCELLED, job_id=job.id, cause=cause, detail=f"it was held: {job.detail}")
