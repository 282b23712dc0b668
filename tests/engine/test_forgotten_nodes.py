"""Nodes that the cluster has not listed for long are removed, unless something still names them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.config import RetentionSettings, Settings
from scheduler.engine.absorb.forgotten_nodes import forget_nodes
from scheduler.engine.board import Board
from scheduler.engine.changeset import Changeset
from scheduler.engine.leadership.follower import Follower
from scheduler.engine.tick import Engine
from scheduler.engine.timing.steady_clock import SteadyClock
from scheduler.model.event import EventKind
from scheduler.model.ids import NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.node import Node, NodeHealth, NodeIntent
from scheduler.model.unreadable import Unreadable
from scheduler.model.world import Changes
from scheduler.model.world import World as ModelWorld
from tests.faults.clocks import MachineClock
from tests.store import garbage
from tests.world import World

A, B = NodeName("a"), NodeName("b")
KEPT_SECONDS = 100.0


def world_of(directory: Path, kept_seconds: float = KEPT_SECONDS) -> World:
    retention = RetentionSettings(nodes_seconds=kept_seconds)
    world = World(directory, settings=Settings(state_dir=directory, retention=retention))
    world.node(A, slots=2)
    world.node(B, slots=2)
    return world


@pytest.fixture
def w(tmp_path: Path) -> Iterator[World]:
    world = world_of(tmp_path)
    world.settle(5)
    yield world
    world.close()


def stored(w: World) -> set[str]:
    return {node.name for node in w.store.list_nodes()}


def lose(w: World, name: NodeName) -> None:
    w.cluster.lose_node(name, listed=False)
    w.tick()


def test_a_node_that_is_gone_for_long_is_removed_with_an_event(w: World) -> None:
    lose(w, B)
    w.advance(KEPT_SECONDS - 1)
    assert stored(w) == {A, B}
    w.advance(3)
    assert stored(w) == {A}
    [event] = w.events(EventKind.NODE_FORGOTTEN)
    assert (event.node, event.cause) == (B, "TIME")
    assert event.detail == f"not listed by the cluster for {KEPT_SECONDS:.0f} s"
    w.settle()


def test_a_node_that_comes_back_in_time_stays_and_its_time_begins_anew(w: World) -> None:
    lose(w, B)
    w.advance(KEPT_SECONDS - 10)
    w.cluster.return_node(B, rebooted=True)
    w.advance(5)
    lose(w, B)
    w.advance(KEPT_SECONDS - 10)
    assert stored(w) == {A, B}
    w.advance(12)
    assert stored(w) == {A}


def test_a_node_that_comes_back_after_it_was_forgotten_is_used_again(w: World) -> None:
    lose(w, B)
    w.advance(KEPT_SECONDS + 3)
    w.cluster.return_node(B, rebooted=True)
    job = w.job("j", workers=4)
    w.settle()
    w.expect(job, JobState.RUNNING, workers=4)


def test_a_node_that_is_listed_as_down_is_never_forgotten(w: World) -> None:
    w.cluster.lose_node(B, listed=True)
    w.advance(3 * KEPT_SECONDS)
    assert stored(w) == {A, B}


def test_a_cordoned_node_is_remembered_for_its_return(w: World) -> None:
    w.ask(IntentKind.CORDON, node=B)
    lose(w, B)
    w.advance(3 * KEPT_SECONDS)
    assert {node.name: node.intent for node in w.store.list_nodes()}[B] is NodeIntent.CORDONED
    w.ask(IntentKind.UNCORDON, node=B)
    w.advance(3)
    assert stored(w) == {A}


def test_a_request_of_the_same_tick_goes_before(w: World) -> None:
    lose(w, B)
    w.clock.advance(KEPT_SECONDS)
    w.ask(IntentKind.CORDON, node=B)
    w.tick()
    assert stored(w) == {A, B}


def test_a_node_of_which_the_cluster_still_lists_a_worker_stays(w: World) -> None:
    job = w.job("j", workers=4)
    w.settle(5)
    w.cluster.lose_node(B, listed=False, remembered=True)
    w.advance(2 * KEPT_SECONDS)
    assert {worker.node for worker in w.get(job).all_workers} >= {B}
    assert stored(w) == {A, B}
    w.ask_cancel(job)
    w.cluster.return_node(B, rebooted=True)
    lose(w, B)
    w.advance(KEPT_SECONDS + 3)
    assert stored(w) == {A}


def test_a_node_stays_while_a_row_cannot_be_read_that_may_name_it(w: World) -> None:
    lose(w, B)
    w.clock.advance(KEPT_SECONDS)
    assert w.engine.world is not None
    w.engine.world = w.engine.world.with_unreadable([Unreadable("jobs", "9", "labels: not valid JSON")])
    w.engine.tick()
    assert stored(w) == {A, B}


@pytest.mark.parametrize("named_by", ["worker", "reservation", "fixed reservation", "held job", "nobody"])
def test_a_node_that_a_job_names_stays(w: World, named_by: str) -> None:
    job = w.job("j", workers=4)
    w.settle(5)
    running = w.get(job)
    queued = replace(running, state=JobState.QUEUED, workers=(), wait_reason=WaitReason.SUBMITTED)
    naming = {
        "worker": running,
        "reservation": replace(queued, reservation=((B, 1),)),
        "fixed reservation": replace(queued, fixed_reservation=((B, 1),)),
        "held job": replace(running, state=JobState.HELD, held_from=JobState.RUNNING),
        "nobody": queued,
    }
    gone = Node(B, "b", 2, health=NodeHealth.DOWN, unlisted_since=1.0, version=1)
    changeset = Changeset(ModelWorld.of([naming[named_by]], [Node(A, "a", 2, version=1), gone]), 2.0 + KEPT_SECONDS)
    forget_nodes(changeset, {A}, KEPT_SECONDS)
    assert changeset.changes().forgotten == ((gone,) if named_by == "nobody" else ())


def test_nodes_are_kept_for_ever_where_the_settings_say_so(tmp_path: Path) -> None:
    w = world_of(tmp_path, kept_seconds=0.0)
    w.settle(5)
    lose(w, B)
    w.clock.advance(1e6)
    w.advance(3)
    assert stored(w) == {A, B}
    w.close()


def test_a_job_that_only_a_forgotten_node_could_hold_says_that_there_is_none(w: World) -> None:
    job = w.job("j", workers=4)
    lose(w, B)
    w.advance(3)
    assert w.get(job).wait_reason is WaitReason.NODES_UNAVAILABLE
    w.advance(KEPT_SECONDS)
    assert w.get(job).wait_reason is WaitReason.EXCEEDS_CLUSTER


def test_a_standby_forgets_with_the_leader(w: World) -> None:
    follower = Follower(w.store, board := Board(), lambda: None)
    follower.follow(w.store.read_lease().revision, w.clock.now())
    lose(w, B)
    w.advance(KEPT_SECONDS + 3)
    follower.follow(w.store.read_lease().revision, w.clock.now())
    assert board.world is not None
    assert set(board.world.nodes) == {A}
    assert board.world == w.engine.world


def test_a_node_that_was_gone_before_the_upgrade_is_kept_as_long_from_then_on(w: World) -> None:
    lose(w, B)
    [node] = [node for node in w.store.list_nodes() if node.name == B]
    lease = w.engine.lease
    assert lease is not None
    w.store.commit(Changes(nodes=(replace(node, unlisted_since=None),)), lease, w.clock.now())
    w.clock.advance(KEPT_SECONDS - 5)
    w.engine.forget()
    w.advance(KEPT_SECONDS - 5)
    assert stored(w) == {A, B}
    w.advance(8)
    assert stored(w) == {A}
    assert [event.amount for event in w.events(EventKind.NODE_DOWN)] == [node.slots]


def test_what_is_stored_of_a_node_that_cannot_be_read_stays_while_it_is_gone(tmp_path: Path) -> None:
    w = world_of(tmp_path)
    w.settle(5)
    lose(w, B)
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        session.execute("UPDATE nodes SET labels = 'x' WHERE name = 'b'")
    w.engine.forget()
    for _ in range(5):
        w.clock.advance(KEPT_SECONDS)
        w.engine.tick()
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        assert session.execute("SELECT labels FROM nodes WHERE name = 'b'").fetchall() == [("x",)]
    w.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_was_set_removes_none_before_it_is_confirmed(w: World, restarted: bool) -> None:
    machine = MachineClock(w.clock)

    def engine() -> Engine:
        steady = SteadyClock(machine, w.store.read_lease().anchor)
        return Engine(w.store, w.cluster, steady, w.settings, w.launch, w.board, w.reports, "engine-1")

    w.engine = engine()
    lose(w, B)
    machine.jump(3600.0)
    w.engine = engine() if restarted else w.engine
    w.clock.advance(KEPT_SECONDS + 5)
    w.tick()
    assert w.engine.jump is not None
    assert stored(w) == {A, B}
    w.clock.advance(601.0)
    w.tick()
    w.tick()
    assert w.engine.jump is None
    assert stored(w) == {A}
