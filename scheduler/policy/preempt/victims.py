"""Victims of preemption: which jobs, in which order, and how much that could free at most."""

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scheduler import bounds
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import FeasibleNodes
from scheduler.policy.capacity.request import Request
from scheduler.policy.capacity.resources import Headroom, Rows, fit_in_rows, pour_rows
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.equal_donors import EqualDonors
from scheduler.policy.preempt.fit_bounds import FitBounds
from scheduler.policy.preempt.lanes import LaneTable
from scheduler.policy.queues.tree import TOP
from scheduler.policy.snapshot.peers import Peers
from scheduler.policy.snapshot.taking import AMOUNT, WHERE
from scheduler.policy.snapshot.victim_table import Bools, Ints, VictimOrder, surplus

#: Number of bounds that are kept: the queue is served by priority.
BOUNDS_MAX = 32


class Victims:
    """All preemptible jobs of a draft: on shared slots first, then least important, least cost, newest."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._victim_table = draft.victim_table
        #: By queue, as the own account of lanes, and priority.
        self._donors: dict[tuple[str, int], EqualDonors] = {}
        #: By the function that made them and its arguments.
        self._bounds: dict[tuple[object, ...], FitBounds] = {}
        #: By the nodes of a request, which records hold something there; and the openings of the draft at that time.
        self._useful: dict[tuple[FeasibleNodes, ...], Bools] = {}
        self._useful_at = draft.openings
        #: The moment for which `holding_beyond` was asked last, and what it found.
        self._holding: tuple[float, Bools] | None = None
        #: How many jobs had grown, and which records had not.
        self._not_grown: tuple[int, Bools] | None = None

    def of(self, job: Job, *, shrinkable: bool = False) -> VictimOrder:
        """Victims of this job now for its importance; `shrinkable`: only above their minimum.

        Jobs on shared slots make room for equals, too, if these need CPUs or memory beside their own slots. The cost of
        a victim is that of a shrink if `shrinkable`, else that of a stop.
        """
        table, everybody = self._victim_table.table, self._victim_table.in_turn(self._draft.now, shrink=shrinkable)
        records = self._less_important(job, everybody)
        if self._draft.ledger.oversold:
            shares = table["shared"]
            equals = self._of_queue(job, everybody[(table["priority"] == job.priority)[everybody]])
            sharers = np.concatenate((records, equals))
            records = np.concatenate((sharers[shares[sharers]], records[~shares[records]]))
        gives = surplus(table) > 0 if shrinkable else table["workers"] + table["fixed"] > 0
        return self._victim_order(job, records[(gives & self._open)[records]], whole=not shrinkable)

    def with_equals(self, job: Job, *, shrinkable: bool) -> VictimOrder:
        """Less important victims as of `of`, then equals above their minimum, the smallest gain of the last one first.

        A job that cannot grow gets the places of workers that are few on their node, an elastic one those of many.
        """
        lower = self.of(job, shrinkable=shrinkable)
        equals = self._donors_of(job).records
        equals = equals[self._open[equals]]
        records = np.concatenate((lower.records[~lower.equal], equals))
        victim_order = self._victim_order(job, records, whole=not shrinkable, most_first=job.elastic)
        return replace(victim_order, whole=victim_order.whole & ~victim_order.equal)

    def _victim_order(self, job: Job, records: Ints, *, whole: bool, most_first: bool | None = None) -> VictimOrder:
        table = self._victim_table.table
        equal = table["priority"][records] == job.priority
        spare = surplus(table)[records]
        may_stop = table["stops"][records] & whole
        return VictimOrder(self._victim_table, records, equal, spare, may_stop, most_first, self._draft.ledger.own)

    def useful(self, request: Request) -> Bools:
        """By record: whether the job did not grow in this draft, and holds something on nodes of the request."""
        if self._useful_at != self._draft.openings:
            self._useful.clear()
            self._useful_at = self._draft.openings
        nodes = tuple(part.feasible for part in request.parts)
        if nodes not in self._useful:
            owner, pieces = self._victim_table.pieces_of(self._victim_table.table)
            useful = self._useful[nodes] = np.zeros(len(self._victim_table.table), np.bool_)
            useful[owner[request.mask[pieces[:, WHERE]]]] = True
        return self._useful[nodes] & self._open

    def holding_beyond(self, when: float) -> Bools:
        """By record: whether no time limit ends the job by then; all, where that is never."""
        if self._holding is None or self._holding[0] != when:
            ended = {job_id for end, job_id in self._draft.usages.endings if end <= when < math.inf}
            holding = np.ones(len(self._victim_table.table), np.bool_)
            holding[[self._victim_table.at(job_id) for job_id in ended if job_id in self._victim_table]] = False
            self._holding = when, holding
        return self._holding[1]

    def _less_important(self, job: Job, everybody: Ints) -> Ints:
        """Records of jobs that are less important than this one, in order."""
        order = self._draft.order
        records = everybody[: np.count_nonzero(self._victim_table.table["priority"] < job.priority)]
        records = self._of_queue(job, records)
        return records[self._effective[records] < order.effective(job)] if order.ages else records

    def _of_queue(self, job: Job, records: Ints) -> Ints:
        """Those of these records whose jobs are in the same queue; all, where this one is above all queues."""
        lane, by_lane = self._draft.lane(job), self.by_lane
        return records if lane is TOP or by_lane is None else records[by_lane.in_queue(lane.own)[records]]

    @cached_property
    def by_lane(self) -> LaneTable | None:
        """Lanes of the jobs; None: there are no queues."""
        shares = self._draft.shares
        return LaneTable(self._victim_table, self._draft.usages, shares) if shares is not None else None

    @property
    def _open(self) -> Bools:
        """By record: whether the job did not grow in this draft."""
        grown = self._draft.grows.keys() | self._draft.growing
        if self._not_grown is None or self._not_grown[0] != len(grown):
            not_grown = np.ones(len(self._victim_table.table), np.bool_)
            not_grown[[self._victim_table.at(job_id) for job_id in grown if job_id in self._victim_table]] = False
            self._not_grown = len(grown), not_grown
        return self._not_grown[1]

    @cached_property
    def _effective(self) -> npt.NDArray[np.float64]:
        """By record: the effective priority."""
        draft = self._draft
        job_ids = self._victim_table.table["job"].tolist()
        return np.array([draft.order.effective(draft.world.active[JobId(job_id)]) for job_id in job_ids], np.float64)

    def refresh(self, changed: Collection[JobId]) -> None:
        """Count what the draft took from these jobs."""
        for donors in self._donors.values():
            donors.refresh(changed)

    def reach(self, job: Job, feasible: FeasibleNodes, headroom: Headroom | None) -> int:
        """An upper bound on the workers that would fit if all less important jobs were taken."""
        return self._bounds_of(with_all, self._up_to(job), headroom, None).most(feasible)

    def reach_in_queue(self, job: Job, feasible: FeasibleNodes, headroom: Headroom | None, *, with_equals: bool) -> int:
        """An upper bound on the workers that would fit if less important jobs of its queue gave up all workers.

        `with_equals`: and equals those above their minimum. Reservations do not count.
        """
        draft, table = self._draft, self._victim_table.table
        if self.by_lane is None or draft.order.ages or draft.ledger.oversold:
            return feasible.most_ready
        of_queue = table[self.by_lane.records_in(draft.lane(job).own)]
        pieces = self._victim_table.pieces_of(of_queue[of_queue["priority"] < job.priority])[1]
        if with_equals:
            pieces = np.concatenate((pieces, self._victim_table.gifts_of(table[self._donors_of(job).records])))
        pieces = pieces[feasible.mask[pieces[:, WHERE]]]
        positions, which = np.unique(pieces[:, WHERE], return_inverse=True)
        before = draft.ledger.rows_at(positions, View.SOON)
        after = before.copy()
        pour_rows(after, which, pieces[:, AMOUNT])
        if headroom is not None:
            before, after = (headroom.within(rows, positions) for rows in (before, after))
        more = fit_in_rows(feasible.need, after) - fit_in_rows(feasible.need, before)
        return feasible.fits(View.SOON, headroom).most() + int(more.sum())

    def reach_with_equals(self, job: Job, feasible: FeasibleNodes, headroom: Headroom | None) -> int:
        """The bound of `reach` if equals also gave workers above their minimum; 0 if they have none."""
        donors = self._donors_of(job)
        return self._bounds_of(with_all, self._up_to(job), headroom, donors).most(feasible) if donors else 0

    def reach_of_any(self, job: Job, feasible: FeasibleNodes, headroom: Headroom | None) -> int:
        """The higher of both bounds, for any job of this priority and shape."""
        return max(self.reach(job, feasible, headroom), self.reach_with_equals(job, feasible, headroom))

    def reach_of_reservations(self, job: Job, feasible: FeasibleNodes, headroom: Headroom | None) -> int:
        """An upper bound on the workers that would fit if less important jobs gave up their reservations."""
        return self._bounds_of(with_reservations, self._up_to(job), headroom).most(feasible)

    def _up_to(self, job: Job) -> int:
        """A priority below which are all jobs from which this one may take: any, where queues take from queues."""
        return int(bounds.PRIORITY.high) + 1 if self._draft.lane(job) is not TOP else job.priority

    def _bounds_of(self, make: Callable[..., FitBounds], *of: object) -> FitBounds:
        """Bounds that are kept once they are made; the oldest are dropped if there are too many."""
        found = self._bounds.get((make, *of))
        if found is None:
            if len(self._bounds) >= BOUNDS_MAX:
                del self._bounds[next(iter(self._bounds))]
            found = self._bounds[make, *of] = make(self._draft, *of)
        return found

    def _donors_of(self, job: Job) -> EqualDonors:
        key = (self._draft.lane(job).own, job.priority)
        donors = self._donors.get(key)
        if donors is None:
            equals = self._peers.get(key, ())
            donors = self._donors[key] = EqualDonors(self._draft.snapshot, equals, self._draft.grows)
        return donors

    @cached_property
    def _peers(self) -> dict[tuple[str, int], list[Peers]]:
        """Running jobs that are alike, by queue and priority."""
        found: dict[tuple[str, int], list[Peers]] = {}
        for peers in self._draft.snapshot.peers:
            found.setdefault((peers.lane.own, peers.priority), []).append(peers)
        return found


def with_reservations(draft: Draft, priority: int, headroom: Headroom | None) -> FitBounds:
    """Bounds on open room if less important jobs give up their reservations."""

    def at(positions: Ints | slice) -> Rows:
        soon = draft.ledger.rows_at(positions, View.SOON)
        soon += draft.held_below(priority)[positions]
        room = np.minimum(soon, draft.ledger.rows_at(positions, View.FREE))
        return room if headroom is None else headroom.within(room, positions)

    return FitBounds(at, draft.ledger.log)


def with_all(draft: Draft, priority: int, headroom: Headroom | None, donors: EqualDonors | None) -> FitBounds:
    """Bounds on the room that is free soon if a job of this priority takes all that it may take.

    Equals on shared slots leave for jobs with own slots; `donors` give workers above their minimum.
    """

    def at(positions: Ints | slice) -> Rows:
        room = draft.ledger.rows_at(positions, View.SOON)
        room += draft.victim_table.below(priority)[positions]
        room += draft.held_below(priority)[positions]
        if draft.ledger.oversold:
            victim_table, besides = draft.victim_table, np.zeros((len(draft.ledger.nodes), 3), np.int64)
            table = victim_table.table
            victim_table.pour(besides, table[table["shared"] & (table["priority"] == priority)])
            besides[draft.ledger.own :] = 0
            room += besides[positions]
        if donors is not None:
            room += donors.most()[positions]
        return room if headroom is None else headroom.within(room, positions)

    return FitBounds(at, draft.ledger.log, *([donors.log] if donors is not None else []))
