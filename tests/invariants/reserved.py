"""Reservations: what is freed for a job is taken only by it or by someone more important (I5)."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from scheduler.config import PolicySettings
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.node import CPU_EPSILON, Node
from scheduler.model.queue import ANY_GPU
from scheduler.model.queue_tree import chain, nearest
from scheduler.model.stray import Stray
from scheduler.model.worker import LeaveReason, Worker
from scheduler.model.world import World as Snapshot
from scheduler.policy.capacity.pools import open_to_share, shareable
from scheduler.policy.checks.plan import FIXED_SIZES
from scheduler.policy.published.rules import RULES
from scheduler.policy.snapshot.order import Order, Rank
from scheduler.policy.snapshot.usage import RESIZABLE_STATES
from tests.invariants.broken import Broken, hold
from tests.invariants.queues import LIMITS_OF_QUEUES, whose
from tests.invariants.sizes import starting_size

#: A job, a node, and the number of slots there, shared ones (True) or its own.
_Place = tuple[JobId, NodeName, int, bool]


@dataclass(frozen=True, slots=True)
class _Amount:
    """What is held on one node."""

    slots: int = 0
    slots_shared: int = 0
    cpus: float = 0.0
    memory_mib: int = 0

    def plus(self, count: int, slots: int, shared: bool, cpus: float, memory_mib: int) -> "_Amount":
        """The amount plus that of `count` more workers, each of the given needs."""
        return _Amount(
            self.slots + (0 if shared else count * slots),
            self.slots_shared + (count * slots if shared else 0),
            self.cpus + count * cpus,
            self.memory_mib + count * memory_mib,
        )


def reservations_fit(snapshot: Snapshot) -> None:
    """What stays, what others hold and what is held for waiting jobs fit their node: nobody sits on what is held."""
    held: dict[NodeName, _Amount] = {}
    for job in snapshot.queued.values():
        _add_held(held, job)
    staying = _staying(snapshot, _stays) if held else {}
    for name, amount in held.items():
        stays = _not_free(snapshot, snapshot.nodes[name], staying.get(name, _Amount()))
        hold(_fits(snapshot, name, amount, stays), "RESERVED", f"{name}: {amount} held beside {stays}")


def _fits(snapshot: Snapshot, name: NodeName, held: _Amount, stays: _Amount) -> bool:
    """Counting only kinds of which something is held."""
    node = snapshot.nodes[name]
    to_share = shareable(node, snapshot.crowded.get(name, ()))
    return (
        (not held.slots or held.slots + stays.slots <= node.slots)
        and (not held.slots_shared or held.slots_shared + stays.slots_shared <= to_share)
        and (not held.cpus or held.cpus + stays.cpus <= node.cpus + CPU_EPSILON)
        and (not held.memory_mib or held.memory_mib + stays.memory_mib <= node.memory_mib)
    )


def _add_held(held: dict[NodeName, _Amount], job: Job, most: Mapping[tuple[NodeName, bool], int] | None = None) -> None:
    """Add what is held for the job: for at most this many workers on each node, fixed ones (True) or others."""
    group = job.spec.fixed
    parts = [(name, count, False, job.shape, job.reservation_shared) for name, count in job.reservation]
    if group is not None:
        parts += [(name, count, True, group.shape, False) for name, count in job.fixed_reservation]
    for name, count, fixed, shape, shared in parts:
        number = count if most is None else min(count, most.get((name, fixed), 0))
        before = held.get(name, _Amount())
        held[name] = before.plus(number, shape.slots, shared, shape.cpus, shape.memory_mib)


def _staying(snapshot: Snapshot, counts: Callable[[Job, Worker], bool]) -> dict[NodeName, _Amount]:
    """What those workers hold that are not leaving, as far as they count, and strays that are left to work.

    A slot counts once: a node that is seen late lists workers whose slots others have by now.
    """
    wanted = (each for job in snapshot.active.values() for each in job.all_workers if counts(job, each))
    holders: list[Worker | Stray] = [*wanted, *(each for each in snapshot.strays.values() if snapshot.goes_on(each))]
    staying: dict[NodeName, _Amount] = {}
    counted: dict[NodeName, set[int]] = {}
    for holder in holders:
        slots = set(holder.slot_ids)
        if not holder.shared:
            node, known = snapshot.nodes.get(holder.node), counted.setdefault(holder.node, set())
            slots -= known
            known |= slots
            slots -= {each.slot for each in node.closed_among(holder.slot_ids)} if node is not None else set()
        before = staying.get(holder.node, _Amount())
        staying[holder.node] = before.plus(1, len(slots), holder.shared, holder.cpus, holder.memory_mib)
    return staying


def _stays(job: Job, worker: Worker) -> bool:
    return worker.wanted and job.state is not JobState.STOPPING


def _taken(job: Job, worker: Worker) -> bool:
    """Whether the worker leaves for a more important job."""
    return worker.leave_reason is LeaveReason.PREEMPTED or job.stop_reason is StopReason.PREEMPTED


def _not_free(snapshot: Snapshot, node: Node, staying: _Amount) -> _Amount:
    """What stays on the node, what others hold of it, and its closed slots."""
    others = snapshot.foreign.get(node.name, NO_FOREIGN)
    stays = staying.plus(1, others.slots, False, others.cpus, others.memory_mib)
    return stays.plus(1, node.closed_mask.bit_count(), False, 0.0, 0)


class Promises:
    """Remembers what was held, and finds a job that lost what it could have kept.

    It could have where that still fits beside everything that was there before, and everything new of those that go
    before it. Only two looks with one commit between them are compared: what a tick did that nobody looked at may be
    undone by the next one. Each look is to be at a world on which the tick has decided: one that was only loaded tells
    nothing of what others held when the plan was made.
    """

    def __init__(self) -> None:
        self._before = Snapshot.of((), (), ())
        self._looked_at = 0.0
        self._settings: PolicySettings | None = None
        self._moment = (0, 0)

    def after_tick(self, snapshot: Snapshot, order: Order, settings: PolicySettings, moment: tuple[int, int]) -> None:
        """Raise `Broken` where a reservation is gone without a reason; one of earlier settings needs none.

        `moment`: the term, and how many commits there have been. In the next term another leader has come, and in the
        one after that a third may have committed under settings of its own.
        """
        terms, commits = (now - then for now, then in zip(moment, self._moment, strict=True))
        if settings == self._settings and terms <= 1 and commits <= 1:
            for before in self._before.reserved.values():
                job = snapshot.queued.get(before.id)
                if job is None or job.reservation or _excused(before, job, self._before, snapshot, order, settings):
                    continue
                if snapshot.queues and _excused_by_queues(job, self._before, self._looked_at, snapshot, order.now):
                    continue
                if _still_fits(before, self._before, snapshot, order, settings):
                    raise Broken("RESERVED", f"job {job.id} lost {before.reservation} to nobody more important")
        # Else nothing may have been decided by these settings yet: what was committed may be of the term before.
        if commits and (not terms or moment[0] == 1):
            self._settings = settings
        self._before, self._looked_at, self._moment = snapshot, order.now, moment


def _excused(before: Job, job: Job, then: Snapshot, snapshot: Snapshot, order: Order, settings: PolicySettings) -> bool:
    """Whether the job needs something else now, or the policy may promise what was held to somebody ahead of it."""
    if (
        job.min_workers != before.min_workers
        or job.attempt != before.attempt
        or job.queued_at != before.queued_at  # it left the queue and came back, with nothing held for it
        or job.not_before > order.now
        or snapshot.bookings
    ):
        return True
    names = _names(before)
    demands = [each.demand for each in snapshot.demands if each.ignored_until is None]
    nodes = [snapshot.nodes[name] for name in names if name in snapshot.nodes]
    if any(demand.may_use(node.name) and node.suits(demand.shape) for demand in demands for node in nodes):
        return True
    if settings.name == "elastic":
        return False
    if job.spec.fixed is not None:
        return True  # no such policy starts a job with a fixed group
    if settings.name in FIXED_SIZES and starting_size(before, then) != starting_size(job, snapshot):
        return True
    goes_before = _goes_before(order, settings)
    begun = (each for each in snapshot.active.values() if each.started_at == order.now)  # wherever that is
    return any(goes_before(each, job) for each in (*snapshot.queued.values(), *begun) if each.id != job.id)


def _excused_by_queues(job: Job, then: Snapshot, looked_at: float, snapshot: Snapshot, now: float) -> bool:
    """Whether rules of queues keep the job from what was held, or changed, or another queue or user may have it now.

    `looked_at`: the moment of the look before.
    """
    if job.wait_reason in LIMITS_OF_QUEUES or snapshot.queues != then.queues or snapshot.spent != then.spent:
        return True
    around = chain(snapshot.queues, nearest(snapshot.queues, job.spec.queue))
    if job.shape.gpu_type is None and any(name != ANY_GPU for queue in around for name, _ in queue.limit):
        return True  # it waits for slots of another type, as far as the limit of this one keeps it off
    if job.wait_reason is WaitReason.NOT_GUARANTEED and (
        _wanting(job, snapshot, now) - _wanting(job, then, looked_at) or _offered(snapshot) != _offered(then)
    ):
        return True
    others = (
        o for o in (*snapshot.active.values(), *snapshot.queued.values()) if whose(o, snapshot) != whose(job, snapshot)
    )
    known = {job.id: job for job in (*then.active.values(), *then.queued.values())}
    return any(_got_some(other, known.get(other.id)) for other in others)


def _wanting(job: Job, snapshot: Snapshot, now: float) -> set[tuple[JobId, int, int]]:
    """Jobs of other queues or users that want slots, and their sizes: what is guaranteed follows them."""
    active = (each for each in snapshot.active.values() if each.state in RESIZABLE_STATES)
    queued = (each for each in snapshot.queued.values() if each.not_before <= now)
    others = (other for other in (*active, *queued) if whose(other, snapshot) != whose(job, snapshot))
    return {(other.id, other.min_workers, other.max_workers) for other in others}


def _offered(snapshot: Snapshot) -> tuple[object, ...]:
    """What nodes have for jobs: with more of it, others can run whose queues claim their guarantees then."""
    nodes = {
        name: (node.schedulable, node.slots, node.closed_mask, node.labels, node.gpu_type)
        for name, node in snapshot.nodes.items()
    }
    return nodes, snapshot.foreign, snapshot.strays


def _got_some(job: Job, before: Job | None) -> bool:
    """Whether the job has a worker, or holds something, that it did not before; what it grows by soon is not told."""
    if job.state in RESIZABLE_STATES and job.elastic and len(job.wanted_workers) < job.max_workers:
        return True
    known = {each.id for each in before.all_workers} if before is not None else set()
    workers = {each.id for each in job.all_workers} - known
    return bool(workers) or (bool(job.reservation) and (before is None or job.reservation != before.reservation))


def _still_fits(before: Job, then: Snapshot, snapshot: Snapshot, order: Order, settings: PolicySettings) -> bool:
    """Whether what was held fits beside all that was there before, and what came of those that go before the job."""
    shapes = [(name, before.shape) for name, _ in before.reservation]
    if before.spec.fixed is not None:
        shapes += [(name, before.spec.fixed.shape) for name, _ in before.fixed_reservation]
    found = [(snapshot.nodes.get(name), shape) for name, shape in shapes]
    if any(node is None or not node.schedulable or not node.suits(shape) for node, shape in found):
        return False
    if before.reservation_shared and not _has_different_slots(before, snapshot):
        return False
    if len({snapshot.nodes[name].gpu_type for name, _ in before.reservation}) > 1:
        return False  # workers of a job are on nodes of one type, and one of these has come to be of another
    job = snapshot.queued[before.id]
    goes_before = _goes_before(order, settings)
    held: dict[NodeName, _Amount] = {}
    held_then: dict[NodeName, _Amount] = {}
    _add_held(held, before)
    for other in snapshot.queued.values():
        _add_held(held, other, None if goes_before(other, job) else _held_before(then, other))
    for other in then.reserved.values():
        _add_held(held_then, other)
    presence = _presence(job, then, snapshot, order, settings)

    def not_free(name: NodeName, *kinds: _Presence) -> _Amount:
        staying = _staying(snapshot, lambda _, worker: presence[worker.id] in kinds)
        return _not_free(snapshot, snapshot.nodes[name], staying.get(name, _Amount()))

    for name in _names(before):
        # What was held for nobody may be taken by anybody, even if those that go before take the rest then.
        others = not_free(name, _Presence.STAYED, _Presence.CAME)
        kinds = (*_COUNTING, _Presence.CAME) if _fits(snapshot, name, held_then[name], others) else _COUNTING
        if not _fits(snapshot, name, held[name], not_free(name, *kinds)):
            return False
    return True


def _has_different_slots(before: Job, snapshot: Snapshot) -> bool:
    """Whether every node has as many slots open to share as one worker needs: it is on different ones."""
    nodes = [snapshot.nodes[name] for name, _ in before.reservation]
    return all(before.shape.slots <= open_to_share(node, snapshot.crowded.get(node.name, ())) for node in nodes)


class _Presence(Enum):
    """Why a worker is where it is, as seen by a job that lost what was held for it."""

    STAYED = auto()
    #: It belongs to a job that goes before.
    CAME_BEFORE = auto()
    CAME = auto()
    LEAVES = auto()


#: Those beside whom what was held has to fit in any case.
_COUNTING = (_Presence.STAYED, _Presence.CAME_BEFORE)


def _presence(
    job: Job, then: Snapshot, snapshot: Snapshot, order: Order, settings: PolicySettings
) -> dict[WorkerId, _Presence]:
    known = _places(then)
    stayed = {each.id for other in then.active.values() for each in other.all_workers if _stays(other, each)}

    def of(other: Job, worker: Worker) -> _Presence:
        if not _stays(other, worker):  # what was held had to fit before this tick took from anybody
            return _Presence.STAYED if worker.id in stayed and _taken(other, worker) else _Presence.LEAVES
        place = _place(other, worker)
        known[place] -= 1
        if known[place] >= 0:
            return _Presence.STAYED
        before = _goes_before(_order_at_start(other, order, settings), settings)
        return _Presence.CAME_BEFORE if before(other, job) else _Presence.CAME

    return {each.id: of(other, each) for other in snapshot.active.values() for each in other.all_workers}


def _places(snapshot: Snapshot) -> Counter[_Place]:
    """How many workers are to stay where, of held jobs as well: one that fails is replaced, on whichever slots.

    With those for which something is held: their jobs start there.
    """
    jobs = (*snapshot.active.values(), *snapshot.held.values())
    places = Counter(_place(job, each) for job in jobs for each in job.all_workers if each.wanted)
    for job in snapshot.reserved.values():
        for name, count in job.reservation:
            places[job.id, name, job.shape.slots, job.reservation_shared] += count
        for name, count in job.fixed_reservation if job.spec.fixed is not None else ():
            places[job.id, name, job.spec.fixed.shape.slots, False] += count
    return places


def _place(job: Job, worker: Worker) -> _Place:
    return job.id, worker.node, len(worker.slot_ids), worker.shared


def _held_before(then: Snapshot, other: Job) -> dict[tuple[NodeName, bool], int]:
    """For how many workers something was held on each node for this job, fixed ones (True) and others."""
    was = then.queued.get(other.id)
    if was is None or was.reservation_shared is not other.reservation_shared:
        return {}
    return {(name, False): n for name, n in was.reservation} | {(name, True): n for name, n in was.fixed_reservation}


def _names(job: Job) -> set[NodeName]:
    return {name for name, _ in (*job.reservation, *job.fixed_reservation)}


def _goes_before(order: Order, settings: PolicySettings) -> Callable[[Job, Job], bool]:
    """Who may take what is held for another; with published policies also a job that came back to its place."""
    if settings.name == "elastic":
        return order.more_important
    key = RULES[settings.name].key

    def place(job: Job) -> tuple[float, float, Rank]:
        return (-job.priority, key(job, order.now, settings) if key is not None else 0.0, order.rank(job))

    return lambda other, job: place(other) < place(job)


def _order_at_start(other: Job, order: Order, settings: PolicySettings) -> Order:
    """The order of the moment when the active one started: who waits goes on to age."""
    return Order(order.now if other.started_at is None else min(other.started_at, order.now), settings)
