"""Reservations: what is freed for a job is taken only by it or by someone more important (I5)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from scheduler.config import PolicySettings
from scheduler.model.foreign import NO_FOREIGN, ForeignUse
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import CPU_EPSILON, Node
from scheduler.model.shape import WorkerShape
from scheduler.model.world import CrowdedSlot
from scheduler.model.world import World as Snapshot
from scheduler.policy.checks.plan import FIXED_SIZES
from scheduler.policy.published.rules import RULES
from scheduler.policy.snapshot.order import Order, Rank
from tests.invariants.broken import Broken, hold


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
    held = _held(snapshot)
    staying = _staying(snapshot) if held else {}
    for name, amount in held.items():
        others = snapshot.foreign.get(name, NO_FOREIGN)
        node = snapshot.nodes[name]
        stays = staying.get(name, _Amount()).plus(1, others.slots, False, others.cpus, others.memory_mib)
        stays = stays.plus(1, node.slots - node.reduced().slots, False, 0.0, 0)
        hold(_fits(node, amount, stays), "RESERVED", f"{name}: {amount} held beside {stays}")


def _fits(node: Node, held: _Amount, stays: _Amount) -> bool:
    """Counting only kinds of which something is held."""
    return (
        (not held.slots or held.slots + stays.slots <= node.slots)
        and (not held.slots_shared or held.slots_shared + stays.slots_shared <= node.extra_slots)
        and (not held.cpus or held.cpus + stays.cpus <= node.cpus + CPU_EPSILON)
        and (not held.memory_mib or held.memory_mib + stays.memory_mib <= node.memory_mib)
    )


def _held(snapshot: Snapshot) -> dict[NodeName, _Amount]:
    held: dict[NodeName, _Amount] = {}
    for job in snapshot.queued.values():
        for name, count in job.reservation:
            shape = job.shape
            before = held.get(name, _Amount())
            held[name] = before.plus(count, shape.slots, job.reservation_shared, shape.cpus, shape.memory_mib)
        for name, count in job.fixed_reservation if job.spec.fixed is not None else ():
            shape = job.spec.fixed.shape
            before = held.get(name, _Amount())
            held[name] = before.plus(count, shape.slots, False, shape.cpus, shape.memory_mib)
    return held


def _staying(snapshot: Snapshot) -> dict[NodeName, _Amount]:
    staying: dict[NodeName, _Amount] = {}
    for job in snapshot.active.values():
        wanted = (worker for worker in job.all_workers if worker.wanted)
        for worker in wanted if job.state is not JobState.STOPPING else ():
            before = staying.get(worker.node, _Amount())
            node = snapshot.nodes.get(worker.node)
            closed = node.closed_among(worker.slot_ids) if node is not None and not worker.shared else ()
            size = len(worker.slot_ids) - len(closed)
            staying[worker.node] = before.plus(1, size, worker.shared, worker.cpus, worker.memory_mib)
    return staying


class Promises:
    """Remembers what was held, and finds a job that lost it to nobody more important."""

    def __init__(self) -> None:
        self._held: dict[JobId, Job] = {}
        self._settings: PolicySettings | None = None
        self._nodes: Mapping[NodeName, Node] = {}
        self._others: Mapping[NodeName, ForeignUse] = {}
        self._crowded: Mapping[NodeName, Mapping[int, CrowdedSlot]] = {}

    def after_tick(
        self, snapshot: Snapshot, order: Order, settings: PolicySettings, returned: Collection[NodeName | None] = ()
    ) -> None:
        """Raise `Broken` where a reservation is gone without a reason; one of earlier settings needs none.

        `returned`: nodes that were down since the look before, and are not any more.
        """
        policy, before_settings = settings.name, self._settings
        self._settings = settings
        goes_before = _goes_before(order, settings)
        for job_id, before in self._held.items() if settings == before_settings else ():
            job = snapshot.queued.get(job_id)
            if (
                job is None
                or job.reservation
                or (job.spec.fixed is not None and policy != "elastic")  # which starts no job with a fixed group
                or self._has_gone(before, snapshot)
                or any(name in returned for name, _ in (*before.reservation, *before.fixed_reservation))
                or self._others_came(before, snapshot)
                or self._is_crowded(before, snapshot)
            ):
                continue
            if self._has_grown(snapshot) and any(order.rank(each) < order.rank(job) for each in _waiting(snapshot)):
                continue  # one ahead that was too large fits now, and what is behind it must not delay it
            if policy != "elastic" and any(goes_before(each, job) for each in _deciding_now(snapshot, order.now)):
                continue  # these promise the future to those ahead, who may have come or be due at another time
            if policy in FIXED_SIZES and job.preferred_workers != before.preferred_workers:
                continue  # it starts with another size than was held for it
            if not _excused(before, job, snapshot, order, settings):
                raise Broken("RESERVED", f"job {job_id} lost {before.reservation} to nobody more important")
        self._held = {job.id: job for job in snapshot.queued.values() if job.reservation}
        self._nodes = snapshot.nodes
        self._others = snapshot.foreign
        self._crowded = snapshot.crowded

    def _has_gone(self, before: Job, snapshot: Snapshot) -> bool:
        """Whether nodes of the reservation have less than they had, take no workers, or suit these no more.

        Workers of a job are on nodes of one GPU type, so together they suit them no more when one becomes of another.
        """
        if len({snapshot.nodes[name].gpu_type for name, _ in before.reservation if name in snapshot.nodes}) > 1:
            return True
        held = [(name, before.shape) for name, _ in before.reservation]
        if before.spec.fixed is not None:
            held += [(name, before.spec.fixed.shape) for name, _ in before.fixed_reservation]
        nodes = ((snapshot.nodes.get(name), shape, self._nodes[name]) for name, shape in held)
        return any(
            node is None or not node.schedulable or not node.suits(shape) or _has_less(node, was, shape)
            for node, shape, was in nodes
        )

    def _others_came(self, before: Job, snapshot: Snapshot) -> bool:
        """Whether others hold another amount of a node of the reservation than they did, or wait for it."""
        demands = [each.demand for each in snapshot.demands if each.ignored_until is None]
        return any(
            snapshot.foreign.get(name, NO_FOREIGN) != self._others.get(name, NO_FOREIGN)
            or any(demand.may_use(name) and snapshot.nodes[name].suits(demand.shape) for demand in demands)
            for name, _ in (*before.reservation, *before.fixed_reservation)
        )

    def _is_crowded(self, before: Job, snapshot: Snapshot) -> bool:
        """Whether shared slots were held on nodes of which other slots are crowded now, and so take nobody."""
        names = [name for name, _ in before.reservation] if before.reservation_shared else []
        return any(set(snapshot.crowded.get(name, ())) - set(self._crowded.get(name, ())) for name in names)

    def _has_grown(self, snapshot: Snapshot) -> bool:
        """Whether some node has more slots than it had, or is new."""
        known = self._nodes
        nodes = [(known.get(node.name), node.reduced()) for node in snapshot.nodes.values()]
        return any(was is None or node.slots > was.reduced().slots for was, node in nodes)


def _has_less(node: Node, was: Node, shape: WorkerShape) -> bool:
    """Whether the node has less than it had of something that such a worker needs."""
    return (
        node.reduced().slots < was.reduced().slots
        or (shape.cpus > 0 and node.cpus < was.cpus)
        or (shape.memory_mib > 0 and node.memory_mib < was.memory_mib)
    )


def _goes_before(order: Order, settings: PolicySettings) -> Callable[[Job, Job], bool]:
    """Who may take what is held for another; with published policies also a job that came back to its place."""
    if settings.name == "elastic":
        return order.more_important
    key = RULES[settings.name].key

    def place(job: Job) -> tuple[float, float, Rank]:
        return (-job.priority, key(job, order.now, settings) if key is not None else 0.0, order.rank(job))

    return lambda other, job: place(other) < place(job)


def _waiting(snapshot: Snapshot) -> list[Job]:
    """Waiting jobs for which nothing is held."""
    return [job for job in snapshot.queued.values() if not job.reservation]


def _deciding_now(snapshot: Snapshot, now: float) -> list[Job]:
    """Waiting jobs for which nothing is held, and those that started just now, wherever that is."""
    return [*_waiting(snapshot), *(job for job in snapshot.active.values() if job.started_at == now)]


def _excused(before: Job, job: Job, snapshot: Snapshot, order: Order, settings: PolicySettings) -> bool:
    """Whether the job changed, or someone who goes before it, or a booking, came."""
    if (
        job.min_workers != before.min_workers
        or job.attempt != before.attempt
        or job.queued_at != before.queued_at  # it left the queue and came back, with nothing held for it
        or job.not_before > order.now
        or snapshot.bookings
    ):
        return True
    names = {name for name, _ in (*before.reservation, *before.fixed_reservation)}
    goes_before = _goes_before(order, settings)
    if any(other.reservation and goes_before(other, job) for other in snapshot.queued.values()):
        return True
    return any(
        _went_before(other, job, order, settings) and any(worker.node in names for worker in other.all_workers)
        for other in snapshot.active.values()
    )


def _went_before(other: Job, job: Job, order: Order, settings: PolicySettings) -> bool:
    """Whether the active one went before the waiting one when it started: who waits goes on to age."""
    started_at = order.now if other.started_at is None else min(other.started_at, order.now)
    return _goes_before(Order(started_at, settings), settings)(other, job)
