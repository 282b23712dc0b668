"""Why a job waits, has the size it has, or was stopped: composed from the typed reasons that the engine stores."""

from typing import assert_never

from fastapi import APIRouter
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.config import PolicySettings
from scheduler.engine.forecast import forecast
from scheduler.http.away import those_closed, why_away
from scheduler.http.errors import Refusal, documented
from scheduler.http.feasible import most_workers, needs, needs_fixed, wishes
from scheduler.http.forecast import ForecastView, forecast_view
from scheduler.http.jobs import find_job
from scheduler.http.json import JsonResponse
from scheduler.http.parameters import JobNumber
from scheduler.http.services import Services, Use
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobState, Placement, StopReason, WaitReason
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason, WorkerState
from scheduler.model.world import World
from scheduler.policy.check_plan import FIXED_SIZES

router = APIRouter(tags=["jobs"])

#: How long an explanation waits for its turn to look ahead, and how long it looks then.
FORECAST_SECONDS = 0.5


class ExplainDetails(TypedDict):
    min_workers: int
    max_workers: int
    workers: int
    slots_per_worker: int
    #: Slots on nodes that suit the job: all of them, and those that nobody holds now.
    slots_suitable: int | None
    slots_free: int | None
    #: The same of slots beyond the physical ones, where it accepts to share.
    extra_slots_free: int | None
    reservation: list[tuple[str, int]]
    #: A waiting job that holds free slots, which this one may not take.
    reserved_by: int | None
    not_before: float | None


class Explanation(TypedDict):
    id: int
    state: str
    #: One or two lines for people.
    summary: str
    reason: str | None
    for_job: int | None
    details: ExplainDetails


class ExplanationWithForecast(Explanation):
    #: When it starts, where it waits; null also while too many ask.
    forecast: ForecastView | None


@router.get("/v1/jobs/{job_id}/explain", response_model=ExplanationWithForecast, responses=documented(404))
def explain_job(services: Use, job_id: JobNumber) -> Response:
    """Why the job is as it is, and when it starts if it waits."""
    job = find_job(services, job_id)
    world = services.board.world or World()
    explanation = explain(job, world, services.settings.policy, services.clock.now())
    trouble = None if job.state.terminal else services.not_ready()
    if trouble is not None:
        explanation["summary"] += f" Nothing is being decided now: {trouble}."
    view: ExplanationWithForecast = {**explanation, "forecast": _forecast(services, job)}
    return JsonResponse(view)


def _forecast(services: Services, job: Job) -> ForecastView | None:
    """When the job starts; None where it does not wait, or nothing can be said now."""
    world = services.board.world
    if world is None or job.state is not JobState.QUEUED:
        return None
    try:
        with services.questions.turn(FORECAST_SECONDS):
            in_time = services.within(FORECAST_SECONDS)
            return forecast_view(forecast(world, job, services.clock.now(), services.settings, in_time))
    except Refusal:
        return None


def explain(job: Job, world: World, settings: PolicySettings, now: float) -> Explanation:
    """The explanation of a job in this world."""
    reason: str | None = None
    for_job: JobId | None = None
    match job.state:
        case JobState.QUEUED:
            why = job.wait_reason or WaitReason.SUBMITTED
            reason, for_job, summary = why, job.wait_for, _why_waiting(job, why, world, settings, now)
        case JobState.STARTING:
            summary = _why_starting(job)
        case JobState.RUNNING | JobState.RESIZING:
            reason, for_job, summary = _why_this_size(job, world, settings, now)
            summary += _what_blocks(job)
        case JobState.STOPPING | JobState.SUSPENDED:
            reason, for_job = job.stop_reason, job.stop_for
            summary = _why_stopped(job, world)
        case JobState.SUCCEEDED | JobState.FAILED | JobState.CANCELLED:
            reason, for_job = job.stop_reason, job.stop_for
            summary = _how_it_ended(job)
        case _:
            assert_never(job.state)
    return {
        "id": job.id,
        "state": job.state,
        "summary": summary,
        "reason": reason,
        "for_job": for_job,
        "details": _details(job, world, now),
    }


def _why_waiting(job: Job, reason: WaitReason, world: World, settings: PolicySettings, now: float) -> str:
    size = job.preferred_workers if settings.name in FIXED_SIZES else job.min_workers
    need = f"it needs {needs(job.spec, size)}{needs_fixed(job.spec)}"
    suitable = [node for node in world.nodes.values() if node.suits(job.shape)]
    free = sum(_free_slots(node, world) for node in suitable if node.schedulable)
    match reason:
        case WaitReason.SUBMITTED:
            return "Waits for the next look at the queue; it was submitted or resumed just now."
        case WaitReason.INSUFFICIENT_SLOTS:
            behind = f" It is behind {_name(job.wait_for, world)}." if job.wait_for is not None else ""
            return (
                f"Waits for free slots: {need}, and {free} of {sum(node.slots for node in suitable)} slots that "
                f"suit it are free{_to_share(job, suitable, world)}. Nothing less important holds enough to make room "
                f"for it.{behind}"
            )
        case WaitReason.WAITING_FOR_VICTIMS:
            held = _places(job.reservation)
            return f"Starts as soon as {_who_leaves(job, world)} have left: {held} held for it and being freed."
        case WaitReason.BEHIND_RESERVATION:
            return (
                f"Would fit, but waits behind {_name(job.wait_for, world)}, for which slots are held: {need}, and "
                "starting now could delay it. A time limit that ends sooner, or an elastic job, could fill the gap."
            )
        case WaitReason.BACKOFF:
            pause_seconds = max(0.0, job.not_before - now)
            return f"Starts again in {pause_seconds:.0f} s, after a failure: {job.detail or 'a worker failed'}."
        case WaitReason.NO_MATCHING_NODE:
            lacking = wishes(_lacking(job, world))
            return f"No node has {lacking or 'what it asks for'}: add such a node, or submit it without."
        case WaitReason.EXCEEDS_CLUSTER:
            total = sum(node.slots for node in suitable)
            besides = ", or less beside its fixed group" if job.spec.fixed is not None else ""
            return (
                f"Too large for the cluster: {need}, and the nodes that suit it have {total} slots and would hold "
                f"{most_workers(job.spec, suitable)} workers when empty{besides}. "
                f"Lower its minimum, or add nodes.{those_closed(suitable)}"
            )
        case WaitReason.NODES_UNAVAILABLE:
            away = ", ".join(f"{n.name} ({why_away(n)})" for n in suitable if not n.schedulable)
            return f"Waits for nodes that take no new workers now: {away or 'none is known'}."
        case WaitReason.BOOKED_LATER | WaitReason.BOOKING_FULL:
            return _why_booked(job, need, world, now)
        case WaitReason.BEHIND_BOOKING:
            return (
                f"Would fit, but could not be out of booked slots in time: {need}. A time limit that ends before the "
                'booking starts, or an elastic job, could use them ("sched bookings" lists them).'
            )
        case WaitReason.POLICY_WITHOUT_FIXED:
            return f"Waits for another policy: {settings.name}, which is in force, knows nothing of fixed groups."
        case WaitReason.BEHIND_FOREIGN:
            return f"Would fit, but others than this scheduler's jobs wait for that room: {need}."
        case _:
            assert_never(reason)


def _lacking(job: Job, world: World) -> WorkerShape:
    """The shape of its workers, or of fixed ones where these are what no node suits."""
    fixed, nodes = job.spec.fixed, world.nodes.values()
    return job.shape if fixed is None or not any(node.suits(job.shape) for node in nodes) else fixed.shape


def _to_share(job: Job, suitable: list[Node], world: World) -> str:
    """What a job that accepts to share finds, and why it may be less than it seems."""
    if not job.shape.oversell:
        return ""
    free = sum(_free_extra(node, world) for node in suitable if node.schedulable)
    crowded = sum(len(world.crowded.get(node.name, ())) for node in suitable)
    busy = f", but nobody new may share {crowded} that are or were too busy" if crowded else ""
    return f", and {free} to share{busy}"


def _why_booked(job: Job, need: str, world: World, now: float) -> str:
    booking = world.booking_of(job)
    if booking is None:
        return f"Its booking {job.spec.booking} is over: it is looked at as an ordinary job next."
    if booking.start_at > now:
        return f"Waits for its booking {booking.name}, which starts in {booking.start_at - now:.0f} s."
    return f"Waits for other jobs of its booking {booking.name}, which has {booking.slots} slots: {need}."


def _who_leaves(job: Job, world: World) -> str:
    other = world.job(job.wait_for) if job.wait_for is not None else None
    equal = other is not None and other.priority >= job.priority
    return "workers of jobs that share with it" if equal else "less important jobs"


def _why_starting(job: Job) -> str:
    ready = sum(worker.state == "READY" for worker in job.wanted_workers)
    first = ""
    if not job.fixed_ready:
        running = sum(worker.state is WorkerState.READY for worker in job.fixed_workers)
        first = f", which start once all {len(job.fixed_workers)} of its fixed group run ({running} do)"
    starting = f"Is starting: {ready} of {len(job.wanted_workers)} workers are ready{first} (attempt {job.attempt})."
    early = f" It is finishing already: {job.detail}." if job.finishing and job.detail else ""
    return starting + early + _what_blocks(job)


def _what_blocks(job: Job) -> str:
    """What the cluster says of a worker that does not run yet; empty if it says nothing."""
    blocked = [worker for worker in job.all_workers if worker.state is WorkerState.PENDING and worker.detail]
    if not blocked:
        return ""
    more = f" ({len(blocked) - 1} more do not run either)" if len(blocked) > 1 else ""
    return f" Worker {blocked[0].id} on {blocked[0].node} does not run yet{more}: {blocked[0].detail}"


def _why_this_size(
    job: Job, world: World, settings: PolicySettings, now: float
) -> tuple[str | None, JobId | None, str]:
    size = len(job.wanted_workers)
    shared = ", on slots that it shares with others" if any(w.shared for w in job.wanted_workers) else ""
    shown = f"Runs with {size} of at most {job.max_workers} workers{shared}"
    if job.state is JobState.RESIZING:
        shown = f"Is being resized to {size} of at most {job.max_workers} workers{shared}"
    leaving = next((worker for worker in job.leaving if worker.leave_for is not None), None)
    if leaving is not None:
        whom = _name(leaving.leave_for, world)
        return (
            leaving.leave_reason or LeaveReason.PREEMPTED,
            leaving.leave_for,
            f"{shown}: it gives workers up for {whom}.",
        )
    crowded_out = next((worker for worker in job.leaving if worker.leave_reason is LeaveReason.OVERSOLD), None)
    if crowded_out is not None:
        return "OVERSOLD", None, f"{shown}: it gives workers up, since {_STOP_TEXTS[StopReason.OVERSOLD]}."
    if any(worker.leave_reason is LeaveReason.BOOKED for worker in job.leaving):
        return "BOOKED", None, f"{shown}: it gives workers up, since {_STOP_TEXTS[StopReason.BOOKED]}."
    if any(worker.leave_reason is LeaveReason.FOREIGN for worker in job.leaving):
        return "FOREIGN", None, f"{shown}: it gives workers up, since {_STOP_TEXTS[StopReason.FOREIGN]}."
    if size >= job.max_workers:
        return None, None, f"{shown}: all that it may have."
    if settings.name in FIXED_SIZES and size >= job.preferred_workers:
        return None, None, f"{shown}: the size that it has under policy {settings.name}."
    if job.finishing:
        why = f" ({job.detail})" if job.detail else ""
        return None, None, f"{shown}: it is finishing, so it is not resized any more{why}."
    suitable = [node for node in world.nodes.values() if node.suits(job.shape) and node.schedulable]
    free = sum(_free_slots(node, world) for node in suitable)
    if free < job.shape.slots:
        return "INSUFFICIENT_SLOTS", None, f"{shown}: no slots that suit it are free."
    holder = _reserved_by(job, world)
    if holder is not None:
        return "BEHIND_RESERVATION", holder, f"{shown}: {free} slots are free, but held for {_name(holder, world)}."
    if job.last_resize_at is not None and now < job.last_resize_at + settings.grow_cooldown_seconds:
        left = job.last_resize_at + settings.grow_cooldown_seconds - now
        return "COOLDOWN", None, f"{shown}: it was resized just now and may grow again in {left:.1f} s."
    limit = job.spec.time_limit_seconds
    if limit is not None and job.started_at is not None and job.started_at + limit - now < settings.near_end_seconds:
        return "NEAR_END", None, f"{shown}: its time limit is so near that growing would not pay."
    return None, None, f"{shown}: it may grow at one of the next looks ({free} slots that suit it are free)."


def _why_stopped(job: Job, world: World) -> str:
    if job.state is JobState.SUSPENDED:
        return "Is suspended until it is resumed."
    why = _STOP_TEXTS[job.stop_reason] if job.stop_reason is not None else "asked to"
    whom = f" for {_name(job.stop_for, world)}" if job.stop_for is not None else ""
    detail = f" ({job.detail})" if job.detail else ""
    return f"Is being stopped: {why}{whom}{detail}. {len(job.all_workers)} workers have yet to leave."


def _how_it_ended(job: Job) -> str:
    why = "" if job.stop_reason is None else f": {_STOP_TEXTS[job.stop_reason]}"
    detail = f" ({job.detail})" if job.detail else ""
    code = f", exit code {job.exit_code}" if job.exit_code not in (None, 0) else ""
    return f"Has {job.state.lower() if job.state is not JobState.CANCELLED else 'been cancelled'}{why}{detail}{code}."


_STOP_TEXTS: dict[StopReason, str] = {
    StopReason.PREEMPTED: "its slots are needed",
    StopReason.REBALANCED: "another job of the same priority goes before it",
    StopReason.DRAINED: "its nodes are being drained",
    StopReason.BELOW_MINIMUM: "too few of its workers are left, and there is no room for more",
    StopReason.OVERSOLD: "it shared slots that are too busy for it, or not oversold any more",
    StopReason.GANG_RESTART: "a worker failed, and all start again together",
    StopReason.RETRIES_EXHAUSTED: "a worker failed and no retries are left",
    StopReason.TIME_LIMIT: "its time limit is over",
    StopReason.SUSPENDED: "a user suspended it",
    StopReason.RESUMED: "a user resumed it before it was gone; it is queued again then",
    StopReason.CANCELLED: "a user cancelled it",
    StopReason.BOOKED: "its slots are booked",
    StopReason.BOOKING_ENDED: "its booking is over",
    StopReason.FOREIGN: "others than this scheduler's jobs need its slots",
}


def _details(job: Job, world: World, now: float) -> ExplainDetails:
    suitable = [node for node in world.nodes.values() if node.suits(job.shape)]
    return {
        "min_workers": job.min_workers,
        "max_workers": job.max_workers,
        "workers": len(job.wanted_workers),
        "slots_per_worker": job.shape.slots,
        "slots_suitable": sum(node.slots for node in suitable) if world.nodes else None,
        "slots_free": sum(_free_slots(n, world) for n in suitable if n.schedulable) if world.nodes else None,
        "extra_slots_free": sum(_free_extra(n, world) for n in suitable if n.schedulable)
        if job.shape.oversell
        else None,
        "reservation": [(node, count) for node, count in job.reservation],
        "reserved_by": _reserved_by(job, world),
        "not_before": job.not_before if job.not_before > now else None,
    }


def _free_slots(node: Node, world: World) -> int:
    return max(0, node.slots - world.used(node.name).slots - world.foreign.get(node.name, NO_FOREIGN).slots)


def _free_extra(node: Node, world: World) -> int:
    return max(0, node.extra_slots - world.used(node.name).slots_shared)


def _reserved_by(job: Job, world: World) -> JobId | None:
    """The most important waiting job that holds capacity on a node which suits this one."""
    holders = [
        other
        for other in world.queued.values()
        if other.id != job.id
        and any(world.nodes[node].suits(job.shape) for node, _ in other.reservation if node in world.nodes)
    ]
    return min(holders, key=lambda other: (-other.priority, other.id)).id if holders else None


def _name(job_id: JobId | None, world: World) -> str:
    job = world.job(job_id) if job_id is not None else None
    return f"job {job_id} ({job.spec.name}, priority {job.priority})" if job is not None else f"job {job_id}"


def _places(placement: Placement) -> str:
    if not placement:
        return "slots are"
    workers = sum(count for _, count in placement)
    nodes = ", ".join(node for node, _ in placement[:5])
    return f"room for {workers} worker{'s' if workers > 1 else ''} on {nodes} is"
