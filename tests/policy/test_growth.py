"""Which jobs grow, by how much and when: each rule on the smallest world that shows it."""

from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.job_state import JobState
from scheduler.model.plan import Grow, Shrink, Start
from tests.policy.worlds import NOW, Cluster


def test_growth_goes_by_priority_and_evenly_among_equals() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 1}, workers=(1, 3)).running(2, {"a": 1}, workers=(1, 9))
    c.running(3, {"a": 1}, workers=(1, 2), priority=5)
    assert c.actions() == [Grow(1, (("a", 2),)), Grow(2, (("a", 2),)), Grow(3, (("a", 1),))]
    c = Cluster().node("a", 8).running(1, {"a": 3}, workers=(1, 9)).running(2, {"a": 1}, workers=(1, 9))
    assert c.actions() == [Grow(1, (("a", 1),)), Grow(2, (("a", 3),))]


def test_a_starting_job_gets_its_growth_in_the_same_start_and_waiting_minimums_come_first() -> None:
    c = Cluster().node("a", 8).waiting(1, workers=(1, 8)).waiting(2, workers=(2, 2))
    assert c.actions() == [Start(1, (("a", 6),)), Start(2, (("a", 2),))]


def test_a_starting_job_is_placed_whole_once_its_size_is_known() -> None:
    c = Cluster().node("a", 2).node("b", 4).waiting(1, workers=(1, 4))
    assert c.actions() == [Start(1, (("b", 4),))]


def test_growth_prefers_own_nodes_and_keeps_the_gpu_type() -> None:
    c = Cluster().node("a", 2, gpu_type="x").node("b", 3, gpu_type="x").node("c", 9, gpu_type="y")
    c.running(1, {"b": 1}, workers=(1, 9))
    assert c.actions() == [Grow(1, (("a", 2), ("b", 2)))]
    c.running(1, {"b": 1}, workers=(1, 2))
    assert c.actions() == [Grow(1, (("b", 1),))]


def test_the_job_that_gains_most_per_slot_grows_first() -> None:
    c = Cluster().node("a", 6).running(1, {"a": 2}, workers=(1, 4), throughput=((1, 10.0), (2, 11.0)))
    c.running(2, {"a": 2}, workers=(1, 4), throughput=((1, 10.0), (2, 19.8)))
    assert c.actions() == [Grow(2, (("a", 2),))]


@pytest.mark.parametrize(
    ("fields", "grows", "look_at"),
    [
        ({"last_resize_at": NOW - 1}, False, NOW + 1),
        ({"last_resize_at": NOW - 2}, True, None),
        ({"last_resize_at": NOW - 5, "resize_seconds": 5.0}, False, NOW + 5),
        ({"last_resize_at": NOW - 10, "resize_seconds": 5.0}, True, None),
        ({"time_limit_seconds": 1004.0}, False, None),
        ({"time_limit_seconds": 1005.0}, True, None),
        ({"state": JobState.RESIZING}, False, None),
        ({"state": JobState.STARTING}, False, None),
        ({"finishing": True}, False, None),
        ({"standby": 1}, True, None),  # a newcomer still starts: the next one joins with it
        ({"leaving": 1}, False, None),
    ],
)
def test_growth_waits_for_cool_down_settling_and_not_near_the_end(fields: Any, grows: bool, look_at: Any) -> None:
    c = Cluster().node("a", 4).running(1, {"a": 2}, workers=(1, 3), expected_seconds=1e6, **fields)
    made = c.plan()
    assert made.actions == ((Grow(1, (("a", 1),)),) if grows else ())
    assert made.next_look_at == look_at


def test_a_cool_down_without_room_to_grow_needs_no_look() -> None:
    c = Cluster().node("a", 2).running(1, {"a": 2}, workers=(1, 3), last_resize_at=NOW - 1)
    assert c.plan().next_look_at is None


@pytest.mark.parametrize(
    ("fields", "grows"),
    [
        ({"priority": -1}, True),
        ({"priority": -1, "preemptible": False}, False),
        ({}, True),  # it gives that back
        ({"preemptible": False}, False),
        ({"priority": 1}, True),
        ({"time_limit_seconds": 1e5}, True),
    ],
)
def test_growth_does_not_delay_a_blocked_job_that_it_may_not_delay(fields: dict[str, Any], grows: bool) -> None:
    c = Cluster().node("a", 8).running(1, {"a": 4}, workers=(4, 4), preemptible=False)
    c.running(2, {"a": 1}, workers=(1, 2), **fields).waiting(3, workers=(8, 8))
    assert c.actions() == ([Grow(2, (("a", 1),))] if grows else [])


@pytest.mark.parametrize(
    ("limit", "settings", "grows"), [(None, {}, True), (2000.0, {}, False), (None, {"share": False}, False)]
)
def test_equals_grow_into_what_is_promised_if_they_share_and_no_time_limit_tells_when_it_is_due(
    limit: float | None, settings: dict[str, Any], grows: bool
) -> None:
    c = Cluster(PolicySettings(**settings)).node("a", 8)
    c.running(1, {"a": 4}, workers=(4, 4), preemptible=False, time_limit_seconds=limit)
    c.running(2, {"a": 1}, workers=(1, 4)).waiting(3, workers=(7, 7))
    assert c.actions() == ([Grow(2, (("a", 3),))] if grows else [])


def test_an_equal_gives_back_what_it_grew_by_once_the_blocked_job_can_start() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 4}, workers=(4, 4), preemptible=False)
    c.running(2, {"a": 1}, workers=(1, 4)).waiting(3, workers=(7, 7))
    c.step()
    assert c.size(2) == 4
    c.finish(1)
    assert [action.for_job for action in c.step(1000.0).actions if isinstance(action, Shrink)] == [3]
    assert c.step(1.0).actions == (Start(3, (("a", 7),)),)


def test_a_job_shrunk_for_another_does_not_grow_back_into_its_reservation() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(1, 4)).waiting(2, priority=5, workers=(3, 3))
    c.step()
    assert c.size(1) == 1
    c.now += 1000
    assert c.actions() == [Start(2, (("a", 3),))]
    assert c.settle() >= 1
    assert c.size(1) == 1
