"""Why a job with workers has the size that it has, and why some of them do not run yet."""

from scheduler.config import PolicySettings
from scheduler.http.explain.room import free_slots, reserved_by
from scheduler.http.explain.words import STOP_TEXTS, job_name
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobState, StopReason
from scheduler.model.worker import LeaveReason, WorkerState
from scheduler.model.world import World
from scheduler.policy.check_plan import FIXED_SIZES

#: First match wins; in the words for jobs that are stopped for the same.
_GIVEN_TO_NO_JOB = {
    LeaveReason.OVERSOLD: StopReason.OVERSOLD,
    LeaveReason.BOOKED: StopReason.BOOKED,
    LeaveReason.FOREIGN: StopReason.FOREIGN,
    LeaveReason.DRAINED: StopReason.DRAINED,
}


def why_starting(job: Job) -> str:
    """The sentence of a job whose group does not stand yet."""
    ready = sum(worker.state == "READY" for worker in job.wanted_workers)
    first = ""
    if not job.fixed_ready:
        running = sum(worker.state is WorkerState.READY for worker in job.fixed_workers)
        first = f", which start once all {len(job.fixed_workers)} of its fixed group run ({running} do)"
    starting = f"Is starting: {ready} of {len(job.wanted_workers)} workers are ready{first} (attempt {job.attempt})."
    early = f" It is finishing already: {job.detail}." if job.finishing and job.detail else ""
    return starting + early + what_blocks(job)


def what_blocks(job: Job) -> str:
    """What the cluster says of a worker that does not run yet; empty if it says nothing."""
    blocked = [worker for worker in job.all_workers if worker.state is WorkerState.PENDING and worker.detail]
    if not blocked:
        return ""
    more = f" ({len(blocked) - 1} more do not run either)" if len(blocked) > 1 else ""
    return f" Worker {blocked[0].id} on {blocked[0].node} does not run yet{more}: {blocked[0].detail}"


def why_this_size(job: Job, world: World, settings: PolicySettings, now: float) -> tuple[str | None, JobId | None, str]:
    """Reason, whom it is for, and the sentence."""
    size = len(job.wanted_workers)
    shared = ", on slots that it shares with others" if any(w.shared for w in job.wanted_workers) else ""
    shown = f"Runs with {size} of at most {job.max_workers} workers{shared}"
    if job.state is JobState.RESIZING:
        shown = f"Is being resized to {size} of at most {job.max_workers} workers{shared}"
    giving = _what_it_gives(job, world)
    if giving is not None:
        reason, for_job, why = giving
        return reason, for_job, f"{shown}: it gives workers up{why}."
    if size >= job.max_workers:
        return None, None, f"{shown}: all that it may have."
    if settings.name in FIXED_SIZES and size >= job.preferred_workers:
        return None, None, f"{shown}: the size that it has under policy {settings.name}."
    if job.finishing:
        why = f" ({job.detail})" if job.detail else ""
        return None, None, f"{shown}: it is finishing, so it is not resized any more{why}."
    suitable = [node for node in world.nodes.values() if node.suits(job.shape) and node.schedulable]
    free = sum(free_slots(node, world) for node in suitable)
    if free < job.shape.slots:
        return "INSUFFICIENT_SLOTS", None, f"{shown}: no slots that suit it are free."
    holder = reserved_by(job, world)
    if holder is not None:
        return "BEHIND_RESERVATION", holder, f"{shown}: {free} slots are free, but held for {job_name(holder, world)}."
    if job.last_resize_at is not None and now < job.last_resize_at + settings.grow_cooldown_seconds:
        left = job.last_resize_at + settings.grow_cooldown_seconds - now
        return "COOLDOWN", None, f"{shown}: it was resized just now and may grow again in {left:.1f} s."
    limit = job.spec.time_limit_seconds
    if limit is not None and job.started_at is not None and job.started_at + limit - now < settings.near_end_seconds:
        return "NEAR_END", None, f"{shown}: its time limit is so near that growing would not pay."
    unless = ", unless more workers would not pay by the speeds that it reports" if job.progress.throughput else ""
    return None, None, f"{shown}: {free} slots that suit it are free, so it grows at one of the next looks{unless}."


def _what_it_gives(job: Job, world: World) -> tuple[str, JobId | None, str] | None:
    """Reason, whom it is for, and the rest of the sentence; None while it gives nothing up."""
    for worker in job.leaving:
        if worker.leave_for is not None:
            reason = worker.leave_reason or LeaveReason.PREEMPTED
            return reason.value, worker.leave_for, f" for {job_name(worker.leave_for, world)}"
    reasons = {worker.leave_reason for worker in job.leaving}
    for leave, stop in _GIVEN_TO_NO_JOB.items():
        if leave in reasons:
            return leave.value, None, f", since {STOP_TEXTS[stop]}"
    return None
