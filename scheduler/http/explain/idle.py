"""`GET /v1/explain`: why slots are idle."""

from collections import Counter
from collections.abc import Iterator

from fastapi import APIRouter
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.http.away import why_away
from scheduler.http.errors import documented
from scheduler.http.explain.room import free_slots
from scheduler.http.explain.words import job_name
from scheduler.http.json import JsonResponse
from scheduler.http.services import Use
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import JobState
from scheduler.model.world import World

router = APIRouter(tags=["cluster"])

#: So many nodes are named of a longer list.
NAMED_MAX = 5


class IdleView(TypedDict):
    slots: int
    #: RESERVED: held for a waiting job. NODE_AWAY: its node takes no workers. FREE: anybody may have them.
    reason: str
    #: Whom they are held for.
    for_job: int | None
    sentence: str


class IdleSlotsView(TypedDict):
    slots_total: int
    slots_idle: int
    summary: str
    #: All idle slots, by why they are.
    idle: list[IdleView]
    #: Jobs that wait, by why they do.
    waiting: dict[str, int]
    #: Why nothing is being decided; null: all is well.
    not_ready: str | None


@router.get("/v1/explain", response_model=IdleSlotsView, responses=documented())
def explain_idle(services: Use) -> Response:
    """Why slots are idle: held for a job, on a node that takes no workers, or of no use to any job now."""
    world, not_ready = services.board.world or World(), services.not_ready()
    parts = [*_away(world), *_held(world), *_free(world)]
    total, idle = sum(node.slots for node in world.nodes.values()), sum(part["slots"] for part in parts)
    trouble = "" if not_ready is None else f" Nothing is being decided now: {not_ready}."
    view: IdleSlotsView = {
        "slots_total": total,
        "slots_idle": idle,
        "summary": f"{idle} of {total} slots {_are(idle)} idle.{trouble}",
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
        names = sorted(nodes[why])
        named = ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")
        sentence = f"{_slots(count)} {_are(count)} on nodes that take no new workers: {named} ({why})."
        yield {"slots": count, "reason": "NODE_AWAY", "for_job": None, "sentence": sentence}


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
            sentence = f"{_slots(held)} {_are(held)} held for {job_name(job.id, world)}, for which more is being freed."
            yield {"slots": held, "reason": "RESERVED", "for_job": job.id, "sentence": sentence}


def _free(world: World) -> Iterator[IdleView]:
    held = sum(part["slots"] for part in _held(world))
    free = _open(world).total() - held
    if not free:
        return
    waiting = _waiting(world)
    reasons = ", ".join(f"{reason} {count}" for reason, count in waiting.items())
    wait = "no job waits"
    if waiting:
        count = sum(waiting.values())
        wait = f"of no use to the {count} job{'s' if count > 1 else ''} that wait{'' if count > 1 else 's'} ({reasons})"
    room = len(_with_room(world))
    grow = "no running job may have more workers"
    if room:
        grow = (
            f"{room} running job{'s' if room > 1 else ''} could grow, once cool-down and pay-back of a resize allow it"
        )
    sentence = f"{_slots(free)} {_are(free)} free: {wait}, and {grow}."
    yield {"slots": free, "reason": "FREE", "for_job": None, "sentence": sentence}


def _open(world: World) -> Counter[NodeName]:
    """Free slots by node that takes workers."""
    return Counter({node.name: free_slots(node, world) for node in world.nodes.values() if node.schedulable})


def _with_room(world: World) -> list[JobId]:
    """Running jobs that may have more workers, and which a free slot suits."""
    open_nodes = [world.nodes[name] for name, free in _open(world).items() if free]
    return [
        job.id
        for job in world.active.values()
        if job.state in (JobState.RUNNING, JobState.RESIZING)
        and not job.finishing
        and len(job.wanted_workers) < job.max_workers
        and any(node.suits(job.shape) and free_slots(node, world) >= job.shape.slots for node in open_nodes)
    ]


def _waiting(world: World) -> dict[str, int]:
    counts = Counter(str(job.wait_reason) for job in world.queued.values() if job.wait_reason is not None)
    return dict(sorted(counts.items()))


def _slots(count: int) -> str:
    return f"{count} slot{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
