"""Preemption: the least that must be taken from other jobs so that a more important one fits.

Takings are tried from the mildest to the harshest, until the job fits: reservations of less important jobs, workers of
elastic jobs above their minimum, whole jobs; each least important first, then in order of least lost work (see
`VictimTable.in_turn`). Then every taking that turns out not to be needed is given back, harshest and latest first.
Nothing is touched unless the job then fits.
"""

import heapq
from collections.abc import Callable, Iterator
from functools import partial

from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import StopReason
from scheduler.model.worker import LeaveReason
from scheduler.policy.capacity.request import Request
from scheduler.policy.capacity.resources import NOTHING, Amount, Headroom, add
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.trial import Trial
from scheduler.policy.preempt.victim_batch import ByNode, VictimBatch, growing
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.snapshot.victim_table import VictimOrder

#: A way to take from victims until the job fits.
Way = Callable[[Trial], None]


def find_takings(
    draft: Draft, job: Job, request: Request, victims: Victims, headroom: Headroom | None
) -> list[Taking] | None:
    """The fewest takings of the mildest way that lets the job fit soon; None if no way does."""
    held = [Taking(holder, (), False, tuple(draft.held_for(holder))) for holder in draft.dominated_by(job)]
    for way in _ways(job, request, victims, headroom):
        trial = Trial(request, headroom)
        for taking in held:
            if not trial.enough:
                trial.take([taking])
        way(trial)
        if trial.enough:
            return _give_back(trial)
    return None


def _ways(job: Job, request: Request, victims: Victims, headroom: Headroom | None) -> Iterator[Way]:
    """From less important jobs workers above minimums, then all; from equals, too, workers above minimums."""
    feasible, count = request.workers
    if victims.reach(job, feasible, headroom) >= count:
        shrinkable = victims.of(job, shrinkable=True)
        yield partial(_take_in_turn, victim_order=shrinkable)
        yield partial(_take_by_node, victim_order=shrinkable)
        yield partial(_take_whole, victim_order=victims.of(job), shrinkable=shrinkable)
    if victims.reach_with_equals(job, feasible, headroom) >= count:
        donors = victims.with_equals(job)
        yield partial(_take_in_turn, victim_order=donors)
        yield partial(_take_by_node, victim_order=donors)


def _take_in_turn(trial: Trial, victim_order: VictimOrder) -> None:
    """Take job by job, the youngest useful workers first."""
    for batch in growing(victim_order, trial.request):
        takings = batch.spared_until_enough(trial)
        if takings is not None:
            trial.take(takings)
            return


def _take_by_node(trial: Trial, victim_order: VictimOrder) -> None:
    """Take node by node, where fewest must leave: a worker with several slots needs them together."""
    by_node = ByNode(VictimBatch(victim_order, trial.request), trial)
    heap, gone = by_node.expected, set[WorkerId]()
    heapq.heapify(heap)
    while heap and not trial.enough:
        expected, i = heapq.heappop(heap)
        candidates = [taking for taking in by_node.on(i) if taking.workers[0].id not in gone]
        needed = _needed_on(trial, i, candidates, by_node.left)
        if needed and len(needed) <= expected:
            for taking in needed:
                by_node.left[taking.victim.id] -= 1
            trial.take(needed)
            gone.update(taking.workers[0].id for taking in needed)
            candidates = [taking for taking in candidates if taking.workers[0].id not in gone]
            needed = _needed_on(trial, i, candidates, by_node.left)
        if needed:
            heapq.heappush(heap, (len(needed), i))


def _needed_on(trial: Trial, i: int, candidates: list[Taking], left: dict[int, int]) -> list[Taking]:
    """Takings on node `i` until more of the job fits there; none if that is impossible."""
    before = trial.fit(i)
    used: dict[JobId, int] = {}
    together: Amount = NOTHING
    takings: list[Taking] = []
    for taking in candidates:
        victim = taking.victim
        if used.get(victim.id, 0) < left[victim.id]:
            used[victim.id] = used.get(victim.id, 0) + 1
            together = add(together, dict(taking.freed)[i])
            takings.append(taking)
            if trial.fit_with(i, together) > before:
                return takings
    return []


def _take_whole(trial: Trial, victim_order: VictimOrder, shrinkable: VictimOrder) -> None:
    """Take all that shrinking gives, and then whole jobs; each part in order of its own costs."""
    takings = VictimBatch(victim_order, trial.request).all_until_enough(trial) or []
    ids = shrinkable.victim_table.table["job"][shrinkable.records].tolist()
    place = {job_id: k for k, job_id in enumerate(ids)}
    whole = len(place)
    trial.take(sorted(takings, key=lambda taking: whole if taking.whole else place[taking.victim.id]))


def _give_back(trial: Trial) -> list[Taking]:
    """The takings that are really needed, in the order in which they were taken."""
    useful = trial.useful()
    helping: list[Taking] = []
    needless: list[Taking] = []
    for taking in trial.takings:
        (helping if any(i in useful for i, _ in taking.freed) else needless).append(taking)
    trial.put(needless, -1)
    if not trial.enough:
        trial.put(needless, 1)
        helping = trial.takings
    kept: list[Taking] = []
    stopped: set[JobId] = set()
    for taking in reversed(helping):
        if taking.victim.id not in stopped:
            trial.put([taking], -1)
            if trial.enough:
                continue
            trial.put([taking], 1)
            if taking.whole:
                stopped.add(taking.victim.id)
        kept.append(taking)
    return kept[::-1]


def apply(draft: Draft, job: Job, takings: list[Taking], victims: Victims) -> None:
    """Write the takings into the draft."""
    losing: dict[JobId, list[Taking]] = {}
    for taking in takings:
        if taking.workers:
            losing.setdefault(taking.victim.id, []).append(taking)
        else:
            draft.unhold(taking.victim)
            draft.openings += 1
    for mine in losing.values():
        victim = mine[0].victim
        if any(taking.whole for taking in mine):
            draft.stop(victim, StopReason.PREEMPTED, job.id)
        else:
            leaving = tuple(worker for taking in mine for worker in taking.workers)
            equals = victim.priority == job.priority
            draft.shrink(victim, leaving, LeaveReason.REBALANCED if equals else LeaveReason.PREEMPTED, job.id)
    victims.refresh(losing)
