"""Why a job with workers has its size, and why some of its workers do not run yet."""

from typing import assert_never

from scheduler.config import PolicySettings
from scheduler.http.explain.room import away, away_text, closed_text, free_slots
from scheduler.http.explain.words import STOP_TEXTS, are, job_name, keeper_name, lack_text, suiting
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.words import counted, rate_text
from scheduler.model.worker import LeaveReason, WorkerState
from scheduler.model.world import World
from scheduler.policy.explain.growth_limits import Growth, Limit
from scheduler.policy.explain.held_slots import Keeper
from scheduler.policy.explain.shortage import Lack

#: First match wins; in the words for jobs that are stopped for the same.
_GIVEN_TO_NO_JOB = {
    LeaveReason.OVERSOLD: StopReason.OVERSOLD,
    LeaveReason.BOOKED: StopReason.BOOKED,
    LeaveReason.FOREIGN: StopReason.FOREIGN,
    LeaveReason.DRAINED: StopReason.DRAINED,
}


def why_starting(job: Job) -> str:
    """The sentence for a job whose group has not formed yet."""
    ready = sum(worker.state == "READY" for worker in job.wanted_workers)
    first = ""
    if not job.fixed_ready:
        running = sum(worker.state is WorkerState.READY for worker in job.fixed_workers)
        first = f"; they start when all {len(job.fixed_workers)} workers of its fixed group run (now {running})"
    starting = f"Is starting: {ready} of {len(job.wanted_workers)} workers are ready{first} (attempt {job.attempt})."
    early = f" It is already finishing: {job.detail}." if job.finishing and job.detail else ""
    return starting + early + what_blocks(job)


def what_blocks(job: Job) -> str:
    """The cluster's message about a worker that does not run yet; empty if there is none."""
    blocked = [worker for worker in job.all_workers if worker.state is WorkerState.PENDING and worker.detail]
    if not blocked:
        return ""
    others = f" and {len(blocked) - 1} more" if len(blocked) > 1 else ""
    who = f"Worker {blocked[0].id} on {blocked[0].node}{others}"
    verb = "are" if others else "is"
    return f" {who} {verb} not running yet: {blocked[0].detail.rstrip('.')}."


def why_this_size(
    job: Job, growth: Growth, world: World, settings: PolicySettings, now: float
) -> tuple[str | None, JobId | None, str]:
    """Reason, the job in whose favour, and the sentence for people."""
    size = len(job.wanted_workers)
    shared = ", on slots shared with other jobs" if any(w.shared for w in job.wanted_workers) else ""
    most = counted(job.max_workers, "worker")
    shown = f"Runs with {size} of at most {most}{shared}"
    if job.state is JobState.RESIZING:
        shown = f"Is being resized to {size} of at most {most}{shared}"
    given = _what_it_gives(job, world)
    if given is not None:
        leaves, for_job, why = given
        return leaves, for_job, f"{shown}: it is giving up workers{why}."
    reason, for_job, why = _why_no_more(job, growth, world, settings, now)
    return reason, for_job, f"{shown}: {why}"


def _why_no_more(
    job: Job, growth: Growth, world: World, settings: PolicySettings, now: float
) -> tuple[str | None, JobId | None, str]:
    """What keeps it from one more worker: reason, the job in whose favour, and the rest of the sentence."""
    left = f" in {max(growth.until - now, 0.0):.1f} s" if growth.until is not None else ""
    free = f"{suiting(growth.slots)} {are(growth.slots)} free"
    match growth.limit:
        case Limit.MAXIMUM:
            return None, None, "its maximum."
        case Limit.FIXED_SIZE:
            return None, None, f"policy {settings.name} keeps this size."
        case Limit.FINISHING:
            detail = f" ({job.detail})" if job.detail else ""
            return None, None, f"it is finishing and will not be resized{detail}."
        case Limit.CHANGING:
            return None, None, "its workers are changing; it may grow after that."
        case Limit.NEAR_END:
            return "NEAR_END", None, "its time limit is too near for growth to pay off."
        case Limit.UNTRIED:
            return "UNTRIED", None, f"it may grow once it has reported its speed at this size{left and f', or{left}'}."
        case Limit.NO_GAIN:
            return "NO_GAIN", None, _why_no_gain(job, left)
        case Limit.PAYBACK:
            return "PAYBACK", None, _why_no_payback(job, settings)
        case Limit.NO_ROOM:
            besides = away_text(away(job, world), world) + closed_text(job.shape, world)
            return "INSUFFICIENT_SLOTS", None, _why_no_room(job, growth, world) + besides
        case Limit.RESERVED:
            return "BEHIND_RESERVATION", growth.holder, f"{free}, but reserved for {job_name(growth.holder, world)}."
        case Limit.BOOKING_FULL:
            return "BOOKING_FULL", None, f"it uses all slots of its booking {job.spec.booking}."
        case Limit.QUEUE:
            return "QUEUE_LIMIT", None, f"{free}, but limits or guarantees of queue {job.spec.queue} allow it no more."
        case Limit.KEPT:
            assert growth.keeper is not None
            keeper = growth.keeper
            return _kept_reason(keeper), keeper.for_job, f"{free}, but reserved for {keeper_name(keeper, world)}."
        case Limit.COOLDOWN:
            return "COOLDOWN", None, f"it was resized recently, and may grow again{left}."
        case Limit.NOTHING:
            return None, None, "it will grow in the next scheduling pass."
        case Limit.UNKNOWN:
            return None, None, f"{free}, but the planner has not assigned any to it."
        case _:
            assert_never(growth.limit)


def _why_no_gain(job: Job, left: str) -> str:
    """The measured speeds, when more workers are tried again, and how to override this."""
    size = len(job.workers)
    again = f"; more are tried again{left} if slots are idle" if left else ""
    overrule = f"`sched scale {job.id} --min {size + 1}` gives it more all the same"
    return f"more workers would not make it faster ({_speeds(job, size)}){again}; {overrule}."


def _speeds(job: Job, size: int) -> str:
    """The reported speeds: of up to two smaller sizes, its own, and one larger."""
    speeds = job.progress.speeds
    here = sum(speed.workers <= size for speed in speeds)
    shown = speeds[max(here - 3, 0) : here + 1]
    return ", ".join(
        f"{rate_text(speed.per_second)} samples/s with {counted(speed.workers, 'worker')}" for speed in shown
    )


def _why_no_payback(job: Job, settings: PolicySettings) -> str:
    cost = job.progress.resize_seconds or 0.0
    times = f"{settings.grow_payback_factor:g} times the {cost:.1f} s"
    return f"growth would save less than {times} that a resize takes."


def _why_no_room(job: Job, growth: Growth, world: World) -> str:
    """The resources that one more worker lacks."""
    worker, slots = job.workers[0], growth.slots
    if growth.lack is not None and growth.lack is not Lack.SLOTS:
        return f"{suiting(slots)} {are(slots)} free, but {lack_text(growth.lack, job.shape)}."
    if slots:
        return f"{suiting(slots)} {are(slots)} free, but a worker needs {job.shape.slots}."
    others = [node for node in world.nodes.values() if node.suits(job.shape) and node.schedulable]
    own, kind = sum(free_slots(node, world) for node in others), world.nodes[worker.node].gpu_type
    if worker.shared and own:
        return f"no shared slots are free; {own} unshared {are(own)}, but a job cannot use both kinds."
    if not worker.shared and own:
        return f"no suitable slots with the GPU type of its workers ({kind or 'none'}) are free."
    return "no suitable slots are free."


def _kept_reason(keeper: Keeper) -> str:
    if keeper.for_job is not None:
        return "BEHIND_RESERVATION"
    return "BEHIND_BOOKING" if keeper.booking is not None else "BEHIND_FOREIGN"


def _what_it_gives(job: Job, world: World) -> tuple[str, JobId | None, str] | None:
    """Why it gives up workers: reason, the job in whose favour, and the rest of the sentence; None if it does not."""
    for worker in job.leaving:
        if worker.leave_for is not None:
            reason = worker.leave_reason or LeaveReason.PREEMPTED
            gone = ", which has ended" if world.job(worker.leave_for) is None else ""
            return reason.value, worker.leave_for, f" for {job_name(worker.leave_for, world)}{gone}"
    reasons = {worker.leave_reason for worker in job.leaving}
    if LeaveReason.NO_GAIN in reasons:
        return (
            LeaveReason.NO_GAIN.value,
            None,
            f" because it was faster with fewer ({_speeds(job, job.published_size)})",
        )
    for leave, stop in _GIVEN_TO_NO_JOB.items():
        if leave in reasons:
            return leave.value, None, f" because {STOP_TEXTS[stop]}"
    return None
