"""Turns the inputs of a tick into changes: absorb, plan, check, enact. It writes to no store and no cluster.

All of it can be rehearsed in a process of its own, which has a copy of the memory between ticks.
"""

import math
from collections.abc import Iterable

from scheduler.config import Settings
from scheduler.engine.absorb.absorb import absorb
from scheduler.engine.absorb.dirty_jobs import DirtyJobs
from scheduler.engine.absorb.foreign import absorb_demands
from scheduler.engine.absorb.forgotten_nodes import forget_nodes
from scheduler.engine.absorb.shards import DataWatch, absorb_data
from scheduler.engine.absorb.slot_loads import absorb_loads
from scheduler.engine.apply.addresses import give_addresses
from scheduler.engine.apply.enact import enact
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.apply.reconcile import due_actions
from scheduler.engine.attribution.inputs import TickInputs
from scheduler.engine.board import post
from scheduler.engine.changeset import Changeset, committed
from scheduler.engine.ports import ActionFailure, ClusterAction
from scheduler.engine.replay_case import Case, save_case
from scheduler.engine.state.reports import Liveness, ReportBox
from scheduler.model.ids import WorkerId
from scheduler.model.job import Job
from scheduler.model.observation import Observation
from scheduler.model.plan import Plan
from scheduler.model.worker import Desired, WorkerState
from scheduler.model.world import Changes, World
from scheduler.policy.checks.invariants import Violation, check_plan
from scheduler.policy.planner import Planner


class Deciding:
    """The decisions of ticks. Its memory between ticks makes them cheap, and never changes the outcome."""

    def __init__(
        self, settings: Settings, launch: LaunchContext, data: DataWatch, liveness: Liveness, reports: ReportBox
    ) -> None:
        self._settings = settings
        self._launch = launch
        self._data = data
        self._liveness = liveness
        self._reports = reports
        self._planner = Planner(settings.policy)
        #: The plan stays empty until this time unless something that matters changes; None: it may not be empty.
        self._calm_until: float | None = None
        self.dirty_jobs = DirtyJobs(settings.engine, liveness)
        #: Workers that this engine has asked to stop.
        self.stop_sent: set[WorkerId] = set()
        #: Workers whose last start or stop failed on the way, and why.
        self.uncertain: dict[WorkerId, ActionFailure] = {}

    def reset(self) -> None:
        """Look at everything at the next tick."""
        self.dirty_jobs.reset()
        self._calm_until = None

    def absorb(self, inputs: TickInputs, begun: Changes) -> Changeset:
        """The changes that follow from observations and requests. `begun`: earlier changes of the tick."""
        world, observation, now = inputs.world, inputs.observation, inputs.now
        focus = self.dirty_jobs.focus(world, observation, now)
        queues = inputs.queues
        if queues is None:
            queues = self._data.queues(focus.jobs, observation, self._liveness, now)
        self._liveness.look_up(queues)
        changeset = Changeset(world, now, queues, begun)
        absorb(changeset, observation, inputs.inbox, focus, self._liveness, self.uncertain, self._settings.engine)
        absorb_loads(changeset, observation.loads, self._settings.policy)
        absorb_demands(changeset, observation.demands, self._settings.policy)
        absorb_data(changeset, inputs.shares, self._reports)
        return changeset

    def forget_nodes(self, changeset: Changeset, observation: Observation) -> None:
        """Remove nodes that have been gone for as long as the settings say."""
        forget_nodes(changeset, observation.nodes.keys(), self._settings.retention.nodes_seconds)

    def plan(self, changeset: Changeset) -> tuple[Plan, tuple[Violation, ...]]:
        """Put the plan into the changeset; if it breaks an invariant, drop it and keep its world as a test case."""
        decided, violations = self._checked_plan(changeset, changeset.now)
        enact(changeset, decided, self._settings.engine)
        give_addresses(changeset, self._launch.host_of)
        return decided, violations

    def actions(self, world: World, unsettled: list[Job], observation: Observation, now: float) -> list[ClusterAction]:
        """The actions that the cluster should carry out now."""
        ended = self.dirty_jobs.ended(observation)
        return due_actions(world, unsettled, observation, ended, self.stop_sent, self._launch, now)

    def next_tick_at(self, world: World, unsettled: list[Job], decided: Plan, now: float) -> float:
        """The latest moment for the next tick."""
        latest = now + self._settings.engine.tick_interval_seconds
        candidates = [latest, self.dirty_jobs.next_deadline(world, now), decided.next_look_at]
        if _has_unstarted_leaver(unsettled):
            candidates.append(now)
        return min(max(c, now) for c in candidates if c is not None)

    def rehearse(self, inputs: TickInputs, begun: Changes) -> Changes:
        """Do everything in a tick except for its store and its cluster; returns what it would commit."""
        self.reset()
        changeset = self.absorb(inputs, begun)
        self.forget_nodes(changeset, inputs.observation)
        decided, _ = self.plan(changeset)
        changes = changeset.changes()
        stored = committed(changes)
        world = changeset.base.evolve(stored)
        for job in stored.jobs:
            if job.state.managed:
                post(job)
        unsettled = self.dirty_jobs.unsettled(world)
        self.actions(world, unsettled, inputs.observation, inputs.now)
        self.next_tick_at(world, unsettled, decided, inputs.now)
        return changes

    def _checked_plan(self, changeset: Changeset, now: float) -> tuple[Plan, tuple[Violation, ...]]:
        calm_until, self._calm_until = self._calm_until, None
        if calm_until is not None and not changeset.matters and now < calm_until:
            self._calm_until = calm_until
            return Plan(next_look_at=calm_until if calm_until < math.inf else None), ()
        world = changeset.world()
        decided = self._planner.plan(world, now)
        ages = self._settings.policy.aging_per_hour > 0  # then the order changes with every moment
        if not ages and not decided.actions and not decided.waiting:
            self._calm_until = math.inf if decided.next_look_at is None else decided.next_look_at
        violations = tuple(check_plan(world, decided, now, self._settings.policy))
        if not violations:
            return decided, ()
        lines = tuple(f"{v.invariant}: {v.detail}" for v in violations)
        save_case(self._settings.state_path / "cases", Case(world, now, self._settings.policy, lines))
        return Plan(), violations


def _has_unstarted_leaver(jobs: Iterable[Job]) -> bool:
    """Whether a worker that was never started is to leave: the next tick confirms it as gone."""
    return any(w.state is WorkerState.PENDING and w.desired is Desired.STOP for job in jobs for w in job.all_workers)
