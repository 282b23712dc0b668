"""What a plan keeps free, and for whom: booked room, room for others of the cluster, room of the first blocked job."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.plan import Plan
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import Group
from scheduler.policy.draft import Draft
from scheduler.policy.overlay.booking_guard import plan_around
from scheduler.policy.overlay.foreign_demands import FIRST_ID, plan_beside_others
from scheduler.policy.planner import Decided, decide, plan
from scheduler.policy.snapshot.snapshot import Snapshot
from scheduler.policy.start.redraft import BackfillGains, decided


@dataclass(frozen=True, slots=True)
class Keeper:
    """For whom something is kept; for others of the cluster where it is neither a job nor a booking."""

    for_job: JobId | None = None
    booking: str | None = None


class Look:
    """One look of the planner at a world."""

    def __init__(self, made: Plan, draft: Draft | None, decision: Decided | None) -> None:
        """Without a draft, only the plan is known."""
        self.plan = made
        self._draft = draft
        self._decision = decision
        self._kept: dict[WorkerShape | None, list[tuple[Keeper, int]]] = {}

    def kept(self, shape: WorkerShape | None = None) -> list[tuple[Keeper, int]]:
        """Free slots that nobody else gets, for bookings and for others of the cluster; on nodes that suit the shape.

        Those come first for whom most is kept.
        """
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
        """The blocked job, and how many free slots are not for those who could delay it; None if there are none."""
        draft, decision = self._draft, self._decision
        if draft is None or decision is None or decision.head_reservation is None:
            return None
        slots = 0
        for i in range(draft.ledger.own):
            bound, left = decision.head_reservation.headroom.bound(i), draft.ledger.available(i, View.OPEN)[0]
            if bound is not None and left > 0:
                slots += max(left - max(bound[0], 0), 0)
        return (self._keeper(decision.head_reservation.job), slots) if slots else None

    def keeper_from(self, job: Job, group: Group) -> Keeper | None:
        """For whom the room for one more worker of the running job is kept; None: it is not, or that is not known."""
        draft, decision = self._draft, self._decision
        if draft is None or decision is None:
            return None
        feasible = draft.places.feasible(job.shape)
        if not feasible.fits(View.OPEN).total(group):
            own = draft.world.booking_of(job)
            keepers = (keeper for keeper, _ in self.kept(job.shape))
            return next((keeper for keeper in keepers if own is None or keeper.booking != own.name), None)
        headroom = decision.growth_round.headroom(job)
        if decision.head_reservation is None or headroom is None or feasible.fits(View.OPEN, headroom).total(group):
            return None
        return self._keeper(decision.head_reservation.job)

    def _kept_apart(self, draft: Draft) -> Iterator[tuple[Keeper, int, int]]:
        """(for whom, position, free slots) of what stands in for a job that does not exist."""
        left = {i: max(draft.ledger.available(i, View.FREE)[0], 0) for i in range(draft.ledger.own)}
        for job_id, node_counts in draft.starts.items():
            if job_id < 0:
                job = draft.world.queued[job_id]
                for i, count in node_counts.items():
                    yield self._keeper(job), i, count * job.shape.slots
        for job_id, placement in draft.holding.items():
            if job_id < 0:
                job = draft.world.queued[job_id]
                for name, count in placement:
                    i = draft.ledger.position.get(name, -1)
                    taken = min(count * job.shape.slots, left.get(i, 0))
                    if taken:
                        left[i] -= taken
                        yield self._keeper(job), i, taken

    def _keeper(self, job: Job) -> Keeper:
        """Jobs that stand in for something else have no ids of jobs."""
        if job.id >= 0:
            return Keeper(for_job=job.id)
        return Keeper() if job.id <= FIRST_ID else Keeper(booking=job.spec.name)


def look(world: World, now: float, settings: PolicySettings) -> Look:
    """Make the plan for a world, and see what it keeps."""
    if settings.name != "elastic":
        return Look(plan(world, now, settings), None, None)
    seen: list[tuple[Draft, Decided]] = []

    def make(seen_world: World) -> Plan:
        decisions: list[Decided] = []

        def note(draft: Draft, backfill_gains: BackfillGains) -> int | None:
            decisions.append(decide(draft, backfill_gains))
            return decisions[-1].kept_back

        draft = decided(Snapshot(seen_world, now, settings), note)
        seen.append((draft, decisions[-1]))
        return draft.plan()

    made = plan_beside_others(world, now, lambda beside: plan_around(beside, now, settings, make))
    return Look(made, *seen[-1])
