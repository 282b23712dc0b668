"""Transitions of a job out of its active states: being stopped, ending, going back to the queue."""

from scheduler.engine.changeset import Changeset
from scheduler.model.event import EventKind
from scheduler.model.evolve import evolve
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job, Progress
from scheduler.model.job_state import STOP_TARGETS, JobState, StopReason, WaitReason
from scheduler.model.worker import Desired, ExitReason, LeaveReason
from scheduler.policy.estimate.lost_work import stop_cost

_STOP_EVENTS: dict[JobState, EventKind] = {
    JobState.QUEUED: EventKind.JOB_REQUEUED,
    JobState.SUSPENDED: EventKind.JOB_SUSPENDED,
    JobState.FAILED: EventKind.JOB_FAILED,
    JobState.CANCELLED: EventKind.JOB_CANCELLED,
}

#: Reasons for which a job is stopped although it could go on.
_TAKEN_FROM = frozenset({StopReason.PREEMPTED, StopReason.REBALANCED, StopReason.RECLAIMED})


def ask_to_leave(
    changeset: Changeset, job_id: JobId, worker_id: WorkerId, reason: LeaveReason, for_job: JobId | None = None
) -> None:
    """First phase of a shrink: the worker is no member of the next list, and has the job's grace to leave."""
    job = changeset.the_job(job_id)
    worker = next(w for w in job.all_workers if w.id == worker_id)
    if worker.desired is Desired.STOP:
        return
    changeset.put_worker(
        evolve(
            worker,
            desired=Desired.STOP,
            rank=None,
            leave_reason=reason,
            leave_for=for_job,
            stop_deadline=changeset.now + job.spec.grace_seconds,
        )
    )


def begin_stop(
    changeset: Changeset, job_id: JobId, reason: StopReason, for_job: JobId | None = None, detail: str = ""
) -> None:
    """Withdraw the job's list and ask its workers to leave; its next state follows from the reason.

    Its fixed group is asked when the others are gone.
    """
    job = changeset.move(changeset.the_job(job_id), JobState.STOPPING)
    changeset.put(evolve(job, stop_reason=reason, stop_for=for_job, detail=detail, published_size=0))
    for worker in job.workers:
        ask_to_leave(changeset, job_id, worker.id, LeaveReason.JOB_STOPPING, for_job)
    changeset.event(
        EventKind.JOB_STOPPING,
        job_id=job_id,
        cause=reason.value,
        for_job=for_job,
        detail=detail,
        amount=stop_cost(job).at(changeset.now) if reason in _TAKEN_FROM else None,
    )
    finish_if_empty(changeset, job_id)


def finish_if_empty(changeset: Changeset, job_id: JobId) -> None:
    """Take the job out of its active state once none of its workers is left; the fixed ones are asked last."""
    job = changeset.the_job(job_id)
    if job.workers or not job.state.active:
        return
    if job.fixed_workers and (job.finishing or job.state is JobState.STOPPING):
        reason = LeaveReason.JOB_FINISHING if job.state is not JobState.STOPPING else LeaveReason.JOB_STOPPING
        for worker in job.fixed_workers:
            ask_to_leave(changeset, job_id, worker.id, reason, job.stop_for)
    elif job.state is JobState.STOPPING:
        _stopped(changeset, job)
    elif job.finishing:
        done = changeset.move(evolve(job, detail=_left_undone(changeset, job.id)), JobState.SUCCEEDED)
        _ended(changeset, done, EventKind.JOB_SUCCEEDED, ExitReason.DONE.value)
    else:
        begin_stop(changeset, job_id, StopReason.BELOW_MINIMUM, detail="no workers are left")


def _left_undone(changeset: Changeset, job_id: JobId) -> str:
    """The data that its workers left undone although they say that they are done, in words; empty: none."""
    queue = changeset.queues.get(job_id)
    if queue is None or queue.done == queue.data.total:
        return ""
    left, all_of_it = queue.data.total - queue.done, f"{queue.data.total:,} shards"
    if left == queue.set_aside:
        return f"ended with {left:,} of {all_of_it} set aside"
    aside = f", {queue.set_aside:,} of them set aside" if queue.set_aside else ""
    return f"ended with {left:,} of {all_of_it} not done{aside}"


def _stopped(changeset: Changeset, job: Job) -> None:
    assert job.stop_reason is not None, "a stopping job has a reason"
    target = STOP_TARGETS[job.stop_reason]
    moved = changeset.move(job, target)
    kind = _STOP_EVENTS[target]
    if target.terminal:
        _ended(changeset, moved, kind, job.stop_reason.value)
    elif target is JobState.QUEUED:
        requeue(changeset, moved, kind, job.stop_reason.value)
    else:
        changeset.put(evolve(_without_attempt(moved), queued_at=changeset.now))
        changeset.event(kind, job_id=job.id, cause=job.stop_reason.value)


def requeue(changeset: Changeset, job: Job, kind: EventKind, cause: str) -> None:
    """Put the job back into the queue, where a new wait begins."""
    changeset.put(evolve(_without_attempt(job), queued_at=changeset.now, wait_reason=WaitReason.SUBMITTED))
    changeset.event(kind, job_id=job.id, cause=cause, for_job=job.stop_for)


def _without_attempt(job: Job) -> Job:
    return evolve(
        job.unreserved(),
        started_at=None,
        running_at=None,
        finishing=False,
        published_size=0,
        master_port=0,
        fixed_hosts=(),
        wait_for=None,
        progress=evolve(job.progress, samples_per_second=None) if job.progress != Progress() else job.progress,
    )


def _ended(changeset: Changeset, job: Job, kind: EventKind, cause: str) -> None:
    changeset.put(
        evolve(
            job.unreserved(),
            finished_at=changeset.now,
            published_size=0,
            fixed_hosts=(),
            wait_reason=None,
            wait_for=None,
            exit_code=0 if job.state is JobState.SUCCEEDED else job.exit_code,
        )
    )
    changeset.event(kind, job_id=job.id, cause=cause, for_job=job.stop_for, detail=job.detail)


def by_user(job: Job, reason: StopReason) -> Job:
    """The job as stopped by a user, whatever stopped it before."""
    return evolve(job, stop_reason=reason, stop_for=None, detail="")


def cancel_waiting(changeset: Changeset, job: Job) -> None:
    """Cancel a job that has no workers."""
    cancelled = changeset.move(by_user(job, StopReason.CANCELLED), JobState.CANCELLED)
    _ended(changeset, cancelled, EventKind.JOB_CANCELLED, StopReason.CANCELLED.value)
