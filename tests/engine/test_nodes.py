"""Nodes that change under running jobs."""

from collections import Counter
from pathlib import Path

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.ids import NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from tests.world import World


@pytest.fixture
def w(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.node("a", slots=4, cpus=8.0, memory_mib=800)
    return world


def amounts(w: World) -> tuple[int, float, int]:
    assert w.engine.world is not None
    node = w.engine.world.nodes[NodeName("a")]
    return node.slots, node.cpus, node.memory_mib


def test_what_is_held_exists_until_it_is_given_back(w: World) -> None:
    job = w.job("train", workers=(4, 4), cpus=2.0, memory_mib=200)
    w.settle()
    w.node("a", slots=2, cpus=3.0, memory_mib=100)
    w.settle()
    w.expect(job, JobState.RUNNING, workers=4)
    assert amounts(w) == (4, 8.0, 800)
    w.ask_cancel(job)
    w.settle()
    assert amounts(w) == (2, 3.0, 100)


def test_a_node_that_lost_memory_takes_who_needs_none(w: World) -> None:
    large = w.job("large", workers=1, memory_mib=800)
    w.settle()
    w.node("a", slots=4, cpus=8.0, memory_mib=100)
    small = w.job("small", workers=1)
    w.settle()
    w.expect(large, JobState.RUNNING, workers=1)
    w.expect(small, JobState.RUNNING, workers=1)


def test_a_job_grows_on_although_one_of_its_nodes_has_come_to_be_of_another_type(w: World) -> None:
    w.node("b", slots=4)
    job = w.job("train", workers=(6, 6))
    w.settle()
    assert {worker.node for worker in w.get(job).workers} == {"a", "b"}
    w.node("b", slots=4, gpu_type="h100")
    w.node("c", slots=4)
    w.ask(IntentKind.SCALE, job, max_workers=7)
    w.settle()
    w.expect(job, JobState.RUNNING, workers=7)


def test_free_slots_below_one_that_is_held_and_gone_are_not_given_out(w: World) -> None:
    first = w.job("first", workers=3)
    last = w.job("last", workers=1)
    w.settle()
    w.ask_cancel(first)
    w.settle()
    w.node("a", slots=2)
    late = w.job("late", workers=(1, 4))
    w.settle()
    w.expect(last, JobState.RUNNING, workers=1)
    w.expect(late, JobState.RUNNING, workers=1)


def test_memory_that_is_gone_is_not_given_out_when_its_holder_ends(w: World) -> None:
    w.job("first", workers=1, memory_mib=800, behaviour=Behaviour(work_seconds=5.0), runtime=Runtime.COMMAND)
    w.advance(1.0)
    w.node("a", slots=4, cpus=8.0, memory_mib=100)
    late = w.job("late", workers=1, memory_mib=800)
    w.settle()
    w.expect(late, JobState.QUEUED, workers=0)


def test_a_job_whose_nodes_are_of_two_types_by_now_grows_on_those_of_the_first_only(w: World) -> None:
    w.node("b", slots=4)
    job = w.job("train", workers=(5, 5))
    w.settle()
    assert [worker.node for worker in w.get(job).workers] == ["a"] * 4 + ["b"]
    w.node("b", slots=4, gpu_type="h100")
    w.node("c", slots=1)
    w.ask(IntentKind.SCALE, job, max_workers=8)
    w.settle()
    assert Counter(worker.node for worker in w.get(job).workers) == {"a": 4, "b": 1, "c": 1}


def test_a_node_that_goes_down_and_shrinks_at_once_has_lost_what_it_had(w: World) -> None:
    w.tick()
    w.node("a", slots=0, up=False)
    w.tick()
    (down,) = w.events(EventKind.NODE_DOWN)
    assert (down.amount, down.detail) == (4.0, "4 slots")
