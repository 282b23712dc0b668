"""`GET /v1/explain`: why slots are idle."""

from collections import Counter
from collections.abc import Iterator

from fastapi import APIRouter
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.http.errors import documented
from scheduler.http.explain.node_reasons import why_away, why_closed
from scheduler.http.explain.planner_query import look_at
from scheduler.http.explain.room import closed_slots, free_slots
from scheduler.http.explain.words import are, growth_text, job_name, keeper_name, named
from scheduler.http.json import JsonResponse
from scheduler.http.services import ServicesDep
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.shape import WorkerShape
from scheduler.model.slot import SlotClosure
from scheduler.model.words import counted
from scheduler.model.world import World
from scheduler.policy.explain.growth_limits import GrowthLimits
from scheduler.policy.explain.held_slots import Keeper, Look

router = APIRouter(tags=["cluster"])

#: A shape that every node suits.
_ANY = WorkerShape()


class IdleView(TypedDict):
    #: Number of slots.
    slots: int
    #: RESERVED: held for a waiting job, for which more is being freed. NODE_AWAY: its node takes no workers.
    #: SLOT_CLOSED: it takes no workers, since it is unhealthy or unreadable.
    #: KEPT: closed to jobs that would delay a booking, a waiting job that goes first, or others of the cluster.
    #: FREE: any job may have them.
    reason: str
    #: The job that they are held or kept for; null: none.
    for_job: int | None
    #: Name of the booking that they are kept for; null: none.
    booking: str | None
    #: One line for people.
    sentence: str


class IdleSlotsView(TypedDict):
    #: Physical slots of all nodes.
    slots_total: int
    #: Slots that no worker holds.
    slots_idle: int
    #: One line for people.
    summary: str
    #: All idle slots, by reason.
    idle: list[IdleView]
    #: Number of waiting jobs, by reason.
    waiting: dict[str, int]
    #: Why nothing is being decided; null: all is well.
    not_ready: str | None


@router.get("/v1/explain", response_model=IdleSlotsView, responses=documented())
def explain_idle(services: ServicesDep) -> Response:
    """Explain why slots are idle: reserved, on a node closed to new workers, or not usable by any job."""
    world, not_ready = services.board.world or World(), services.not_ready()
    parts = [*_away(world), *_closed(world), *_held(world)]
    free = _open(world).total() - sum(part["slots"] for part in _held(world))
    if free:
        now, policy = services.clock.now(), services.settings.policy
        seen = look_at(services, world, now)
        kept = _kept(world, seen, free)
        parts += kept
        free -= sum(part["slots"] for part in kept)
        if free:
            parts.append(_free(world, free, GrowthLimits(world, now, policy, seen), now))
    total, idle = sum(node.slots for node in world.nodes.values()), sum(part["slots"] for part in parts)
    trouble = "" if not_ready is None else f" The scheduler is not making decisions: {not_ready}."
    view: IdleSlotsView = {
        "slots_total": total,
        "slots_idle": idle,
        "summary": f"{idle} of {total} slots {are(idle)} idle.{trouble}",
        "idle": parts,
        "waiting": _waiting(world),
        "not_ready": not_ready,
    }
    return JsonResponse(view)


def _away(world: World) -> Iterator[IdleView]:
    slots, nodes = Counter[str](), dict[str, list[str]]()
    for node in world.nodes.values():
        free = free_slots(node, world)
        if free and not node.schedulable:
            slots[why_away(node)] += free
            nodes.setdefault(why_away(node), []).append(node.name)
    for why, count in sorted(slots.items()):
        names = named(sorted(nodes[why]))
        sentence = f"{counted(count, 'slot')} {are(count)} on nodes closed to new workers: {names} ({why})."
        yield _idle(count, "NODE_AWAY", sentence)


def _closed(world: World) -> Iterator[IdleView]:
    """Slots that are closed and idle; slots used by others are not idle."""
    found = [
        why_closed(node, each) for node, each in closed_slots(_ANY, world) if each.closure is not SlotClosure.FOREIGN
    ]
    if found:
        count = len(found)
        sentence = f"{counted(count, 'slot')} {are(count)} closed to new workers: {named(found)}."
        yield _idle(count, "SLOT_CLOSED", sentence)


def _held(world: World) -> Iterator[IdleView]:
    left = _open(world)
    for job in sorted(world.reserved.values(), key=lambda job: (-job.priority, job.id)):
        fixed = job.spec.fixed.shape.slots if job.spec.fixed is not None else 0
        wanted = Counter[NodeName]()
        for name, workers in () if job.reservation_shared else job.reservation:
            wanted[name] += workers * job.shape.slots
        for name, workers in job.fixed_reservation:
            wanted[name] += workers * fixed
        held = 0
        for name, count in wanted.items():
            taken = min(count, left[name])
            left[name] -= taken
            held += taken
        if held:
            whom = job_name(job.id, world)
            sentence = f"{counted(held, 'slot')} {are(held)} reserved for {whom}, which waits for more."
            yield _idle(held, "RESERVED", sentence, Keeper(for_job=job.id))


def _kept(world: World, seen: Look | None, most: int) -> list[IdleView]:
    """Free slots that the planner keeps, if that holds any job back."""
    parts = []
    kept = [*seen.kept()] if seen is not None else []
    behind = seen.kept_back() if seen is not None else None
    if behind is not None and any(job.wait_for == behind[0].for_job for job in _waiting_behind(world)):
        kept.append(behind)
    for keeper, slots in kept:
        count = min(slots, most)
        most -= count
        if count:
            sentence = f"{counted(count, 'slot')} {are(count)} reserved for {keeper_name(keeper, world)}."
            parts.append(_idle(count, "KEPT", sentence, keeper))
    return parts


def _waiting_behind(world: World) -> Iterator[Job]:
    return (job for job in world.queued.values() if job.wait_reason is WaitReason.BEHIND_RESERVATION)


def _free(world: World, free: int, limits: GrowthLimits, now: float) -> IdleView:
    waiting = _waiting(world)
    reasons = ", ".join(f"{reason} {count}" for reason, count in waiting.items())
    wait = "no job is waiting"
    if waiting:
        count = sum(waiting.values())
        wait = f"the {counted(count, 'waiting job')} cannot use {'it' if free == 1 else 'them'} ({reasons})"
    sentence = f"{counted(free, 'slot')} {are(free)} free: {wait}{_growing(world, limits)}."
    if WaitReason.BEHIND_BOOKING in waiting:
        ahead = sorted(booking.name for booking in world.bookings.values() if booking.start_at > now)
        sentence += f" Jobs that could not leave in time are kept out for {_bookings(ahead)}." if ahead else ""
    return _idle(free, "FREE", sentence)


def _bookings(names: list[str]) -> str:
    return f"booking{'s' if len(names) > 1 else ''} {named(names)}"


def _growing(world: World, limits: GrowthLimits) -> str:
    """Why running jobs below their maximum have no more workers."""
    counts = Counter[str]()
    for job in world.active.values():
        if job.state in (JobState.RUNNING, JobState.RESIZING):
            text = growth_text(limits.of(job))
            if text:
                counts[text] += 1
    if not counts:
        return ", and no running job can grow"
    texts = ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))
    return f"; running jobs below their maximum: {texts}"


def _idle(slots: int, reason: str, sentence: str, keeper: Keeper | None = None) -> IdleView:
    for_job, booking = (keeper.for_job, keeper.booking) if keeper is not None else (None, None)
    return {"slots": slots, "reason": reason, "for_job": for_job, "booking": booking, "sentence": sentence}


def _open(world: World) -> Counter[NodeName]:
    """Free slots of each node that accepts workers."""
    return Counter({node.name: free_slots(node, world) for node in world.nodes.values() if node.schedulable})


def _waiting(world: World) -> dict[str, int]:
    counts = Counter(str(job.wait_reason) for job in world.queued.values() if job.wait_reason is not None)
    return dict(sorted(counts.items()))
