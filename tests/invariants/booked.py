"""I11 over time: in its window, what is booked is not held by others once their grace is over."""

from scheduler.config import PolicySettings
from scheduler.model.booking import Booking
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.world import World as Snapshot
from tests.invariants.broken import hold
from tests.invariants.free import free_slots

#: Ticks, stops and kills take their time.
SLACK_SECONDS = 30.0


class BookingsKept:
    """Remembers since when a booking lacks slots that others could have given up."""

    def __init__(self) -> None:
        self._lacking_since: dict[str, float] = {}

    def clear(self) -> None:
        """What was before counts no more."""
        self._lacking_since.clear()

    def after_tick(self, snapshot: Snapshot, settings: PolicySettings, at: float, now: float) -> None:
        """Raise `Broken` with the booking that others use for too long; `at` is the engine's time, `now` true time."""
        if settings.name != "elastic":
            self.clear()  # published policies know no bookings
            return
        for booking in snapshot.bookings.values():
            taken = _held_in_its_way(snapshot, booking, settings, at) if booking.start_at <= at else 0
            if taken <= 0:
                self._lacking_since.pop(booking.name, None)
                continue
            since = self._lacking_since.setdefault(booking.name, now)
            graces = [job.spec.grace_seconds for job in snapshot.active.values()]
            limit = max(graces, default=0.0) + SLACK_SECONDS
            hold(now - since <= limit, "I11", f"booking {booking.name} lacks {taken} slots for {now - since:g} s")


def _held_in_its_way(snapshot: Snapshot, booking: Booking, settings: PolicySettings, now: float) -> int:
    """Slots that preemptible others hold and its jobs want, or that are to be free; only where one booking is open.

    Counted for shapes of one slot, where any slot is as good as another.
    """
    alone = not any(other is not booking and other.overlaps(booking) for other in snapshot.bookings.values())
    suiting = {node.name for node in snapshot.nodes.values() if node.schedulable and node.suits(booking.shape)}
    kinds = {snapshot.nodes[name].gpu_type for name in suiting}
    mine = [job for job in snapshot.all_jobs() if booking.admits(job)]
    plain = all(job.shape.slots == 1 and job.shape.node_selector == booking.shape.node_selector for job in mine)
    if not alone or booking.shape.slots > 1 or len(kinds) != 1 or not plain or any(map(_demanding, mine)):
        return 0
    in_use = sum(len(worker.slot_ids) for job in mine for worker in job.workers)
    wanted = booking.slots - in_use
    free = sum(free_slots(snapshot, snapshot.nodes[name]) for name in suiting)
    takeable = sum(
        len(worker.slot_ids) - len(snapshot.nodes[worker.node].closed_among(worker.slot_ids))
        for job in snapshot.active.values()
        if job.spec.preemptible and not job.finishing and not booking.admits(job)
        for worker in job.workers
        if worker.node in suiting and not worker.shared
    )
    if now >= booking.start_at + settings.booking_idle_seconds:
        wanted = _waited_for(mine, min(wanted, free + takeable), now)
    return min(wanted - free, takeable)


def _demanding(job: Job) -> bool:
    return bool(job.shape.cpus or job.shape.memory_mib or job.shape.oversell)


def _waited_for(mine: list[Job], left: int, now: float) -> int:
    """Slots of waiting jobs that the booking still has room for, and that could be there at all."""
    wanted = 0
    for job in mine:
        waits = job.state is JobState.QUEUED and job.not_before <= now
        if waits and wanted + job.min_workers <= left:
            wanted += job.min_workers
    return wanted
