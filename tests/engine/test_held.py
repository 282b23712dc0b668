"""A job that ticks fail at is held; all others go on, and it comes back when a user says so."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler import bounds
from scheduler.config import Settings
from scheduler.engine.attribution.caution import Undecidable
from scheduler.model.event import Cause, EventKind
from scheduler.model.foreign import Demand
from scheduler.model.ids import NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.node import NodeIntent
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import ExitReason, WorkerState
from scheduler.policy.planner import Planner
from tests.poison import HARMS, POINTS, Poison, poisoned
from tests.world import World


@pytest.fixture
def w(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, careful=True)
    world.node("a", slots=8)
    yield world
    world.close()


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point[1])
def test_a_job_that_cannot_be_handled_is_held_and_others_start(w: World, point: tuple[Any, str]) -> None:
    bad = w.job("bad", workers=(1, 2), time_limit_seconds=1000.0)
    good = [w.job(f"good-{n}", workers=1) for n in range(3)]
    with poisoned(lambda job_id: job_id == bad, point, HARMS["raise"]):
        w.advance(8.0)
        held = w.expect(bad, JobState.HELD)
        for job_id in good:
            w.expect(job_id, JobState.RUNNING, workers=1)
        assert "Poison: this job is not to be handled, in " in held.detail
        (event,) = w.events(EventKind.JOB_HELD)
        assert (event.job_id, event.cause, event.detail) == (bad, Cause.TICK_RAISED, held.detail)


def test_a_running_job_that_is_held_keeps_its_workers_and_their_slots(w: World) -> None:
    bad = w.job("bad", workers=4)
    w.settle()
    w.kill_engine()  # the next one remembers no usage of the job
    with poisoned(lambda job_id: job_id == bad, POINTS[5], HARMS["raise"]):
        good = w.job("good", workers=4, priority=9)
        more = w.job("more", workers=1, priority=9)
        w.tick()
        w.advance(10.0)
        held = w.expect(bad, JobState.HELD)
        assert (held.held_from, len(held.workers)) == (JobState.RUNNING, 4)
        assert {start.job_id for _, start in w.cluster.alive()} == {bad, good}
        assert w.board.posting(bad) is not None
        w.expect(more, JobState.QUEUED)
        w.ask_cancel(more)
        w.advance(2.0)
    w.ask(IntentKind.RESUME, bad)
    w.advance(10.0)
    assert w.expect(bad, JobState.RUNNING).workers == held.workers
    assert [event.job_id for event in w.events(EventKind.JOB_RELEASED)] == [bad]


def test_ticks_look_after_the_workers_of_every_state_but_held() -> None:
    assert {state for state in JobState if state.active != state.managed} == {JobState.HELD}
    assert JobState.HELD.active


def test_workers_that_were_not_started_before_their_job_was_held_are_given_up_at_its_release(w: World) -> None:
    bad = w.job("bad", workers=2)
    (start,) = (point for point in POINTS if point[1] == "start_workers")
    with poisoned(lambda job_id: job_id == bad, start, HARMS["raise"]):
        w.advance(4.0)
        unstarted = w.expect(bad, JobState.HELD).workers
        assert len(unstarted) == 2
    w.ask(IntentKind.RESUME, bad)
    w.advance(30.0)
    started = {worker.id for worker in w.expect(bad, JobState.RUNNING).workers}
    before = {worker.id for worker in unstarted}
    assert not started & before
    ended = {worker.id: worker for worker in w.store.list_workers(bad)}
    assert {(ended[each].state, ended[each].detail) for each in before} == {
        (WorkerState.LOST, "not started while the job was held")
    }


def test_a_held_job_that_is_cancelled_ends_with_its_workers(w: World) -> None:
    bad = w.job("bad", workers=8)
    w.settle()
    with poisoned(lambda job_id: job_id == bad, POINTS[0], HARMS["raise"]):
        good = w.job("good", workers=8)
        w.engine.forget()
        w.tick()
        w.expect(bad, JobState.HELD)
        w.ask_cancel(bad)
        w.advance(60.0)
        cancelled = w.expect(bad, JobState.CANCELLED)
        assert (cancelled.all_workers, cancelled.published_size, cancelled.held_from) == ((), 0, None)
        (event,) = w.events(EventKind.JOB_CANCELLED)
        assert (event.job_id, event.cause) == (bad, "CANCELLED")
        assert event.detail.startswith("it was held: Poison: ")
        ended = w.store.list_workers(bad)
        assert {(each.state, each.exit_reason, each.rank) for each in ended} == {
            (WorkerState.EXITED, ExitReason.ASKED, None)
        }
        assert {each.ended_at for each in ended} == {cancelled.finished_at} == {event.at}
        w.expect(good, JobState.RUNNING)
        assert {start.job_id for _, start in w.cluster.alive()} == {good}


def test_a_held_job_that_waits_is_cancelled_at_once_and_nothing_else_is_asked_of_it(w: World) -> None:
    bad = w.job("bad")
    with poisoned(lambda job_id: job_id == bad, POINTS[8], HARMS["raise"]):
        w.tick()
        w.set_priority(bad, 7)
        w.tick()
        (refused,) = w.events(EventKind.REQUEST_REFUSED)
        assert refused.detail == "it is held: only resume and cancel are possible"
        w.ask_cancel(bad)
        w.tick()
        w.expect(bad, JobState.CANCELLED)


def test_one_that_fails_again_stays_held_and_whoever_resumed_it_is_told(w: World) -> None:
    bad = w.job("bad")
    with poisoned(lambda job_id: job_id == bad, POINTS[8], HARMS["raise"]):
        w.tick()
        w.ask(IntentKind.RESUME, bad)
        w.tick()
        w.expect(bad, JobState.HELD)
        (refused,) = w.events(EventKind.REQUEST_REFUSED)
        assert refused.detail.startswith("the scheduler fails at it: Poison: ")
    w.ask(IntentKind.RESUME, bad)
    w.advance(5.0)
    w.expect(bad, JobState.RUNNING)


def test_one_that_is_to_go_on_in_the_tick_that_holds_it_stays_held(w: World) -> None:
    bad, worse = w.job("bad"), w.job("worse")
    with poisoned({bad, worse}.__contains__, POINTS[8], HARMS["raise"]):
        w.ask(IntentKind.RESUME, worse)
        w.tick()
        w.ask(IntentKind.RESUME, bad)
        w.ask(IntentKind.RESUME, worse)
        w.ask_cancel(worse)
        w.tick()
        w.expect(bad, JobState.HELD)
        w.expect(worse, JobState.CANCELLED)


def test_many_at_once_are_all_found_and_no_innocent_is_held(w: World) -> None:
    jobs = [w.job(f"j{n}", workers=1) for n in range(40)]
    bad = set(jobs[3::7])
    with poisoned(bad.__contains__, POINTS[8], HARMS["raise"]):
        w.tick()
        w.advance(5.0)
        assert {job_id for job_id in jobs if w.get(job_id).state is JobState.HELD} == bad


@pytest.mark.parametrize(("harm", "cause"), [("hang", Cause.TICK_HUNG), ("kill", Cause.TICK_DIED)])
def test_what_hung_or_killed_the_last_leader_is_held_by_the_next(w: World, harm: str, cause: Cause) -> None:
    w.tick()
    bad, good = w.job("bad"), w.job("good")
    with poisoned(lambda job_id: job_id == bad, POINTS[8], HARMS[harm]):
        w.kill_engine()
        w.tick()
        w.expect(bad, JobState.HELD)
        (event,) = w.events(EventKind.JOB_HELD)
        assert event.cause == cause
        w.advance(5.0)
        w.expect(good, JobState.RUNNING)


def test_a_failure_of_nobodys_doing_is_raised_as_ever(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    w.job("j")

    def fail(planner: Planner, world: object, now: float) -> None:
        raise Poison("always")

    monkeypatch.setattr(Planner, "plan", fail)
    with pytest.raises(Undecidable, match="Poison: always"):
        w.tick()
    assert not w.events(EventKind.JOB_HELD)


def test_a_job_that_no_world_can_be_built_with_is_held_at_the_load(w: World) -> None:
    bad, good = w.job("bad"), w.job("good")
    w.settle()
    (post,) = (point for point in POINTS if point[1] == "post")
    with poisoned(lambda job_id: job_id == bad, post, HARMS["raise"]):
        w.engine.forget()
        w.tick()
    w.expect(bad, JobState.HELD)
    w.expect(good, JobState.RUNNING)
    assert {start.job_id for _, start in w.cluster.alive()} == {bad, good}


def test_a_node_with_impossible_facts_is_held_and_comes_back(w: World) -> None:
    w.node("b", slots=2, cpus=float("nan"), memory_mib=10)
    job = w.job("j", workers=2, cpus=1.0)
    w.node("c", slots=2, cpus=4.0, memory_mib=10)
    w.advance(5.0)
    w.expect(job, JobState.RUNNING)
    nodes = {node.name: node for node in w.store.list_nodes()}
    assert nodes[NodeName("b")].intent is NodeIntent.HELD
    w.node("b", slots=2, cpus=4.0, memory_mib=10)
    w.ask(IntentKind.UNCORDON, node="b")
    w.advance(5.0)
    nodes = {node.name: node for node in w.store.list_nodes()}
    assert (nodes[NodeName("b")].intent, nodes[NodeName("b")].cpus) == (NodeIntent.ACTIVE, 4.0)


def test_numbers_at_the_edges_of_what_is_taken_harm_nobody(w: World) -> None:
    low, high = bounds.SPEED.low, bounds.SPEED.high
    specs: list[dict[str, Any]] = [
        {"speedup": ((100, low), (200, 1.0)), "workers": (1, 300)},
        {"speedup": ((1, high), (2, low)), "workers": (1, 4)},
        {"speedup": ((1, low), (2, high)), "workers": (1, 4)},
        {"cpus": bounds.CPUS.low},
        {"cpus": bounds.CPUS.high},
        {"expected_seconds": bounds.DURATION.low},
        {"expected_seconds": bounds.DURATION.high},
        {"time_limit_seconds": bounds.DURATION.high},
        {"grace_seconds": bounds.GRACE.high},
    ]
    w.node("b", slots=8)
    for n, spec in enumerate(specs):
        w.job(f"edge-{n}", **{"workers": 1, **spec})
    good = [w.job(f"good-{n}") for n in range(2)]
    w.advance(10.0)
    assert not [job_id for job_id in w.submitted if w.get(job_id).state is JobState.HELD]
    for job_id in good:
        w.expect(job_id, JobState.RUNNING)


@pytest.mark.parametrize("what", ["others come", "a slot goes"])
def test_a_worker_is_not_replaced_on_what_a_job_held_in_the_same_tick_still_has(w: World, what: str) -> None:
    bad, good = w.job("bad", workers=4), w.job("good", workers=(1, 4))
    w.settle()
    w.cluster.crash(w.get(good).workers[0].id)
    if what == "others come":
        w.cluster.foreign.come(Demand("web", WorkerShape(1)), heard=False)
        w.cluster.let_foreign_run()
        assert w.cluster.foreign.node_of("web") is not None
    else:
        w.cluster.add_node(replace(w.cluster.facts(NodeName("a")), slots=7))
    with poisoned(lambda job_id: job_id == bad, POINTS[0], HARMS["raise"]):
        w.engine.forget()
        w.advance(8.0)
    w.expect(bad, JobState.HELD)
    assert [event.job_id for event in w.events(EventKind.WORKER_ENDED)] == [good]
    assert not w.events(EventKind.WORKER_REPLACED)


def test_nobody_waits_for_the_slots_of_a_job_that_is_held_as_if_they_were_being_freed(w: World) -> None:
    w.node("b", slots=8)
    low = w.job("low", workers=(1, 8))
    w.settle()
    on_other = ({"a", "b"} - {str(worker.node) for worker in w.get(low).workers}).pop()
    bad = w.job("bad", workers=8)
    w.settle()
    assert {str(worker.node) for worker in w.get(bad).workers} == {on_other}
    with poisoned(lambda job_id: job_id == bad, POINTS[0], HARMS["raise"]):
        w.engine.forget()
        w.tick()
        w.expect(bad, JobState.HELD)
        more = w.job("more", workers=4, priority=9)
        w.advance(20.0)
        w.expect(more, JobState.RUNNING)
        assert {str(worker.node) for worker in w.get(more).workers} == {str(w.get(low).workers[0].node)}


def test_slots_of_a_held_job_that_is_cancelled_are_waited_for_and_not_taken_from_others(w: World) -> None:
    bad = w.job("bad", workers=8)
    w.settle()
    w.node("b", slots=4)
    low = w.job("low", workers=4)
    w.settle()
    with poisoned(lambda job_id: job_id == bad, POINTS[0], HARMS["raise"]):
        w.engine.forget()
        w.tick()
        w.expect(bad, JobState.HELD)
        w.ask_cancel(bad)
        more = w.job("more", workers=4, priority=9)
        w.advance(60.0)
        w.expect(bad, JobState.CANCELLED)
        w.expect(more, JobState.RUNNING)
        assert w.expect(low, JobState.RUNNING).attempt == 1


def test_workers_that_a_held_job_has_lost_are_fenced_and_hold_their_slots_until_they_are_gone(w: World) -> None:
    w.node("b", slots=8)
    bad = w.job("bad", workers=8)
    w.settle()
    lost = w.get(bad).workers[0].node
    w.cluster.lose_node(lost)
    w.advance(30.0)
    assert lost not in {worker.node for worker in w.get(bad).workers}
    with poisoned(lambda job_id: job_id == bad, POINTS[0], HARMS["raise"]):
        w.engine.forget()
        w.tick()
        w.expect(bad, JobState.HELD)
        w.cluster.return_node(lost, rebooted=False)
        w.tick()
    other = w.job("other", workers=8)
    w.ask(IntentKind.RESUME, bad)
    w.advance(60.0)
    assert {str(worker.node) for worker in w.expect(other, JobState.RUNNING).workers} == {str(lost)}
    w.expect(bad, JobState.RUNNING, workers=8)


def test_a_job_whose_booking_ends_while_it_is_held_is_stopped_once_it_is_released(w: World) -> None:
    w.book("b", slots=8, start=10.0, duration=600.0)
    bad = w.job("bad", workers=8, booking="b", preemptible=False)
    w.advance(60.0)
    with poisoned(lambda job_id: job_id == bad, POINTS[0], HARMS["raise"]):
        w.engine.forget()
        w.advance(700.0)
        w.expect(bad, JobState.HELD)
    w.ask(IntentKind.RESUME, bad)
    other = w.job("other", workers=8, priority=9)
    w.advance(60.0)
    w.expect(other, JobState.RUNNING)
    (stopping,) = w.events(EventKind.JOB_STOPPING)
    assert (stopping.job_id, stopping.cause, stopping.detail) == (bad, "BOOKING_ENDED", "booking b has ended")


def test_a_port_of_a_job_that_is_held_is_given_to_no_other(tmp_path: Path) -> None:
    settings = Settings.model_validate({"state_dir": tmp_path, "engine": {"master_port_count": 1}})
    w = World(tmp_path, settings=settings, careful=True)
    w.node("a", slots=4)
    bad = w.job("bad", workers=2, runtime=Runtime.COMMAND)
    w.advance(5.0)
    with poisoned(lambda job_id: job_id == bad, POINTS[0], HARMS["raise"]):
        w.engine.forget()
        w.tick()
        good = w.job("good", workers=1, runtime=Runtime.COMMAND)
        w.advance(5.0)
        assert w.expect(bad, JobState.HELD).master_port == settings.engine.master_port_first
        assert w.expect(good, JobState.RUNNING).master_port == 0
    w.close()


def test_a_worker_of_a_released_job_is_not_replaced_on_a_slot_that_another_job_was_given(w: World) -> None:
    bad = w.job("bad", workers=(1, 8))
    w.advance(20.0)
    w.cluster.repeat_forgotten = True
    with poisoned(lambda job_id: job_id == bad, POINTS[0], HARMS["raise"]):
        w.engine.forget()
        w.tick()
        w.expect(bad, JobState.HELD)
        w.cluster.crash(w.get(bad).workers[1].id, 1)
        other = w.job("other", workers=1)
        w.advance(6.0)
        w.expect(other, JobState.RUNNING, workers=1)
    w.ask(IntentKind.RESUME, bad)
    w.advance(20.0)
    slots = [slot for job_id in (bad, other) for worker in w.get(job_id).workers for slot in worker.slot_ids]
    assert sorted(slots) == list(range(8))
