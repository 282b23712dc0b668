"""Reactions to workers that ended: done, replaced, restarted as a gang, or given up."""

from collections.abc import Sequence

from scheduler.backoff import Backoff
from scheduler.config import EngineSettings
from scheduler.engine.absorb.exits import FAILURES
from scheduler.engine.absorb.foreign import others_took
from scheduler.engine.absorb.workers import place_is_gone
from scheduler.engine.changeset import Changeset
from scheduler.engine.state.deadlines import limit_deadline
from scheduler.engine.state.lifecycle import ask_to_leave, begin_stop, finish_if_empty
from scheduler.model.data import Charge
from scheduler.model.event import EventKind
from scheduler.model.evolve import evolve
from scheduler.model.ids import JobId, worker_id
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.worker import ExitReason, LeaveReason, Worker

#: Workers that do not report and fail so soon after a peer, and ran beside it, often fail because of it: that is one
#: failure.
GROUP_SECONDS = 1.0

_SIZED = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})
#: The cost to the job, in words.
_CHARGED = {
    Charge.SHARD: "; no retry used: it held a shard that is already suspected",
    Charge.FORGIVEN: "; no retry used: its shards may be the cause, and others have been completed",
    Charge.RETRY: "",
}
#: Ends that are no failure, but that an immediate retry would repeat.
_PAUSED = frozenset({ExitReason.REPLACE, ExitReason.NOT_ADMITTED})
#: Ends that are no failure, after which an ordinary gang has a gap.
_UNREPLACED = frozenset(
    {
        ExitReason.LOST,
        ExitReason.DRAINED,
        ExitReason.REPLACE,
        ExitReason.NOT_ADMITTED,
        ExitReason.EVICTED,
        ExitReason.DISPLACED,
        ExitReason.REMOVED,
    }
)


def react(changeset: Changeset, job_id: JobId, ended: Sequence[Worker], settings: EngineSettings) -> None:
    """Decide on a job whose workers ended just now."""
    job = changeset.the_job(job_id)
    hopeless = next((w for w in ended if job.state in _SIZED and _is_hopeless(job, w)), None)
    if hopeless is not None:
        detail = f"{_named(hopeless)} cannot start: {hopeless.detail}"
        begin_stop(changeset, job_id, StopReason.CANNOT_START, detail=detail)
        return
    barred = next((w for w in ended if job.state in _SIZED and w.exit_reason is ExitReason.NO_ACCOUNT), None)
    if barred is not None:
        begin_stop(changeset, job_id, StopReason.NO_ACCOUNT, detail=barred.detail)
        return
    if job.state in _SIZED:
        _react_to_ends(changeset, job, [w for w in ended if not w.fixed], settings)
    _react_to_fixed(changeset, changeset.the_job(job_id), [w for w in ended if w.fixed], settings)
    finish_if_empty(changeset, job_id)


def _is_hopeless(job: Job, worker: Worker) -> bool:
    """Whether no try can start the worker, and none of its kind ever ran.

    Where one did run, the missing thing was there (a disk is not mounted yet after a reboot, a program is being
    installed): the job then has its retries, and its running workers go on.
    """
    peers = job.fixed_workers if worker.fixed else job.workers
    ran = job.served_slot_seconds > 0 or any(peer.started_at is not None for peer in peers)
    return worker.exit_reason is ExitReason.CANNOT_START and not ran


def backoff_seconds(retries_used: int, settings: EngineSettings) -> float:
    """Pause before the next try after `retries_used` failures."""
    return Backoff(settings.backoff_seconds, settings.backoff_max_seconds).pause_seconds(retries_used)


def _react_to_ends(changeset: Changeset, job: Job, ended: Sequence[Worker], settings: EngineSettings) -> None:
    done = [w for w in ended if w.exit_reason is ExitReason.DONE]
    early = job.detail if job.finishing else ""
    if done and not early:
        early = f"{_named(done[0])} ended with exit code 0 before the others: all ranks of a group must end together"
    failed = [w for w in ended if w.exit_reason in FAILURES]
    if failed:
        job = _count_failure(changeset, job, failed, settings, before=early)
        if not job.elastic or job.finishing or job.retries_used > job.spec.max_retries:
            _stop_failed(changeset, job, settings)
            return
    gone = [w for w in ended if w.exit_reason in _UNREPLACED]
    if gone and (_is_broken(job) or _cannot_start(job, gone)):
        _stop_incomplete(changeset, job, gone[0], settings)
        return
    if done:
        left = changeset.the_job(job.id)
        _finish(changeset, changeset.put(evolve(left, finishing=True, detail=early if left.wanted_workers else "")))
    for worker in ended:
        _replace_worker(changeset, worker, settings)


def _react_to_fixed(changeset: Changeset, job: Job, ended: Sequence[Worker], settings: EngineSettings) -> None:
    """A fixed worker that failed or is lost is not replaced: the whole job starts again. A finished one is done.

    Ends after the other workers are done do not matter any more. A driver that is done ends the job.
    """
    if job.spec.runtime.driven and job.state in _SIZED and any(w.exit_reason is ExitReason.DONE for w in ended):
        changeset.put(evolve(job, finishing=True))
        for worker in job.wanted_workers:
            ask_to_leave(changeset, job.id, worker.id, LeaveReason.JOB_FINISHING)
        return
    missed = [w for w in ended if w.exit_reason not in (ExitReason.ASKED, ExitReason.DONE)]
    if not missed or job.state not in _SIZED or (job.finishing and not job.workers):
        return
    failed = [w for w in missed if w.exit_reason in FAILURES]
    if failed:
        _stop_failed(changeset, _count_failure(changeset, job, failed, settings), settings)
    else:
        _stop_incomplete(changeset, job, missed[0], settings)


def _stop_failed(changeset: Changeset, job: Job, settings: EngineSettings) -> None:
    """Stop an attempt that cannot go on after a counted failure: start again after a pause, or give up."""
    if job.retries_used > job.spec.max_retries:
        begin_stop(changeset, job.id, StopReason.RETRIES_EXHAUSTED, detail=job.detail)
        return
    pause = backoff_seconds(job.retries_used, settings)
    changeset.put(evolve(job, not_before=changeset.now + pause))
    begin_stop(changeset, job.id, StopReason.GANG_RESTART, detail=job.detail)


def _stop_incomplete(changeset: Changeset, job: Job, gone: Worker, settings: EngineSettings) -> None:
    """Restart the job as a whole: a worker is gone that nothing can replace, without a failure."""
    pause = backoff_seconds(1, settings) if gone.exit_reason in _PAUSED else 0.0
    changeset.put(evolve(job, not_before=changeset.now + pause))
    told = f": {gone.detail}" if gone.detail else ""
    detail = f"{_named(gone)}: {gone.exit_reason}{told}"
    begin_stop(changeset, job.id, StopReason.BELOW_MINIMUM, detail=detail)


def _named(worker: Worker) -> str:
    return f"{'fixed ' if worker.fixed else ''}worker {worker.id} on {worker.node}"


def _is_broken(job: Job) -> bool:
    """Whether a gap ends the attempt: the group of an ordinary script cannot re-form, it starts again as a whole."""
    return not job.elastic and not job.spec.runtime.reports


def _cannot_start(job: Job, gone: Sequence[Worker]) -> bool:
    """Whether the cluster admits too few of the job's workers: admitted ones must not wait for them on their slots."""
    refused = any(w.exit_reason is ExitReason.NOT_ADMITTED for w in gone)
    left = len(job.wanted_workers)
    return refused and left < job.min_workers and (left == 0 or job.state is JobState.STARTING)


def _count_failure(
    changeset: Changeset, job: Job, failed: Sequence[Worker], settings: EngineSettings, before: str = ""
) -> Job:
    """Consume a retry, unless a shard may be why; failures of one group count once, and old ones are forgotten.

    `before`: an earlier event that may explain the failure, in words.
    """
    charged = [(_charge(changeset, each), each) for each in failed]
    charge, worker = max(charged, key=lambda each: each[0])
    old = charge is Charge.FORGIVEN or _calm_seconds(job, changeset.now) > settings.failure_reset_seconds
    used = 0 if old else job.retries_used
    counts = any(each is Charge.RETRY and not _ran_beside(job, who, changeset.now) for each, who in charged)
    code = f"exit code {worker.exit_code}" if worker.exit_code is not None else "no exit code"
    told = f": {worker.detail}" if worker.detail else ""
    after = f"; {before}" if before else ""
    return changeset.put(
        evolve(
            job,
            retries_used=used + counts,
            last_failure_at=changeset.now if counts else job.last_failure_at,
            exit_code=worker.exit_code,
            detail=f"{_named(worker)}: {worker.exit_reason}, {code}{told}{after}{_CHARGED[charge]}",
        )
    )


def _calm_seconds(job: Job, now: float) -> float:
    """For how long this attempt has run without a failure: a job that waits or starts cannot show that it works."""
    return 0.0 if job.running_at is None else now - max(job.running_at, job.last_failure_at or 0.0)


def _ran_beside(job: Job, worker: Worker, now: float) -> bool:
    """Whether the worker was of the group that the last counted failure broke: then it may have failed because of it.

    Its end may be seen at any time after that one, but not once it has reported a generation that was published since.
    Where the present generation is a later one than the first since, one that has reported the generation before it
    has done so: a group grows only after all have reported.
    """
    failed_at, published_at = job.last_failure_at, job.last_resize_at
    if failed_at is None or worker.created_at >= failed_at:
        return False
    if worker.fixed or not job.spec.runtime.reports:
        return now - failed_at <= GROUP_SECONDS
    if published_at is None or published_at < failed_at:
        return True
    first = published_at == failed_at
    return worker.reported_generation < (job.generation if first else job.generation - 1)


def _charge(changeset: Changeset, worker: Worker) -> Charge:
    queue = changeset.queues.get(worker.job_id)
    return Charge.RETRY if queue is None else queue.charge(worker.ordinal)


def _finish(changeset: Changeset, job: Job) -> None:
    """React to a worker that is done: workers that never trained in an elastic group have nothing to join any more."""
    if not job.spec.runtime.reports:
        return
    for worker in job.wanted_workers:
        if worker.reported_generation == 0:
            ask_to_leave(changeset, job.id, worker.id, LeaveReason.JOB_FINISHING)


def _replace_worker(changeset: Changeset, worker: Worker, settings: EngineSettings) -> None:
    """Put a new worker on the slots of one that failed or asked for it.

    The slots stay with the job during a pause. A lost or drained worker is not replaced here, nor one whose place
    others have taken: its node may be gone, and the planner finds a place.
    """
    job = changeset.the_job(worker.job_id)
    hung_or_failed = worker.exit_reason in FAILURES or worker.exit_reason is ExitReason.REPLACE
    if not hung_or_failed or job.finishing or not job.state.active:
        return
    node = changeset.node(worker.node)
    if node is None or not node.schedulable or others_took(changeset, worker):
        return
    if job.id in changeset.released or place_is_gone(changeset, worker) is not None:
        return  # nobody kept its slots for it
    if len(job.wanted_workers) >= job.max_workers:
        return
    pause = _pause_before_replacement(job, worker, settings)
    replacement = Worker(
        id=worker_id(job.id, job.next_ordinal),
        job_id=job.id,
        ordinal=job.next_ordinal,
        node=worker.node,
        host=node.host,
        slot_ids=worker.slot_ids,
        created_at=changeset.now,
        cpus=worker.cpus,
        memory_mib=worker.memory_mib,
        shared=worker.shared,
        not_before=changeset.now + pause,
    )
    changeset.put(evolve(job, next_ordinal=job.next_ordinal + 1))
    changeset.put_worker(replacement)
    changeset.event(
        EventKind.WORKER_REPLACED,
        job_id=job.id,
        worker_id=replacement.id,
        node=worker.node,
        cause=str(worker.exit_reason),
        detail=f"{worker.id} will be replaced {f'in {pause:g} s' if pause > 0 else 'at once'}",
    )


def _pause_before_replacement(job: Job, worker: Worker, settings: EngineSettings) -> float:
    """Seconds before the replacement; 0 at the first failure of one that had trained: its machine is suspected."""
    trained = worker.reported_generation > 0
    if trained and worker.exit_reason in FAILURES and job.retries_used <= 1:
        return 0.0
    return backoff_seconds(max(job.retries_used, 1), settings)


def expire(changeset: Changeset, job: Job) -> None:
    """Stop a job whose attempt has used up its time."""
    deadline = limit_deadline(job)
    if deadline is not None and changeset.now >= deadline:
        detail = f"ran longer than its time limit of {job.spec.time_limit_seconds:g} s"
        begin_stop(changeset, job.id, StopReason.TIME_LIMIT, detail=detail)
