"""The cluster as the live page shows it: nodes with their slots, jobs, the queue. Pure: computed from a world.

Pictures consist of plain values, so that two of them can be compared row by row and only differences are sent.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from typing_extensions import TypedDict

from scheduler.config import PolicySettings
from scheduler.http.explain.node_reasons import why_away
from scheduler.http.live.queues import LinesInTurn, QueueLine, queue_lines
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import Node, NodeHealth
from scheduler.model.node_usage import NO_USAGE, NodeUsage
from scheduler.model.plan import QueueShare
from scheduler.model.stray import Stray
from scheduler.model.worker import Worker, WorkerState
from scheduler.model.world import World
from scheduler.policy.snapshot.order import Order

#: Limit on the listed jobs, the most important first; the numbers by state count all of them.
ACTIVE_MAX = 2_000
WAITING_MAX = 500

#: Slots of a worker: (job, mark, slot ids). Marks: starting, ready, leaving.
Held = tuple[int, str, list[int]]


class NodeCells(TypedDict):
    """A node and its slots."""

    name: str
    slots: int
    #: Why it accepts no new workers; empty if it does.
    away: str
    held: list[Held]
    #: Workers that share slots with others.
    shared: list[Held]
    #: Number of its slots that others than workers hold, if it is not known which.
    foreign: int
    #: Slots that take no new workers, and why: (slot, FOREIGN, UNHEALTHY or UNREADABLE, a line for people).
    closed: list[tuple[int, str, str]]
    #: Waiting jobs and the number of its slots that are held for each.
    reserved: list[tuple[int, int]]


class JobLine(TypedDict):
    """A job in one line."""

    id: int
    name: str
    user: str
    #: Path of its queue; empty: none.
    queue: str
    state: str
    priority: int
    workers: int
    min_workers: int
    max_workers: int
    slots_per_worker: int
    #: Why it waits, or why it was stopped.
    reason: str | None
    for_job: int | None
    #: When it came into the queue, or started.
    since: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment. Rows are keyed by name and by id."""

    #: Slots of nodes that are up; then those that workers hold.
    slots_total: int
    slots_used: int
    jobs_by_state: Mapping[str, int]
    nodes: Mapping[str, NodeCells]
    jobs: Mapping[int, JobLine]
    #: Ids of waiting jobs in the order in which they are served.
    queue: list[int]
    #: The queues among which the slots are divided.
    queues: Mapping[str, QueueLine]


NO_PICTURE = Snapshot(0, 0, {}, {}, {}, [], {})


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A job as it was drawn last; its line and cells are reused while the job is the same value."""

    job: Job
    line: JobLine
    #: Node, whether its slots are shared, and the held slots.
    held: list[tuple[NodeName, bool, Held]]


class Drawer:
    """Makes pictures one after the other, and redraws only changed jobs and nodes. One thread at a time."""

    def __init__(self) -> None:
        self._drawn: dict[JobId, _Drawn] = {}
        self._world: World | None = None
        self._shares: tuple[QueueShare, ...] = ()
        self._queues = LinesInTurn()
        self._snapshot = NO_PICTURE

    def draw(self, world: World, shares: tuple[QueueShare, ...], settings: PolicySettings, now: float) -> Snapshot:
        """The picture of this world. `shares`: of its queues, as the last plan saw them."""
        order = Order(now, settings)
        anew = world is not self._world or order.ages
        if anew and (order.ages or not self._shows(world)):
            self._snapshot = self._draw_world(world, order)
        if anew or shares != self._shares or self._queues.late:  # shares are posted a moment after the world
            self._snapshot = replace(self._snapshot, queues=self._queues.next(queue_lines(world, shares)))
        self._world, self._shares = world, shares
        return self._snapshot

    def _shows(self, world: World) -> bool:
        """Whether the last picture shows this world as well: since then, jobs have only progressed."""
        before = self._world
        touched = world.touched_since(before) if before is not None else None
        if before is None or touched is None or touched.altered or touched.nodes:
            return False
        beside = (before.strays, before.foreign, before.unreadable)
        return (world.strays, world.foreign, world.unreadable) == beside

    def _draw_world(self, world: World, order: Order) -> Snapshot:
        waiting = heapq.nsmallest(WAITING_MAX, world.queued.values(), key=order.rank)
        active = heapq.nsmallest(ACTIVE_MAX, world.active.values(), key=lambda job: (-job.priority, job.id))
        suspended = heapq.nsmallest(WAITING_MAX, world.suspended.values(), key=lambda job: job.id)
        held = heapq.nsmallest(ACTIVE_MAX, world.held.values(), key=lambda job: job.id)
        shown = (*active, *held, *waiting, *suspended)
        drawn = (*world.active.values(), *held, *waiting, *suspended)
        self._drawn = {job.id: self._draw_job(job) for job in drawn}
        states = Counter(job.state for job in world.active.values())
        states[JobState.QUEUED], states[JobState.SUSPENDED] = len(world.queued), len(world.suspended)
        states[JobState.HELD] = len(world.held)
        up = [node for node in world.nodes.values() if node.health is NodeHealth.UP]
        used = _used(world)
        return Snapshot(
            slots_total=sum(node.slots for node in up),
            slots_used=sum(used.get(node.name, NO_USAGE).slots for node in up),
            jobs_by_state={str(state): states[state] for state in JobState if not state.terminal},
            nodes=self._nodes(world, used),
            jobs={job.id: self._drawn[job.id].line for job in shown},
            queue=[job.id for job in waiting],
            queues={},
        )

    def _draw_job(self, job: Job) -> _Drawn:
        known = self._drawn.get(job.id)
        if known is not None and known.job is job:
            return known
        return _Drawn(job, _line(job), [_held(worker, _mark(worker)) for worker in job.all_workers])

    def _nodes(self, world: World, used: Mapping[NodeName, NodeUsage]) -> dict[str, NodeCells]:
        own: dict[NodeName, list[Held]] = {}
        shared: dict[NodeName, list[Held]] = {}
        strays = (_held(stray, "ready" if world.goes_on(stray) else "leaving") for stray in world.strays.values())
        everybody = chain((held for job_id in world.active for held in self._drawn[job_id].held), strays)
        for name, sharing, held in everybody:
            (shared if sharing else own).setdefault(name, []).append(held)
        reserved = _reserved(world.reserved.values())
        return {
            name: _cells(
                node,
                own.get(name, []),
                shared.get(name, []),
                reserved.get(name, []),
                _foreign(node, used.get(name, NO_USAGE), world),
            )
            for name, node in sorted(world.nodes.items())
        }


def difference(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """The change from the earlier picture to the later one; empty if they are equal."""
    found: dict[str, Any] = {}
    for name in ("nodes", "jobs", "queues"):
        old, new = getattr(before, name), getattr(after, name)
        if old is new:
            continue
        changed = [row for key, row in new.items() if old.get(key) != row]
        gone = [key for key in old if key not in new]
        if changed:
            found[name] = changed
        if gone:
            found[f"{name}_gone"] = gone
    for name in ("slots_total", "slots_used", "jobs_by_state", "queue"):
        if getattr(before, name) != getattr(after, name):
            found[name] = getattr(after, name)
    return found


def whole(snapshot: Snapshot) -> dict[str, Any]:
    """The whole picture, in the form of a change from an empty one."""
    return {
        "slots_total": snapshot.slots_total,
        "slots_used": snapshot.slots_used,
        "jobs_by_state": snapshot.jobs_by_state,
        "nodes": list(snapshot.nodes.values()),
        "jobs": list(snapshot.jobs.values()),
        "queue": snapshot.queue,
        "queues": list(snapshot.queues.values()),
    }


def _cells(
    node: Node, own: list[Held], shared: list[Held], reserved: list[tuple[JobId, int]], foreign: int
) -> NodeCells:
    return {
        "name": node.name,
        "slots": node.slots,
        "away": "" if node.schedulable else why_away(node),
        "held": sorted(own),
        "shared": sorted(shared),
        "foreign": foreign,
        "closed": [(each.slot, each.closure, each.detail) for each in node.closed_slots],
        "reserved": sorted(reserved),
    }


def _foreign(node: Node, used: NodeUsage, world: World) -> int:
    """The number of its slots that others hold, if it is not known which."""
    free = max(0, node.slots - used.slots)
    return min(free, world.foreign.get(node.name, NO_FOREIGN).slots)


def _used(world: World) -> Mapping[NodeName, NodeUsage]:
    """What live workers and strays hold, by node: as `World.used`, of all of them at once."""
    found = dict(world.usage)
    for stray in world.strays.values():
        found[stray.node] = found.get(stray.node, NO_USAGE).plus(stray)
    return found


def _reserved(jobs: Iterable[Job]) -> dict[NodeName, list[tuple[JobId, int]]]:
    """Slots of their own that are held for jobs, whether they are free already or being freed."""
    found: dict[NodeName, list[tuple[JobId, int]]] = {}
    for job in jobs:
        slots: Counter[NodeName] = Counter()
        for name, workers in () if job.reservation_shared else job.reservation:
            slots[name] += workers * job.shape.slots
        for name, workers in job.fixed_reservation:
            slots[name] += workers * (job.spec.fixed.shape.slots if job.spec.fixed is not None else 0)
        for name, count in slots.items():
            if count:
                found.setdefault(name, []).append((job.id, count))
    return found


def _held(holder: Worker | Stray, mark: str) -> tuple[NodeName, bool, Held]:
    return holder.node, holder.shared, (holder.job_id, mark, list(holder.slot_ids))


def _mark(worker: Worker) -> str:
    if not worker.wanted:
        return "leaving"
    return "ready" if worker.state is WorkerState.READY else "starting"


def _line(job: Job) -> JobLine:
    waiting = job.wait_reason is not None and not job.state.active
    return {
        "id": job.id,
        "name": job.spec.name,
        "user": job.spec.user,
        "queue": job.spec.queue,
        "state": job.state,
        "priority": job.priority,
        "workers": len(job.wanted_workers),
        "min_workers": job.min_workers,
        "max_workers": job.max_workers,
        "slots_per_worker": job.shape.slots,
        "reason": job.wait_reason if waiting else job.stop_reason,
        "for_job": job.wait_for if waiting else job.stop_for,
        "since": job.started_at if job.state.active and job.started_at is not None else job.queued_at,
    }
