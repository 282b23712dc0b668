"""Holdings that are kept from pass to pass are those of somebody who has just come."""

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job, Runtime
from scheduler.policy.capacity.journal import Journal
from scheduler.policy.capacity.resources import Held
from scheduler.policy.estimate.lost_work import shrink_cost, stop_cost
from scheduler.policy.snapshot import victim_table
from scheduler.policy.snapshot.usage import JobUsage
from scheduler.policy.snapshot.victim_table import VictimTable, surplus
from tests.policy.worlds import NOW, Cluster

POSITIONS = 4
#: A job as its record shows it: what stays and what that holds, what each node could get, its place in turn.
Shown = tuple[object, ...]


def job_of(dice: random.Random, number: int) -> Job:
    cluster = Cluster()
    for name in "abcd"[:POSITIONS]:
        cluster.node(name, 4)
    on = {name: dice.randrange(1, 4) for name in dice.sample("abcd", dice.randrange(1, 4))}
    low = dice.randrange(1, sum(on.values()) + 1)
    fields = {
        "priority": dice.randrange(3),
        "last_commit_at": dice.choice((None, NOW - 30.0, NOW + 30.0)),
        "last_checkpoint_at": dice.choice((None, None, NOW - 10.0)),
        "resize_seconds": dice.choice((None, 0.25, 40.0)),
        "runtime": dice.choice(tuple(Runtime)),
    }
    return cluster.running(number, on, workers=(low, 12), **fields).jobs[JobId(number)]


def usage_of(dice: random.Random, job: Job) -> JobUsage:
    """Some workers hold something on a second node, and some nothing at all; some jobs have a fixed group."""
    each: list[Held] = []
    for worker in job.workers:
        i, amount = "abcd".index(worker.node), (1, dice.randrange(3), dice.randrange(9))
        each.append(((), ((i, amount),), ((i, amount), ((i + 1) % POSITIONS, (0, *amount[1:]))))[dice.randrange(3)])
    fixed = dice.choice((0, 0, 1, 2))
    group = tuple(replace(job.workers[0], id=WorkerId(f"{job.id}-fixed-{k}"), fixed_index=k) for k in range(fixed))
    fixed_each: tuple[Held, ...] = (((1, (0, 1, 0)),),) * fixed
    return JobUsage(job, job.workers, tuple(each), group, fixed_each, together(*each, *fixed_each), ())


def together(*each: Held) -> Held:
    return tuple(chain.from_iterable(each))


def without(usage: JobUsage, kept: list[int], *, stopped: bool) -> JobUsage:
    """What is left of it when no more than these workers stay."""
    staying, each = (tuple(row[k] for k in kept) for row in (usage.staying, usage.each))
    fixed, fixed_each = ((), ()) if stopped else (usage.fixed, usage.fixed_each)
    held = together(*each, *fixed_each)
    return replace(usage, staying=staying, each=each, fixed=fixed, fixed_each=fixed_each, held=held)


def freed(before: JobUsage, after: JobUsage) -> Held:
    """What is gone between the two, a row per piece."""
    gone = list(before.held)
    for piece in after.held:
        gone.remove(piece)
    return tuple(gone)


def shown(kept: VictimTable) -> list[Shown]:
    """All jobs in turn: as they shrink, and then as they stop."""
    seen = []
    for k in [*kept.in_turn(NOW, shrink=True).tolist(), *kept.in_turn(NOW, shrink=False).tolist()]:
        record, victim = kept.table[k : k + 1], kept.victim(k)
        gifts = kept.gifts_of(record).tolist()
        seen.append((victim.job.id, kept.at(victim.job.id) == k, victim.takings, gifts, surplus(record).tolist()))
    return seen


def summed(kept: VictimTable) -> list[list[list[int]]]:
    """What all of them hold, and what those below each priority do."""
    rows = np.zeros((POSITIONS, 3), np.int64)
    kept.pour(rows, kept.table)
    sums: list[list[list[int]]] = [rows.tolist(), *(kept.below(priority).tolist() for priority in range(4))]
    return sums


def progressed_of(dice: random.Random, usage: JobUsage) -> JobUsage:
    """The usage of the job once it has told another progress."""
    return replace(usage, job=replace(usage.job, progress=job_of(dice, usage.job.id).progress))


def fresh(usages: Iterable[JobUsage]) -> VictimTable:
    made = VictimTable(POSITIONS, Journal())
    made.update((), list(usages))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_they_stand_in_the_order_of_priority_and_then_of_cost(seed: int) -> None:
    dice = random.Random(seed)
    jobs = [job_of(dice, number) for number in range(1, 30)]
    kept = fresh(usage_of(dice, job) for job in jobs)
    for shrink, cost in ((True, shrink_cost), (False, stop_cost)):
        expected = sorted(jobs, key=lambda job: (job.priority, cost(job).at(NOW), -job.id))
        assert [kept.victim(k).job.id for k in kept.in_turn(NOW, shrink=shrink)] == [job.id for job in expected]


@pytest.mark.parametrize("seed", range(20))
def test_they_follow_who_comes_goes_and_is_taken_from(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_table, "_UNUSED_MAX", 10)
    dice = random.Random(seed)
    journal = Journal()
    kept, usages = VictimTable(POSITIONS, journal), dict[JobId, JobUsage]()
    for _ in range(12):
        gone = dice.sample(sorted(usages), dice.randrange(len(usages) + 1) // 2)
        changed = [*(JobId(dice.randrange(1, 99)) for _ in range(4)), *gone[:1]]
        come = {number: usage_of(dice, job_of(dice, number)) for number in changed}
        gone = sorted({*gone, *(usages.keys() & come.keys())})
        stay = {number: usage for number, usage in usages.items() if number not in gone and number not in come}
        progressed = {number: progressed_of(dice, stay[number]) for number in dice.sample(sorted(stay), len(stay) // 3)}
        kept.update([usages[number] for number in gone], list(come.values()), list(progressed.values()))
        usages = stay | come | progressed
        assert shown(kept) == shown(fresh(usages.values()))
        journal.begin()
        taken = dict(usages)
        for _ in range(6):
            number = dice.choice(sorted(taken))
            stopped = dice.random() < 0.2
            staying = [k for k in range(len(taken[number].staying)) if dice.random() < 0.7 and not stopped]
            before, left = taken[number], without(taken[number], staying, stopped=stopped)
            taken[number] = left
            kept.take(number, left.staying, left.fixed, freed(before, left))
            assert shown(kept) == shown(fresh(taken.values()))
            assert summed(kept) == summed(fresh(taken.values()))
        journal.rollback()
        assert shown(kept) == shown(fresh(usages.values()))
        assert summed(kept) == summed(fresh(usages.values()))
