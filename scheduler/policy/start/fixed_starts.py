"""Jobs with a fixed group in the waiting queue: all of the job starts at once, or none of it.

They are looked at one by one. Each of the steps that other jobs take (see `starts`) is taken for the fixed group and
the minimum of the other workers together.
"""

import numpy as np

from scheduler.model.fixed import FixedGroup
from scheduler.model.job import Job, Placement
from scheduler.model.job_state import WaitReason
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.fixed_fit import GroupRequest, fits_empty, group_of_fixed, request_of
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import NodeCounts
from scheduler.policy.capacity.resources import Rows
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.fixed_search import fixed_takings
from scheduler.policy.preempt.reservations import dominated
from scheduler.policy.preempt.search import apply
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.start.group_attempt import Got, GroupLimit

#: Shape and number of fixed workers, and of the others.
RequestKey = tuple[WorkerShape, int, WorkerShape, int]


class FixedStarts:
    """Attempts of one pass at jobs with a fixed group."""

    def __init__(self, draft: Draft, victims: Victims) -> None:
        self._draft = draft
        self._victims = victims
        self._impossible: dict[RequestKey, WaitReason | None] = {}
        #: Attempts that failed: openings of the draft then, priority, and whether it was behind the blocked job.
        self._failed: dict[RequestKey, list[tuple[int, int, bool]]] = {}

    def impossible(self, job: Job) -> WaitReason | None:
        """Why no plan can start the job; None if one could."""
        kind = _kind(job)
        if kind not in self._impossible:
            self._impossible[kind] = self._find_impossible(job)
        return self._impossible[kind]

    def attempt(
        self, job: Job, own: tuple[Placement, Placement], limit: GroupLimit | None, *, may_take: bool
    ) -> Got | None:
        """Start the job or hold capacity for it; `own` was held until now. None: neither is possible."""
        kind, behind = _kind(job), limit is not None
        known = self._failed.setdefault(kind, [])
        openings = self._draft.openings
        if not own[0] and any(o == openings and p >= job.priority and b in (False, behind) for o, p, b in known):
            return None
        request = request_of(self._draft.places, job)
        got = self._start(job, request, own, limit) or self._hold(job, request, own, limit, may_take)
        if got is None:
            known.append((self._draft.openings, job.priority, behind))
        return got

    def _start(
        self, job: Job, request: GroupRequest, own: tuple[Placement, Placement], limit: GroupLimit | None
    ) -> Got | None:
        """Start the job on open slots, on reservations of less important jobs, or on its own."""
        draft = self._draft
        if request.find(self._room(View.OPEN, limit)) is not None or self._take_over(job, request, limit):
            fixed, node_counts = self._place(job, request, View.OPEN, limit)
        elif (mine := self._still(job, request, own, View.OPEN)) is not None:
            fixed, node_counts = mine
        else:
            return None
        draft.start_fixed(job, group_of_fixed(job), fixed)
        draft.start(job, node_counts)
        return Got(node_counts)

    def _hold(
        self,
        job: Job,
        request: GroupRequest,
        own: tuple[Placement, Placement],
        limit: GroupLimit | None,
        may_take: bool,
    ) -> Got | None:
        """Keep the job's reservation, reserve slots that are being freed, or take from less important jobs."""
        if (mine := self._still(job, request, own, View.SOON)) is not None:
            return self._got(job, *mine)
        if request.find(self._room(View.SOON, limit)) is not None:
            return self._got(job, *self._place(job, request, View.SOON, limit))
        if not may_take or self._out_of_reach(job, limit):
            return None
        takings = fixed_takings(self._draft, job, request, self._victims, limit.bounds if limit else None)
        if takings is None:
            return None
        if limit is not None:  # it may use what it takes
            bounds = limit.bounds.as_it_is()
            limit = GroupLimit(bounds, (bounds, *limit.accounts))
        apply(self._draft, job, takings, self._victims)
        return self._got(job, *self._place(job, request, View.SOON, limit), takes=True)

    def _got(self, job: Job, fixed: NodeCounts, node_counts: NodeCounts, *, takes: bool = False) -> Got:
        places = self._draft.places
        held = (places.named(node_counts), places.named(fixed))
        self._draft.hold(job, *held)
        return Got(node_counts, held, takes)

    def _place(
        self, job: Job, request: GroupRequest, view: View, limit: GroupLimit | None
    ) -> tuple[NodeCounts, NodeCounts]:
        """Nodes for the fixed group and the other workers, which are known to fit."""
        draft, group = self._draft, group_of_fixed(job)
        found = request.find(self._room(view, limit))
        assert found is not None, "it fits"
        for account in limit.accounts if limit is not None else ():
            for i, count in found.fixed.items():
                account.take(i, group.shape, count)
        self._try(view, group, found.fixed, 1)
        node_counts = (
            draft.places.feasible(job.shape).fits(view, limit.bounds if limit else None).place(job.min_workers)
        )
        self._try(view, group, found.fixed, -1)
        assert node_counts is not None, "they fit beside the fixed group"
        return found.fixed, node_counts

    def _try(self, view: View, group: FixedGroup, node_counts: NodeCounts, sign: int) -> None:
        """Place the fixed group for a moment, so that the others go beside it; with sign -1, remove it."""
        ledger, places = self._draft.ledger, self._draft.places
        if view is View.SOON:
            ledger.hold(places.named(node_counts), group.shape, sign)
        else:
            for i, count in node_counts.items():
                ledger.take(i, group.shape, sign * count)

    def _take_over(self, job: Job, request: GroupRequest, limit: GroupLimit | None) -> bool:
        """Give up the fewest reservations of less important jobs that let this one start; none if they cannot."""
        draft = self._draft
        if not draft.holding:
            return False
        soon = draft.ledger.rows_at(slice(None), View.SOON) + draft.held_below(job.priority)
        room = np.minimum(soon, draft.ledger.rows_at(slice(None), View.FREE))
        if request.find(room if limit is None else limit.bounds.within(room)) is None:
            return False
        given_up: list[tuple[Job, tuple[Placement, Placement]]] = []
        fits = False
        for holder in dominated(draft, job):
            given_up.append((holder, draft.unhold(holder)))
            fits = request.find(self._room(View.OPEN, limit)) is not None
            if fits:
                break
        for holder, held in reversed(given_up):
            draft.hold(holder, *held)
            if fits and request.find(self._room(View.OPEN, limit)) is None:
                draft.unhold(holder)
                draft.openings += 1
        return fits

    def _still(
        self, job: Job, request: GroupRequest, own: tuple[Placement, Placement], view: View
    ) -> tuple[NodeCounts, NodeCounts] | None:
        """The job's reservation, if it is still what the job needs and available in this view."""
        node_counts, fixed = (self._draft.places.node_counts(placement) for placement in own)
        if not node_counts or not fixed:
            return None
        if sum(node_counts.values()) != request.count or sum(fixed.values()) != request.replicas:
            return None
        together = any(set(node_counts) <= set(positions.tolist()) for positions in request.groups)
        if not together or not all(request.suits_fixed[i] for i in fixed):
            return None
        room = self._draft.ledger.rows_at(slice(None), view)
        for need, taken in ((request.need_fixed, fixed), (request.need, node_counts)):
            for i, count in taken.items():
                room[i] -= np.array(need) * count
        used = sorted({*node_counts, *fixed})
        needed = np.array([n > 0 for n in np.maximum(request.need_fixed, request.need).tolist()])
        return None if (room[used][:, needed] < 0).any() else (fixed, node_counts)

    def _out_of_reach(self, job: Job, limit: GroupLimit | None) -> bool:
        """Whether the other workers alone would not fit, whatever is taken."""
        feasible, bounds = self._draft.places.feasible(job.shape), limit.bounds if limit else None
        return self._victims.reach_of_any(job, feasible, bounds) < job.min_workers

    def _room(self, view: View, limit: GroupLimit | None) -> Rows:
        rows = self._draft.ledger.rows_at(slice(None), view)
        return rows if limit is None else limit.bounds.within(rows)

    def _find_impossible(self, job: Job) -> WaitReason | None:
        group, nodes = group_of_fixed(job), list(self._draft.world.nodes.values())
        for able, reason in (
            ([node.reduced() for node in nodes if node.schedulable], None),
            (nodes, WaitReason.NODES_UNAVAILABLE),
        ):
            if fits_empty(able, job.shape, job.min_workers, group):
                return reason
        matched = all(any(node.suits(shape) for node in nodes) for shape in (job.shape, group.shape))
        return WaitReason.EXCEEDS_CLUSTER if matched else WaitReason.NO_MATCHING_NODE


def _kind(job: Job) -> RequestKey:
    group = group_of_fixed(job)
    return (group.shape, group.replicas, job.shape, job.min_workers)
