"""Turns the inputs of a tick into changes: absorb, plan, check, enact. It writes to no store and no cluster.

All of it can be rehearsed in a process of its own, which has a copy of the memory of earlier ticks.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager

from scheduler.config import Settings
from scheduler.engine.absorb.absorb import absorb
from scheduler.engine.absorb.foreign import absorb_demands
from scheduler.engine.absorb.forgotten_nodes import forget_nodes
from scheduler.engine.absorb.shards import DataWatch, absorb_data
from scheduler.engine.absorb.slot_loads import absorb_loads
from scheduler.engine.apply.addresses import give_addresses
from scheduler.engine.apply.enact import enact
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.apply.reconcile import due_actions
from scheduler.engine.board import post
from scheduler.engine.changeset import Changeset, committed
from scheduler.engine.memory import Memory
from scheduler.engine.ports import ClusterAction, TickInputs
from scheduler.engine.replay_case import Case, save_case
from scheduler.engine.state.bookings import open_and_end
from scheduler.model.ids import WorkerId
from scheduler.model.job import Job
from scheduler.model.plan import Plan
from scheduler.model.worker import Desired, WorkerState
from scheduler.model.world import Changes, World
from scheduler.policy.checks.invariants import QUEUE_INVARIANTS, Violation, check_plan
from scheduler.policy.planner import Planner


class Deciding:
    """The decisions of ticks. The memory of earlier ones makes them cheap, and never changes the outcome."""

    def __init__(
        self,
        settings: Settings,
        launch: LaunchContext,
        data: DataWatch,
        memory: Memory,
        monotonic: Callable[[], float],
    ) -> None:
        """`monotonic`: a clock in seconds by which plans that take long end early."""
        self._settings = settings
        self._launch = launch
        self.data = data
        self._memory = memory
        self._planner = Planner(settings.policy, monotonic)
        #: The inputs being decided by; None: nothing is being decided.
        self.inputs: TickInputs | None = None

    @contextmanager
    def watched(self, inputs: TickInputs) -> Iterator[None]:
        """Show others what is being decided by."""
        self.inputs = inputs
        try:
            yield
        finally:
            self.inputs = None

    def absorb(self, inputs: TickInputs) -> Changeset:
        """The changes that follow from observations, requests and time."""
        world, observation, now = inputs.world, inputs.observation, inputs.now
        liveness, wall, settings = self._memory.liveness, self._memory.wall, self._settings
        focus = self._memory.dirty_jobs.focus(world, observation, now)
        queues = inputs.queues
        if queues is None:
            queues = self.data.queues(focus.jobs, observation, liveness, now)
        liveness.look_up(queues)
        changeset = Changeset(world, now, queues, inputs.begun)
        absorb(changeset, inputs, focus, liveness, settings.engine)
        absorb_loads(changeset, observation.loads, settings.policy)
        absorb_demands(changeset, observation.demands, settings.policy)
        absorb_data(changeset, inputs.shares, liveness.reports)
        wall.look(changeset, inputs.ahead_seconds)
        open_and_end(changeset)  # by now bookings have followed the clock
        if wall.jump is None:  # else nobody knows yet how long nodes have been gone
            forget_nodes(changeset, observation.nodes.keys(), settings.retention.nodes_seconds)
        return changeset

    def plan(self, changeset: Changeset) -> tuple[Plan, tuple[Violation, ...]]:
        """Put the plan into the changeset; if it breaks an invariant, drop it and keep its world as a test case.

        A plan that only gives a queue too much is better than none, which would keep all others waiting.
        """
        decided, violations = self._checked_plan(changeset, changeset.now)
        enact(changeset, decided, self._settings.engine)
        give_addresses(changeset, self._launch.host_of)
        return decided, violations

    def actions(self, world: World, unsettled: list[Job], inputs: TickInputs) -> list[ClusterAction]:
        """The actions that the cluster should carry out now."""
        ended = self._memory.dirty_jobs.ended(inputs.observation)
        stop_sent = self._memory.sent.stop_sent
        return due_actions(world, unsettled, inputs.observation, ended, stop_sent, self._launch, inputs.now)

    def next_tick_at(self, world: World, unsettled: list[Job], decided: Plan, inputs: TickInputs) -> float:
        """The latest moment for the next tick."""
        now = inputs.now
        latest = now + self._settings.engine.tick_interval_seconds
        candidates = [latest, self._memory.dirty_jobs.next_deadline(world, unsettled, now), decided.next_look_at]
        if _has_unstarted_leaver(unsettled, inputs.observation.workers, self._memory.sent.uncertain):
            candidates.append(now)
        return min(max(c, now) for c in candidates if c is not None)

    def rehearse(self, inputs: TickInputs) -> Changes:
        """Do everything in a tick except for its store and its cluster; returns what it would commit."""
        self._memory.look_at_everything()
        changeset = self.absorb(inputs)
        decided, _ = self.plan(changeset)
        changes = changeset.changes()
        stored = committed(changes)
        world = changeset.base.evolve(stored)
        for job in stored.jobs:
            if job.state.managed:
                post(job)
        unsettled = self._memory.dirty_jobs.unsettled(world)
        self.actions(world, unsettled, inputs)
        self.next_tick_at(world, unsettled, decided, inputs)
        return changes

    def _checked_plan(self, changeset: Changeset, now: float) -> tuple[Plan, tuple[Violation, ...]]:
        memory, policy = self._memory, self._settings.policy
        calm_until, memory.calm_until = memory.calm_until, None
        matters = changeset.matters or (policy.name != "elastic" and changeset.progressed)  # others go by what is left
        if calm_until is not None and not matters and now < calm_until:
            memory.calm_until = calm_until
            return Plan(next_look_at=calm_until if calm_until < math.inf else None), ()
        world = changeset.world()
        decided = self._planner.plan(world, now)
        ages = policy.aging_per_hour > 0  # then the order changes with every moment
        if not ages and not decided.actions and not decided.waiting:
            memory.calm_until = math.inf if decided.next_look_at is None else decided.next_look_at
        violations = tuple(check_plan(world, decided, now, policy))
        if not violations:
            return decided, ()
        lines = tuple(f"{v.invariant}: {v.detail}" for v in violations)
        save_case(self._settings.state_path / "cases", Case(world, now, policy, lines))
        kept = all(violation.invariant in QUEUE_INVARIANTS for violation in violations)
        return decided if kept else Plan(), violations


def _has_unstarted_leaver(jobs: Iterable[Job], listed: Container[WorkerId], uncertain: Container[WorkerId]) -> bool:
    """Whether a worker that was never started is to leave: the next tick confirms it as gone.

    Workers that are listed, or for which a call failed, may have been started.
    """
    workers = (worker for job in jobs for worker in job.all_workers)
    leavers = (w.id for w in workers if w.state is WorkerState.PENDING and w.desired is Desired.STOP)
    return any(leaver not in listed and leaver not in uncertain for leaver in leavers)
