"""Ways to break the engine that the simulation must notice, and which invariant must say so."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Connection

from scheduler.engine.absorb import absorb, worker_ends
from scheduler.engine.absorb.exits import FAILURES
from scheduler.engine.absorb.workers import absorb_job_workers
from scheduler.engine.changeset import Changeset
from scheduler.engine.leadership import follower
from scheduler.engine.leadership.lease_keeper import LeaseKeeper
from scheduler.engine.ports import Lease, StoredNews
from scheduler.engine.timing.steady_clock import SteadyClock
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.job import Job
from scheduler.model.node import Node
from scheduler.model.observation import Observation
from scheduler.model.worker import Desired, ExitReason, Worker, WorkerState
from scheduler.model.world import Changes, World
from scheduler.policy import planner
from scheduler.policy.capacity import ledger
from scheduler.policy.capacity.ledger import Ledger, left_of
from scheduler.policy.draft import Draft
from scheduler.store.engine_side import leadership
from scheduler.store.sql.engine_tables import lease as lease_table
from tests.faults.cases import NOTICING
from tests.faults.draw import draw
from tests.faults.plan import Scenario
from tests.faults.run import play
from tests.faults.sandbox import Sandbox, sandbox
from tests.faults.shrink import shrink


@dataclass(frozen=True, slots=True)
class Mutation:
    """A defect to be put in, and the invariant that it breaks."""

    name: str
    invariant: str
    put_in: Callable[[pytest.MonkeyPatch], None]

    @property
    def case(self) -> Path:
        """A scenario that notices; `python -m tests.faults --defect NAME` looks for one."""
        return NOTICING / f"{self.name.replace(' ', '-')}.json"

    def noticed(self, scenario: Scenario, box: Sandbox) -> bool:
        """Whether the scenario breaks the invariant with the defect, and none without it."""
        with pytest.MonkeyPatch.context() as patch:
            self.put_in(patch)
            found = play(scenario, box.fresh()).broken
        return found is not None and found[0] == self.invariant and play(scenario, box.fresh()).broken is None


def _free_on_asking(
    changeset: Changeset, job: Job, observation: Observation, uncertain: frozenset[str]
) -> list[Worker]:
    """Count who was asked to leave as gone."""
    ended = absorb_job_workers(changeset, job, observation, uncertain)  # type: ignore[arg-type]
    for worker in changeset.the_job(job.id).workers:
        if worker.desired is Desired.STOP:
            ended.append(changeset.end_worker(worker, WorkerState.EXITED, ExitReason.ASKED, None))
    return ended


def _advance_for_anybody(connection: Connection, lease: Lease) -> int:
    """Count the commit, whoever makes it."""
    counted = lease_table.update().values(revision=lease_table.c.revision + 1).returning(lease_table.c.revision)
    return int(connection.execute(counted).scalar_one())


def _without_ends(world: World, news: StoredNews) -> Changes:
    """Only jobs that go on."""
    return Changes(jobs=tuple(job for job in news.jobs if not job.state.terminal), nodes=tuple(news.nodes))


def _held_for_equals_too(draft: Draft, job: Job) -> list[Job]:
    """Let a job take what is held for one that is as important."""
    holders = map(draft.world.queued.__getitem__, draft.holding)
    return [holder for holder in holders if holder.priority <= job.priority and holder.id != job.id]


def _by_monotonic_time(lease_keeper: LeaseKeeper) -> float:
    return lease_keeper._ends_at - lease_keeper._clock.monotonic() if lease_keeper.lease else 0.0


MUTATIONS = (
    Mutation(
        "a slot is given out before the exit is confirmed",
        "I3",
        lambda patch: patch.setattr(absorb, "absorb_job_workers", _free_on_asking),
    ),
    Mutation(
        "workers that return from a lost node are overlooked",
        "I3",
        lambda patch: patch.setattr(absorb, "find_strays", lambda changeset, observation, moved: {}),
    ),
    Mutation(
        "a deposed leader may commit",
        "LEASE",
        lambda patch: patch.setattr(leadership, "advance", _advance_for_anybody),
    ),
    Mutation(
        "a standby takes a lease that it has not outlived",
        "LEASE",
        lambda patch: patch.setattr(LeaseKeeper, "outlived_in_seconds", lambda self: 0.0),
    ),
    Mutation(
        "a standby overlooks that jobs end",
        "I7",
        lambda patch: patch.setattr(follower, "_changes", _without_ends),
    ),
    Mutation(
        "reservations are not counted",
        "I1",  # the plan's own check says that more is held than there is
        lambda patch: patch.setattr(Ledger, "hold", lambda self, placement, shape, sign=1: None),
    ),
    Mutation(
        "an equal takes what is held",
        "RESERVED",
        lambda patch: patch.setattr(Draft, "dominated_by", _held_for_equals_too),
    ),
    Mutation(
        "a preemption counts as a failure",
        "I8",
        lambda patch: patch.setattr(worker_ends, "FAILURES", FAILURES | {ExitReason.ASKED}),
    ),
    Mutation(
        "the loss of a node counts as a failure",
        "I8",
        lambda patch: patch.setattr(worker_ends, "FAILURES", FAILURES | {ExitReason.LOST}),
    ),
    Mutation(
        "what others hold is given out",
        "I1",
        lambda patch: patch.setattr(ledger, "left_of", lambda node, used, foreign: left_of(node, used, NO_FOREIGN)),
    ),
    Mutation(
        "a worker that fails is replaced where others have come",
        "I1",
        lambda patch: patch.setattr(worker_ends, "others_took", lambda changeset, worker: False),
    ),
    Mutation(
        "a worker that fails is replaced on a closed slot",
        "I1",
        lambda patch: patch.setattr(Node, "closed_among", lambda self, slot_ids: ()),
    ),
    Mutation(
        "nobody leaves for others that wait",
        "DEMAND",
        lambda patch: patch.setattr(planner, "plan_beside_others", lambda world, now, make: make(world)),
    ),
    Mutation(
        "a leader whose machine slept goes by its monotonic clock",
        "LEASE",
        lambda patch: patch.setattr(LeaseKeeper, "seconds_left", _by_monotonic_time),
    ),
    Mutation(
        "durations go by a clock that somebody sets",
        "I12",
        lambda patch: patch.setattr(SteadyClock, "now", SteadyClock.wall),
    ),
)


def first_that_notices(mutation: Mutation, seeds: Iterable[int]) -> Scenario | None:
    """What the first of these seeds that notices the defect draws, as small as it gets."""
    with sandbox() as box:
        for scenario in map(draw, seeds):
            if mutation.noticed(scenario, box):
                return shrink(scenario, lambda smaller: mutation.noticed(smaller, box))
    return None
