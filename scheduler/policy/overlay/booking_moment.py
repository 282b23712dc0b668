"""One moment at which a booking starts: what is booked then, and the room that the jobs which stay until then leave."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from scheduler.config import PolicySettings
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node_usage import NO_USAGE
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import left_of, left_of_empty
from scheduler.policy.capacity.resources import Amount, add, amount_of
from scheduler.policy.overlay.booking_feasible import allot, slots_kept
from scheduler.policy.overlay.booking_view import hold_from
from scheduler.policy.snapshot.order import end_of


class Moment:
    """The start of a booking, or now where that has passed."""

    def __init__(self, at: float, world: World, now: float, settings: PolicySettings) -> None:
        self._at = at
        self._world = world
        self._now = now
        self._settings = settings
        self._bookings = [each for each in world.bookings.values() if each.start_at <= at < each.end_at]

    def admits(self, job: Job) -> bool:
        """Whether the job belongs to one of the bookings of that moment."""
        return any(booking.admits(job) for booking in self._bookings)

    def stays(self, job: Job, *, gets_at: float | None) -> bool:
        """Whether the job would still be where it is then, and could not be made to leave.

        `gets_at`: when it gets more, in unix seconds; None: never.
        """
        end = end_of(job, job.started_at if job.state.active else gets_at)
        if end is not None and end <= self._at:
            return False
        if not (job.elastic and job.spec.preemptible):
            return True
        lead = job.spec.stop_seconds + self._settings.booking_lead_seconds + self._settings.near_end_seconds
        return gets_at is not None and self._now < self._at < gets_at + lead

    def slots_kept(self, room: Mapping[NodeName, Amount]) -> int:
        """Number of booked slots that this room holds."""
        return slots_kept(self._bookings, self._world.nodes, room)

    def needed_of(self, room: Mapping[NodeName, Amount]) -> frozenset[NodeName]:
        """Nodes on which the bookings find what they need in this room."""
        return frozenset(allot(self._bookings, self._world.nodes, dict(room), self._idle))

    @cached_property
    def usable(self) -> frozenset[NodeName]:
        """Nodes that would hold a worker of one of the bookings."""
        shapes = {booking.shape for booking in self._bookings}
        nodes = self._world.nodes.values()
        return frozenset(node.name for node in nodes if any(node.fits_empty(shape) for shape in shapes))

    @cached_property
    def needed(self) -> frozenset[NodeName]:
        """Nodes on which the bookings find what they need beside the jobs that stay."""
        return self.needed_of(self.room)

    @cached_property
    def room(self) -> Mapping[NodeName, Amount]:
        """Capacity that staying jobs do not hold then."""
        near = any(self._now >= hold_from(each, self._world, self._settings) for each in self._bookings)
        # until a later one nodes may come back
        nodes = (node for node in self._world.nodes.values() if node.schedulable or not near)
        room = {node.name: left_of_empty(node, self._world) for node in nodes}
        self._add(room, ((job, worker) for job in self._world.active.values() for worker in kept_workers(job)), -1)
        return room

    @cached_property
    def booked(self) -> Mapping[NodeName, Amount]:
        """What bookings take of that room, by node, as far as it goes."""
        left = dict(self.room)
        names = allot(self._bookings, self._world.nodes, left, self._idle)
        return {name: add(self.room[name], left[name], -1) for name in names}

    def room_without(self, leaving: Iterable[tuple[Job, Worker]]) -> dict[NodeName, Amount]:
        """The room after these workers leave, which would otherwise stay."""
        room = dict(self.room)
        self._add(room, leaving, 1)
        return room

    def _add(self, room: dict[NodeName, Amount], holders: Iterable[tuple[Job, Worker]], sign: int) -> None:
        """Add what workers of staying jobs hold, or with sign -1 subtract it."""
        for job, worker in holders:
            if worker.node in room and not worker.shared and self.stays(job, gets_at=None) and not self.admits(job):
                held = amount_of(worker, self._world.nodes[worker.node])
                room[worker.node] = add(room[worker.node], held, sign)

    @cached_property
    def _idle(self) -> dict[NodeName, int]:
        """Slots of each node that are neither held nor closed."""
        used = self._world.usage
        return {
            name: left_of(node, used.get(name, NO_USAGE), NO_FOREIGN)[0] for name, node in self._world.nodes.items()
        }


def kept_workers(job: Job) -> tuple[Worker, ...]:
    """The workers that an active job keeps."""
    return () if job.state is JobState.STOPPING else (*job.fixed_workers, *job.wanted_workers)
