"""Upper bounds and lines of victims equal what looking at each worker and node by itself gives."""

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, Runtime
from scheduler.model.worker import LeaveReason
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import FeasibleNodes
from scheduler.policy.capacity.request import Request
from scheduler.policy.capacity.resources import Amount, add, fit_in
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.trial import Trial
from scheduler.policy.preempt.victim_batch import VictimBatch
from scheduler.policy.preempt.victims import Victims, with_all, with_reservations
from scheduler.policy.snapshot.snapshot import Snapshot
from scheduler.policy.snapshot.taking import Taking
from tests.policy.worlds import Cluster

PRIORITIES = range(6)
#: Seconds that a shrink takes of each worker where no resize was measured.
PAUSES = {Runtime.COMMAND: 0.0, Runtime.ELASTIC: 0.5}


def draft_of(dice: random.Random) -> Draft:
    """Two GPU types, jobs of one and two slots per worker on nodes that are filled from the first on."""
    cluster = Cluster()
    free = {f"n{k}": 8 for k in range(6)}
    for k, name in enumerate(free):
        cluster.node(name, 8, gpu_type="ab"[k % 2], cpus=16.0)
    for number in range(1, 19):
        slots, on = dice.choice((1, 2)), Counter[str]()
        kind = dice.randrange(2)
        for _ in range(dice.randrange(1, 5)):
            name = next((n for n in list(free)[kind::2] if free[n] >= slots), None)
            if name is not None:
                on[name] += 1
                free[name] -= slots
        if on:
            size = on.total()
            bounds = (dice.randrange(1, size + 1), size)
            fields = {"priority": dice.choice(PRIORITIES), "slots_per_worker": slots, "cpus": dice.choice((0.0, 1.0))}
            fields |= {"runtime": dice.choice(tuple(PAUSES)), "resize_seconds": dice.choice((None, 1.5))}
            cluster.running(number, dict(on), workers=bounds, preemptible=dice.random() < 0.9, **fields)
    for number in range(20, 24):
        cluster.waiting(number, priority=dice.choice(PRIORITIES))
    snapshot = Snapshot(cluster.world(), cluster.now, cluster.settings)
    snapshot.begin()
    return Draft(snapshot)


def disturb(dice: random.Random, draft: Draft) -> None:
    """A job loses a worker, or something is held for one that waits, or no more."""
    job = dice.choice(sorted(draft.world.active.values(), key=lambda job: job.id))
    waiting = draft.world.queued[JobId(dice.randrange(20, 24))]
    if dice.random() < 0.5 and draft.staying(job):
        draft.shrink(job, (draft.staying(job)[-1],), LeaveReason.PREEMPTED)
    elif waiting.id in draft.holding:
        draft.unhold(waiting)
    else:
        draft.hold(waiting, (((NodeName(f"n{dice.randrange(6)}"), 1),),))


def asking(dice: random.Random) -> Job:
    fields = {
        "priority": dice.choice(PRIORITIES),
        "slots_per_worker": dice.choice((1, 2, 4)),
        "cpus": dice.choice((0.0, 3.0)),
    }
    count = dice.choice((1, 2, 3, 5))
    return Cluster().waiting(99, workers=(count, count), **fields).jobs[JobId(99)]


def most(feasible: FeasibleNodes, room: dict[int, Amount]) -> int:
    totals = Counter[object]()
    for i, group in feasible.types.items():
        totals[group] += fit_in(feasible.need, room[i])
    return max(totals.values(), default=0)


def reserved_below(draft: Draft, priority: int, room: dict[int, Amount]) -> dict[int, Amount]:
    holders = map(draft.world.queued.__getitem__, draft.holding)
    for holder in (holder for holder in holders if holder.priority < priority):
        for i, amount in draft.held_for(holder):
            room[i] = add(room[i], amount)
    return room


@pytest.mark.parametrize("seed", range(20))
def test_room_follows_what_a_draft_takes_and_holds(seed: int) -> None:
    dice = random.Random(seed)
    draft = draft_of(dice)
    positions = range(len(draft.ledger.nodes))
    rooms = {p: (with_all(draft, p, None, None), with_reservations(draft, p, None)) for p in PRIORITIES}
    for _ in range(15):
        disturb(dice, draft)
        job = asking(dice)
        feasible = draft.places.feasible(job.shape)
        soon = {i: draft.ledger.available(i, View.SOON) for i in positions}
        everything = reserved_below(draft, job.priority, dict(soon))
        for other in map(draft.world.active.__getitem__, draft.victim_table.less_than(job.priority)):
            for i, amount in draft.held(other):
                everything[i] = add(everything[i], amount)
        free = {i: draft.ledger.available(i, View.FREE) for i in positions}
        given_up = reserved_below(draft, job.priority, dict(soon))
        opened = {i: min(free[i], given_up[i], key=lambda amount: fit_in(feasible.need, amount)) for i in positions}
        all_taken, reservations = rooms[job.priority]
        assert all_taken.most(feasible) == most(feasible, everything)
        assert reservations.most(feasible) == most(feasible, opened)


def in_turn(draft: Draft, job: Job) -> Iterator[tuple[int, list[Taking]]]:
    """Victims, least important, shortest pause, newest first: how many workers above its minimum, and all of them."""

    def place(victim: Job) -> tuple[int, float, int]:
        measured = victim.progress.resize_seconds
        pause_seconds = PAUSES[victim.spec.runtime] if measured is None else measured
        return victim.priority, pause_seconds * len(victim.workers) * victim.shape.slots, -victim.id

    for victim in sorted(map(draft.world.active.__getitem__, draft.victim_table.less_than(job.priority)), key=place):
        staying = draft.staying(victim)
        takings = [Taking(victim, (worker,), False, draft.ledger.held_by(worker)) for worker in reversed(staying)]
        yield max(len(staying) - victim.min_workers, 0), takings


def one_by_one(draft: Draft, job: Job, request: Request) -> list[Taking] | None:
    """Takings in turn until it is enough, and of these the ones on nodes that take more then."""
    trial = Trial(request, None)
    for surplus, takings in in_turn(draft, job):
        useful = [each for each in takings if any(i in request.types for i, _ in each.freed)]
        for taking in useful[:surplus]:
            trial.take([taking])
            if trial.enough:
                improved = trial.useful()
                return [each for each in trial.takings if any(i in improved for i, _ in each.freed)]
    return None


@pytest.mark.parametrize("seed", range(40))
def test_a_lineup_takes_what_victims_can_spare_as_if_asked_one_by_one(seed: int) -> None:
    dice = random.Random(seed)
    draft = draft_of(dice)
    for _ in range(dice.randrange(3)):
        disturb(dice, draft)
    victims = Victims(draft)
    for _ in range(10):
        job = asking(dice)
        request = draft.request(job)
        trial = Trial(request, None)
        if not trial.enough:
            batch = VictimBatch(victims.of(job, shrinkable=True), request)
            assert batch.spared_until_enough(trial) == one_by_one(draft, job, request)
