"""Levels of the world by node and by job: what slots are used for, how busy they are, and what is spent of them."""

from dataclasses import replace

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.tick import TickReport
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.observation import SlotLoad
from tests.metrics.observed import Observed, samples


def test_shared_slots_are_counted_apart_and_their_owners_slots_once(w: Observed) -> None:
    w.node("a", slots=2, oversell=2.0)
    w.job("owner", workers=2, priority=5)
    w.settle()
    busy = Behaviour(runtime=Runtime.ELASTIC, load=SlotLoad(memory=0.5))
    w.job("sharer", workers=1, oversell=True, behaviour=busy)
    w.settle()
    assert w.value("sched_slots", node="a", state="used") == w.value("sched_slots", node="a") == 2
    assert w.value("sched_oversold_slots", node="a", state="used") == 1
    assert w.value("sched_oversold_slots", node="a", state="free") == 1
    assert w.value("sched_utilization_ratio") == 1
    assert w.value("sched_crowded_slots") == 0
    w.job("too much", workers=1, oversell=True, behaviour=replace(busy, load=SlotLoad(memory=0.95)))
    w.settle()
    assert w.value("sched_crowded_slots", node="a") == 1
    assert w.value("sched_job_requeues_total", cause="OVERSOLD") == 1


def test_levels_are_those_of_the_world(w: Observed) -> None:
    w.node("a", slots=4)
    w.job("running", priority=12, workers=3)
    w.job("waiting", priority=-1, workers=2)
    w.advance(5)
    assert w.value("sched_slots", node="a", state="used") == 3
    assert w.value("sched_slots", node="a", state="free") + w.value("sched_slots", node="a", state="reserved") == 1
    assert w.value("sched_slots") == 4
    assert w.value("sched_utilization_ratio") == 0.75
    assert w.value("sched_jobs", state="RUNNING", priority_class="10") == 1
    assert w.value("sched_jobs", state="QUEUED", priority_class="below") == 1
    assert w.value("sched_waiting_jobs") == 1
    assert w.value("sched_workers", state="READY") == 3
    assert w.value("sched_oldest_wait_seconds") >= 4
    assert w.value("sched_nodes", health="UP", intent="ACTIVE") == 1
    assert w.value("sched_leading") == 1


def test_slots_of_a_cordoned_node_are_unavailable(w: Observed) -> None:
    name = w.node("a", slots=4)
    w.tick()
    w.ask(IntentKind.CORDON, node=name)
    w.tick()
    assert w.value("sched_slots", state="unavailable") == 4
    assert w.value("sched_slots", state="free") == 0


def test_physical_slots_are_in_one_state_each(w: Observed) -> None:
    w.node("a", slots=2, gpu_type="H200")
    w.node("b", slots=2, gpu_type="H200")
    w.job("low", priority=1, workers=(1, 8))
    w.advance(60)
    w.job("high", priority=9, workers=2)
    releasing = 0.0
    for _ in range(50):
        w.tick()
        assert w.value("sched_slots", node="a") == w.value("sched_slots", node="b") == 2
        releasing = max(releasing, w.value("sched_slots", state="releasing"))
        w.clock.advance(0.1)
    assert releasing == 2
    assert w.value("sched_slots", node="a", type="H200", state="used") == 2
    assert w.value("sched_held_slots", priority_class="0") == 4
    assert w.value("sched_elastic_slots", state="above_minimum") == 1
    assert w.value("sched_elastic_slots", state="missing") == 6


def test_free_slots_of_a_node_that_is_down_are_unhealthy(w: Observed) -> None:
    name = w.node("a", slots=4)
    w.tick()
    w.cluster.lose_node(name)
    w.advance(5)
    assert w.value("sched_slots", state="unhealthy") == w.value("sched_slots") == 4
    assert w.value("sched_node_changes_total", change="down") == 1


def test_slots_are_as_busy_as_was_read_of_them(w: Observed) -> None:
    w.node("a", slots=2, oversell=1.5)
    w.job("half", workers=1, behaviour=Behaviour(runtime=Runtime.ELASTIC, load=SlotLoad(utilization=0.5)))
    w.settle()
    assert w.value("sched_busy_slots", node="a") == 0.5
    assert w.value("sched_measured_slots", node="a") == 2


def test_slots_that_nothing_is_known_of_are_neither_busy_nor_idle(w: Observed) -> None:
    w.node("a", slots=2)
    w.job("job", workers=1)
    w.settle()
    assert not samples(w.metrics, "sched_busy_slots")
    assert not samples(w.metrics, "sched_measured_slots")


def test_waiting_slots_are_what_queued_jobs_need_to_start(w: Observed) -> None:
    w.node("a", slots=1)
    w.job("wide", priority=10, workers=(3, 8), slots_per_worker=2)
    w.advance(5)
    assert w.value("sched_waiting_slots", reason="EXCEEDS_CLUSTER", priority_class="10") == 6
    assert w.value("sched_waiting_slots") == 6
    assert w.value("sched_oldest_wait_seconds") == 0, "no slots that come free would start it"


def test_slot_seconds_are_those_that_workers_held(w: Observed) -> None:
    w.node("a", slots=4)
    w.job("low", priority=1, workers=(1, 4))
    held = 0.0
    before = w.clock.now()
    w.tick()
    for number in range(200):
        if number == 50:
            w.job("high", priority=9, workers=2)
        held += w.value("sched_held_slots") * 0.1
        w.clock.advance(0.1)
        w.tick()
    assert w.value("sched_slot_seconds_total") == pytest.approx(held)
    assert held == pytest.approx(4 * (w.clock.now() - before))
    assert w.value("sched_slot_seconds_total", spent="working") > 0.8 * held
    assert w.value("sched_slot_seconds_total", spent="leaving") > 0
    assert w.value("sched_slot_seconds_total", spent="starting", priority_class="0") > 0


def test_slot_seconds_go_on_after_another_daemon_has_led(w: Observed) -> None:
    w.node("a", slots=4)
    w.job("job", workers=4)
    w.settle()
    before = w.value("sched_slot_seconds_total")
    w.metrics.observe(TickReport(at=w.clock.now(), followed=7))
    w.clock.advance(1000)
    w.tick()
    w.clock.advance(1)
    w.tick()
    assert w.value("sched_slot_seconds_total") == pytest.approx(before + 4)
