"""What a tick remembers of earlier ones makes it cheap, and never changes what it does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler.config import EngineSettings
from scheduler.engine import deciding
from scheduler.engine.absorb.dirty_jobs import DirtyJobs, Focus, is_settled
from scheduler.engine.changeset import Changeset
from scheduler.engine.deciding import Deciding
from scheduler.engine.ports import TickInputs
from scheduler.engine.state.deadlines import job_deadline
from scheduler.engine.state.reports import Liveness
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Job, Runtime
from scheduler.model.job_state import JobState
from scheduler.model.plan import Plan
from scheduler.model.world import World
from scheduler.policy.checks.invariants import Violation
from scheduler.policy.planner import plan
from tests.faults.batch import fresh, replay
from tests.faults.draw import draw
from tests.world import World as Site

SEEDS = 6


def test_looking_at_what_may_have_changed_absorbs_what_looking_at_everything_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absorb, compared = deciding.absorb, 0

    def both(
        changeset: Changeset, inputs: TickInputs, focus: Focus, liveness: Liveness, settings: EngineSettings
    ) -> None:
        nonlocal compared
        world, nodes, seen = changeset.base, inputs.observation.nodes, inputs.observation.workers
        whole = Changeset(world, changeset.now, changeset.queues, inputs.begun)
        absorb(whole, inputs, Focus(nodes, list(world.active.values()), {}, list(seen.values())), liveness, settings)
        absorb(changeset, inputs, focus, liveness, settings)
        found, expected = changeset.changes(), whole.changes()
        assert {job.id: job for job in found.jobs} == {job.id: job for job in expected.jobs}
        assert {node.name: node for node in found.nodes} == {node.name: node for node in expected.nodes}
        assert sorted(map(str, found.events)) == sorted(map(str, expected.events))
        compared += 1

    monkeypatch.setattr(deciding, "absorb", both)
    _play()
    assert compared > SEEDS


def test_of_nodes_that_change_only_their_jobs_are_looked_at(w: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = _looked_at(monkeypatch)
    nodes = [w.node(name, slots=1) for name in ("a", "b", "c")]
    jobs = [w.job(f"on {name}", runtime=Runtime.COMMAND) for name in nodes]
    w.advance(30)
    on = {w.get(job_id).workers[0].node: job_id for job_id in jobs}
    looked_at.clear()
    w.tick()
    w.cluster.add_node(replace(w.cluster.facts(nodes[1]), cpus=1.0))
    w.tick()
    w.cluster.lose_node(nodes[2], listed=False)
    w.tick()
    assert looked_at == [[], [on[nodes[1]]], [on[nodes[2]]]]


def test_once_all_is_loaded_anew_all_nodes_are_looked_at_also_those_stored_as_they_are_seen(
    w: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that could not be read before may hold slots that a node had, and has no more."""
    looked_at = _looked_at(monkeypatch, lambda focus: sorted(focus.nodes))
    for name in ("a", "b"):
        w.node(name, slots=1)
    w.tick()
    w.tick()
    w.engine.forget()
    w.tick()
    assert looked_at == [["a", "b"], [], ["a", "b"]]


def test_a_job_that_a_user_changed_is_looked_at_once_more(w: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = _looked_at(monkeypatch)
    w.node("a", slots=2)
    job, _ = w.job("asked", workers=(1, 1)), w.job("other", workers=(1, 1))
    w.advance(30)
    looked_at.clear()
    w.ask(IntentKind.SCALE, job, max_workers=2)
    for _ in range(4):
        w.tick()
    assert looked_at == [[], [job], [], []]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_lower_minimum_lets_a_job_go_on_without_a_node_out_of_reach(w: Site, restarted: bool) -> None:
    w.node("a", slots=1)
    w.node("b", slots=1)
    job = w.job("waits", workers=(2, 2))
    w.advance(30)
    w.expect(job, JobState.RUNNING, workers=2)
    w.cluster.lose_node(w.node_name("b"), remembered=True)
    w.advance(10)
    w.ask(IntentKind.SCALE, job, min_workers=1)
    w.advance(10)
    if restarted:
        w.kill_engine()
    w.advance(30)
    assert w.get(job).published_size == 1


def test_unsettled_jobs_and_the_next_deadline_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    find, compared = DirtyJobs.next_deadline, 0

    def checked(self: DirtyJobs, world: World, unsettled: list[Job], now: float) -> float | None:
        nonlocal compared
        assert unsettled == [job for job in world.active.values() if not is_settled(job)]
        jobs = (job_deadline(job, self._liveness, now, self._settings) for job in world.active.values())
        found, first = find(self, world, unsettled, now), min((each for each in jobs if each is not None), default=None)
        assert first is None or (found is not None and now < found <= first)
        compared += 1
        return found

    monkeypatch.setattr(DirtyJobs, "next_deadline", checked)
    _play()
    assert compared > SEEDS


def test_a_plan_that_is_not_made_since_nothing_matters_would_be_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    decide, compared = Deciding.plan, 0

    def checked(self: Deciding, changeset: Changeset) -> tuple[Plan, tuple[Violation, ...]]:
        nonlocal compared
        calm_until = self._memory.calm_until
        if calm_until is not None and changeset.now < calm_until and not changeset.matters:
            missed = plan(changeset.world(), changeset.now, self._settings.policy)
            assert not missed.actions
            assert not missed.waiting
            compared += 1
        return decide(self, changeset)

    monkeypatch.setattr(Deciding, "plan", checked)
    _play()
    assert compared > SEEDS


def _job_ids(focus: Focus) -> list[JobId]:
    return [job.id for job in focus.jobs]


def _looked_at(monkeypatch: pytest.MonkeyPatch, what: Callable[[Focus], list[Any]] = _job_ids) -> list[list[Any]]:
    """What each tick from now on looks at: its jobs, or others."""
    absorb, looked_at = deciding.absorb, list[list[Any]]()

    def noted(changeset: Changeset, inputs: TickInputs, focus: Focus, *rest: Any) -> None:
        looked_at.append(what(focus))
        absorb(changeset, inputs, focus, *rest)

    monkeypatch.setattr(deciding, "absorb", noted)
    return looked_at


def _play() -> None:
    """Play scenarios that nobody has tried."""
    for seed in fresh(SEEDS):
        print(f"seed {seed}")
        outcome = replay(draw(seed))
        assert outcome.broken is None, outcome.broken
