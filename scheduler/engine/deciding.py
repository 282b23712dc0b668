"""From what a tick takes in to what it changes: absorb, plan, check, enact. It writes to no store and no cluster.

All of it can be rehearsed in a process of its own, where what is remembered from tick to tick is a copy.
"""

import math
from collections.abc import Iterable

from scheduler.config import Settings
from scheduler.engine.absorb.absorb import absorb
from scheduler.engine.absorb.dirty_jobs import Attention
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
from scheduler.engine.changeset import Draft, committed
from scheduler.engine.ports import ActionFailure, ClusterAction
from scheduler.engine.replay_case import Case, save_case
from scheduler.engine.state.reports import Hearing, ReportBox
from scheduler.model.ids import WorkerId
from scheduler.model.job import Job
from scheduler.model.observation import Observation
from scheduler.model.plan import Plan
from scheduler.model.worker import Desired, WorkerState
from scheduler.model.world import Changes, World
from scheduler.policy.checks.invariants import Violation, check_plan
from scheduler.policy.planner import Planner


class Deciding:
    """What it remembers between ticks makes them cheap, and never changes what they decide."""

    def __init__(
        self, settings: Settings, launch: LaunchContext, data: DataWatch, hearing: Hearing, reports: ReportBox
    ) -> None:
        self._settings = settings
        self._launch = launch
        self._data = data
        self._hearing = hearing
        self._reports = reports
        self._planner = Planner(settings.policy)
        #: The plan stays empty until then unless something that matters changes; None: it may not be empty.
        self._calm_until: float | None = None
        self.attention = Attention(settings.engine, hearing)
        #: Workers that this engine has asked to stop.
        self.told: set[WorkerId] = set()
        #: Workers whose last start or stop failed on the way, and why.
        self.uncertain: dict[WorkerId, ActionFailure] = {}

    def reset(self) -> None:
        """Look at everything at the next tick."""
        self.attention.reset()
        self._calm_until = None

    def absorb(self, inputs: TickInputs, begun: Changes) -> Draft:
        """What follows from observations and requests. `begun`: what the tick changed before."""
        world, observation, now = inputs.world, inputs.observation, inputs.now
        focus = self.attention.focus(world, observation, now)
        queues = inputs.queues
        if queues is None:
            queues = self._data.queues(focus.jobs, observation, self._hearing, now)
        self._hearing.look_up(queues)
        draft = Draft(world, now, queues, begun)
        absorb(draft, observation, inputs.inbox, focus, self._hearing, self.uncertain, self._settings.engine)
        absorb_loads(draft, observation.loads, self._settings.policy)
        absorb_demands(draft, observation.demands, self._settings.policy)
        absorb_data(draft, inputs.shares, self._reports)
        return draft

    def forget_nodes(self, draft: Draft, observation: Observation) -> None:
        """Remove nodes that have been gone for as long as the settings say."""
        forget_nodes(draft, observation.nodes.keys(), self._settings.retention.nodes_seconds)

    def plan(self, draft: Draft) -> tuple[Plan, tuple[Violation, ...]]:
        """Put the plan into the draft; one that breaks an invariant is dropped, and its world kept as a test case."""
        decided, violations = self._checked_plan(draft, draft.now)
        enact(draft, decided, self._settings.engine)
        give_addresses(draft, self._launch.host_of)
        return decided, violations

    def actions(self, world: World, unsettled: list[Job], observation: Observation, now: float) -> list[ClusterAction]:
        """What the cluster should be told now."""
        ended = self.attention.ended(observation)
        return due_actions(world, unsettled, observation, ended, self.told, self._launch, now)

    def next_tick_at(self, world: World, unsettled: list[Job], decided: Plan, now: float) -> float:
        """The latest moment for the next tick."""
        latest = now + self._settings.engine.tick_interval_seconds
        candidates = [latest, self.attention.next_deadline(world, now), decided.next_look_at]
        if _has_unstarted_leaver(unsettled):
            candidates.append(now)
        return min(max(c, now) for c in candidates if c is not None)

    def rehearse(self, inputs: TickInputs, begun: Changes) -> Changes:
        """Everything that a tick does without its store and its cluster; what it would commit."""
        self.reset()
        draft = self.absorb(inputs, begun)
        self.forget_nodes(draft, inputs.observation)
        decided, _ = self.plan(draft)
        changes = draft.changes()
        stored = committed(changes)
        world = draft.base.evolve(stored)
        for job in stored.jobs:
            if job.state.managed:
                post(job)
        unsettled = self.attention.unsettled(world)
        self.actions(world, unsettled, inputs.observation, inputs.now)
        self.next_tick_at(world, unsettled, decided, inputs.now)
        return changes

    def _checked_plan(self, draft: Draft, now: float) -> tuple[Plan, tuple[Violation, ...]]:
        calm_until, self._calm_until = self._calm_until, None
        if calm_until is not None and not draft.matters and now < calm_until:
            self._calm_until = calm_until
            return Plan(next_look_at=calm_until if calm_until < math.inf else None), ()
        world = draft.world()
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
    """A worker that was never started and need not be: the next tick confirms it as gone."""
    return any(w.state is WorkerState.PENDING and w.desired is Desired.STOP for job in jobs for w in job.all_workers)
