"""Slots that a plan keeps free, and their keepers: bookings, foreign processes, and the first blocked job."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.plan import Plan
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.pools import Group
from scheduler.policy.draft import Draft
from scheduler.policy.resize.grow import GrowthRound
from scheduler.policy.snapshot.placeholder import Placeholder
from scheduler.policy.start.backfill import HeadReservation


@dataclass(frozen=True, slots=True)
class Keeper:
    """The job or booking for which slots are kept; neither stands for foreign processes of the cluster."""

    for_job: JobId | None = None
    booking: str | None = None


class Look:
    """One look of the planner at a world."""

    def __init__(
        self,
        made: Plan,
        draft: Draft | None,
        head_reservation: HeadReservation | None,
        growth_round: GrowthRound | None,
    ) -> None:
        """Takes the fields of what `planner.planned` gives. Without a draft, only the plan is known."""
        self.plan = made
        self._draft = draft
        self._head_reservation = head_reservation
        self._growth_round = growth_round
        self._kept: dict[WorkerShape | None, list[tuple[Keeper, int]]] = {}

    def kept(self, shape: WorkerShape | None = None) -> list[tuple[Keeper, int]]:
        """Free slots kept for bookings and foreign processes, on nodes that suit the shape; the largest first."""
        draft = self._draft
        if draft is None:
            return []
        if shape not in self._kept:
            slots = Counter[Keeper]()
            for keeper, i, count in self._kept_apart(draft):
                if shape is None or i in draft.places.feasible(shape).types:
                    slots[keeper] += count
            self._kept[shape] = slots.most_common()
        return self._kept[shape]

    def kept_back(self) -> tuple[Keeper, int] | None:
        """The blocked job, and the number of free slots withheld from jobs that could delay it; None without any."""
        draft, head_reservation = self._draft, self._head_reservation
        if draft is None or head_reservation is None:
            return None
        slots = 0
        for i in range(draft.ledger.own):
            bound, left = head_reservation.headroom.bound(i), draft.ledger.available(i, View.OPEN)[0]
            if bound is not None and left > 0:
                slots += max(left - max(bound[0], 0), 0)
        return (self._keeper(head_reservation.job), slots) if slots else None

    def admitted_by_queues(self, job: Job, group: Group) -> bool:
        """Whether the queues of the running job let it have one more worker, as far as that is known."""
        return self._draft is None or self._draft.admits(job, group)

    def keeper_from(self, job: Job, group: Group) -> Keeper | None:
        """The keeper of the room for one more worker of the running job; None: it is not kept, or that is not known."""
        draft, head_reservation, growth_round = self._draft, self._head_reservation, self._growth_round
        if draft is None or growth_round is None:
            return None
        feasible = draft.places.feasible(job.shape)
        if not feasible.fits(View.OPEN).total(group):
            own = draft.world.booking_of(job)
            keepers = (keeper for keeper, _ in self.kept(job.shape))
            return next((keeper for keeper in keepers if own is None or keeper.booking != own.name), None)
        headroom = growth_round.headroom(job)
        if head_reservation is None or headroom is None or feasible.fits(View.OPEN, headroom).total(group):
            return None
        return self._keeper(head_reservation.job)

    def _kept_apart(self, draft: Draft) -> Iterator[tuple[Keeper, int, int]]:
        """(keeper, position, free slots) of each placeholder job."""
        left = {i: max(draft.ledger.available(i, View.FREE)[0], 0) for i in range(draft.ledger.own)}
        for job_id, chosen in draft.starts.items():
            job = draft.world.queued[job_id]
            if isinstance(job, Placeholder):
                for i, count in chosen[0].items():
                    yield self._keeper(job), i, count * job.shape.slots
        for job_id, placements in draft.holding.items():
            job = draft.world.queued[job_id]
            if isinstance(job, Placeholder):
                for name, count in placements[0]:
                    i = draft.ledger.position.get(name, -1)
                    taken = min(count * job.shape.slots, left.get(i, 0))
                    if taken:
                        left[i] -= taken
                        yield self._keeper(job), i, taken

    def _keeper(self, job: Job) -> Keeper:
        """The job itself, or what the placeholder stands for."""
        return Keeper(booking=job.booking) if isinstance(job, Placeholder) else Keeper(for_job=job.id)
