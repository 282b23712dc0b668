"""Order, placement, bounds and draining: each rule of the planner on the smallest world that shows it."""

import math
from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Grow, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.worker import LeaveReason
from scheduler.policy.snapshot.order import Order, aged
from tests.policy.expected import VICTIMS, shrink
from tests.policy.worlds import CORDONED, DOWN, DRAINING, NOW, QUARANTINED, Cluster

# Order


@pytest.mark.parametrize(
    ("priority", "hours", "per_hour", "ceilings", "expected"),
    [
        (3, 100, 0.0, (), 3),
        (3, 2, 1.5, (), 6.0),
        (3, 2, 1.5, (10,), 6.0),
        (3, 9, 1.5, (10,), math.nextafter(10, 0)),
        (10, 2, 1.5, (10,), 13.0),
        (12, 9, 1.5, (10, 20), math.nextafter(20, 0)),
        (3, -1, 1.5, (), 3.0),
    ],
)
def test_waiting_raises_priority_and_never_reaches_a_ceiling(
    priority: int, hours: float, per_hour: float, ceilings: tuple[int, ...], expected: float
) -> None:
    settings = PolicySettings(aging_per_hour=per_hour, aging_ceilings=ceilings)
    assert aged(priority, hours * 3600, settings) == expected


def test_queue_order_is_priority_then_age_then_id() -> None:
    c = Cluster()
    c.waiting(1, priority=1).waiting(2, priority=5, submitted_at=20.0).waiting(3, priority=5, submitted_at=10.0)
    c.waiting(4, priority=5, submitted_at=10.0)
    assert [job.id for job in Order(NOW, c.settings).queue(c.jobs.values())] == [3, 4, 2, 1]


def test_aging_keeps_what_a_running_job_had_and_preempts_only_across_base_priorities() -> None:
    c = Cluster(PolicySettings(aging_per_hour=1.0)).node("a", 3)
    c.running(1, {"a": 1}, priority=2, waited_seconds=4 * 3600.0)
    c.waiting(2, priority=2, queued_at=NOW - 9 * 3600).waiting(3, priority=5, queued_at=NOW)
    c.waiting(4, priority=7, queued_at=NOW)
    order = Order(NOW, c.settings)
    one, two, three, four = (c.jobs[k] for k in (1, 2, 3, 4))  # type: ignore[index]
    assert [order.effective(job) for job in (one, two, three, four)] == [6, 11, 5, 7]
    assert not order.more_important(two, one), "an equal base priority never preempts"
    assert not order.more_important(three, one), "what it had waited protects a running job"
    assert order.more_important(four, one)


# Starting and placement


def test_a_gang_starts_whole_or_not_at_all() -> None:
    c = Cluster().node("a", 3).waiting(1, workers=(4, 4), priority=9).node("b", 4, intent=CORDONED)
    assert c.actions() == []
    assert c.plan().waiting[1].reason is WaitReason.NODES_UNAVAILABLE  # type: ignore[index]
    c = Cluster().node("a", 4).waiting(1, workers=(4, 4))
    assert c.actions() == [Start(1, (("a", 4),))]


@pytest.mark.parametrize(
    ("free", "workers", "expected"),
    [
        ({"a": 8, "b": 4, "c": 3}, 4, (("b", 4),)),
        ({"a": 8, "b": 4, "c": 4}, 4, (("b", 4),)),
        ({"a": 4, "b": 8, "c": 2}, 10, (("b", 8), ("c", 2))),
        ({"a": 4, "b": 8, "c": 3}, 10, (("b", 8), ("c", 2))),
        ({"a": 4, "b": 4, "c": 4}, 6, (("a", 4), ("b", 2))),
    ],
)
def test_fewest_nodes_then_the_tightest_then_the_first_by_name(free: Any, workers: int, expected: Any) -> None:
    c = Cluster()
    for name, slots in free.items():
        c.node(name, slots)
    assert c.waiting(1, workers=(workers, workers)).actions() == [Start(1, expected)]


def test_one_gpu_type_per_job_and_a_better_fitting_type_wins() -> None:
    c = Cluster().node("a", 3, gpu_type="x").node("b", 3, gpu_type="y").node("c", 2, gpu_type="y")
    assert c.waiting(1, workers=(4, 6)).actions() == [Start(1, (("b", 3), ("c", 2)))]
    c = Cluster().node("a", 3, gpu_type="x").node("b", 2, gpu_type="y").waiting(1, workers=(2, 2))
    assert c.actions() == [Start(1, (("b", 2),))]


def test_selector_gpu_type_cpus_and_memory_are_respected() -> None:
    c = Cluster().node("a", 8, labels={"zone": "x"}, gpu_type="h").node("b", 8, labels={"zone": "y"}, gpu_type="h")
    c.node("c", 8, labels={"zone": "y"}, cpus=4, memory_mib=5, gpu_type="g")
    c.waiting(1, selector={"zone": "x"}).waiting(2, gpu_type="g", cpus=1.0, memory_mib=2, workers=(2, 8))
    assert c.actions() == [Start(1, (("a", 1),)), Start(2, (("c", 2),))]


@pytest.mark.parametrize(
    ("strays", "free", "coming"),
    [([[0]], 2, 0), ([[1]], 1, 1), ([[0, 1]], 1, 1), ([[1], [1]], 1, 1), ([[1, 2], [0, 2]], 0, 2)],
)
def test_a_stray_frees_no_slot_that_somebody_else_holds(strays: list[list[int]], free: int, coming: int) -> None:
    """A cluster that is seen late lists an ended worker once more, whose slots others have by now."""
    for wanted in (1, 2, 3):
        c = Cluster().node("a", 3).running(1, {"a": 1}, preemptible=False).waiting(2, workers=(wanted, wanted))
        for number, slots in enumerate(strays, 8):
            c.stray(number, "a", slots)
        expected = [Start(2, (("a", wanted),))] if wanted <= free else [Reserve(2, (("a", wanted),))]
        assert c.actions() == (expected if wanted <= free + coming else [])


def test_strays_and_leaving_workers_keep_their_slots() -> None:
    c = Cluster().node("a", 2).stray(9, "a", [0]).running(1, {"a": 1}, state=JobState.STOPPING).waiting(2)
    assert c.actions() == [Reserve(2, (("a", 1),))]
    assert c.plan().waiting[JobId(2)] == VICTIMS
    c = Cluster().node("a", 1).stray(9, "a", [0]).waiting(2)
    assert c.actions() == [Reserve(2, (("a", 1),))]
    assert c.plan().waiting[JobId(2)] == VICTIMS


def test_a_gang_too_large_for_any_single_gpu_type_exceeds_the_cluster() -> None:
    c = Cluster().node("a", 4, gpu_type="x").node("b", 4, gpu_type="y", health=DOWN).waiting(1, workers=(5, 5))
    assert c.plan().waiting[1].reason is WaitReason.EXCEEDS_CLUSTER  # type: ignore[index]
    c.waiting(1, workers=(4, 4), gpu_type="y")
    assert c.plan().waiting[1].reason is WaitReason.NODES_UNAVAILABLE  # type: ignore[index]


def test_quarantined_cordoned_and_lost_nodes_take_no_workers() -> None:
    c = Cluster().node("a", 4, intent=QUARANTINED).node("b", 4, intent=CORDONED).node("c", 4, health=DOWN).node("d", 1)
    assert c.waiting(1, workers=(1, 8)).actions() == [Start(1, (("d", 1),))]


# Bounds


def test_a_job_over_its_maximum_shrinks_by_its_youngest() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(1, 2))
    made = c.plan(outside_bounds=True)
    assert made.actions == (shrink(1, 4, 3, by=None, reason=LeaveReason.SCALED),)


def test_a_job_over_its_maximum_gives_up_workers_on_draining_nodes_first() -> None:
    c = Cluster().node("a", 2, intent=DRAINING).node("b", 2).running(1, {"a": 1, "b": 2}, workers=(2, 2))
    assert c.plan(outside_bounds=True).actions == (shrink(1, 1, by=None, reason=LeaveReason.SCALED),)


@pytest.mark.parametrize(
    ("fields", "slots", "expected"),
    [
        ({"workers": (3, 4)}, 4, Grow(1, (("a", 2),))),
        ({"workers": (3, 4)}, 2, StopJob(1, StopReason.BELOW_MINIMUM)),
        ({"workers": (3, 3)}, 4, StopJob(1, StopReason.BELOW_MINIMUM)),
        ({"workers": (3, 3), "runtime": Runtime.ELASTIC}, 4, Grow(1, (("a", 2),))),
        ({"workers": (3, 4), "finishing": True}, 4, None),
    ],
)
def test_a_job_below_its_minimum_is_topped_up_or_stopped(fields: dict[str, Any], slots: int, expected: Any) -> None:
    c = Cluster().node("a", slots).running(1, {"a": 1}, **fields)
    assert c.plan(outside_bounds=True).actions == ((expected,) if expected else ())


def test_a_job_without_any_worker_left_is_placed_anew_or_stopped() -> None:
    c = Cluster().node("a", 4).running(1, {}, workers=(2, 4))
    assert c.plan(outside_bounds=True).actions == (Grow(1, (("a", 2),)),)


# Draining


def drained(*ordinals: int) -> Shrink:
    return shrink(1, *ordinals, by=None, reason=LeaveReason.DRAINED)


@pytest.mark.parametrize(
    ("on", "fields", "expected"),
    [
        ({"a": 2, "b": 2}, {"workers": (2, 4)}, (drained(1, 2),)),
        ({"a": 2}, {"workers": (2, 4)}, (Grow(1, (("b", 2),)),)),
        ({"a": 2}, {"workers": (2, 3)}, (Grow(1, (("b", 1),)),)),
        ({"a": 2}, {"workers": (1, 2)}, (drained(2),)),
        ({"a": 2}, {"workers": (2, 2)}, (StopJob(1, StopReason.DRAINED),)),
        ({"a": 2}, {"workers": (2, 4), "state": JobState.STARTING}, (StopJob(1, StopReason.DRAINED),)),
        ({"a": 1, "b": 1}, {"workers": (1, 2), "state": JobState.STARTING}, (drained(1),)),
        ({"a": 2, "b": 2}, {"workers": (2, 4), "standby": 2}, ()),
        ({"a": 2, "b": 1}, {"workers": (2, 4), "standby": 1}, (Grow(1, (("b", 1),)),)),
        ({"a": 3}, {"workers": (2, 4), "leaving": 1}, ()),
        ({"a": 2, "b": 2}, {"workers": (1, 4), "finishing": True}, ()),
    ],
)
def test_draining_moves_workers_off_a_step_at_a_time(on: Any, fields: Any, expected: Any) -> None:
    c = Cluster().node("a", 4, intent=DRAINING).node("b", 4).running(1, on, **fields)
    assert c.plan().actions == expected


def test_a_drained_job_without_room_elsewhere_stops() -> None:
    c = Cluster().node("a", 4, intent=DRAINING).node("b", 1).running(1, {"a": 2}, workers=(2, 4))
    assert c.actions() == [StopJob(1, StopReason.DRAINED)]


@pytest.mark.parametrize("workers", [(2, 4), (2, 3), (1, 2), (3, 3)])
def test_a_drained_node_ends_up_empty(workers: tuple[int, int]) -> None:
    c = Cluster().node("a", 4, intent=DRAINING).node("b", 4).running(1, {"a": workers[0]}, workers=workers)
    c.settle()
    assert {w.node for w in c.jobs[1].workers} == {"b"}  # type: ignore[index]


def test_a_running_job_with_a_left_over_reservation_releases_it() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 1}, reservation=(("a", 1),))
    assert c.actions() == [Release(1)]
