"""Published policies of fixed sizes, by hand."""

from typing import Any

import pytest

from scheduler.config import PolicyName, PolicySettings
from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import NodeName
from scheduler.model.job_state import StopReason, WaitReason
from scheduler.model.plan import Reserve, Shrink, Start, StopJob
from scheduler.model.slot import ClosedSlot, SlotClosure
from scheduler.model.worker import LeaveReason
from scheduler.policy.checks.plan import FIXED_SIZES
from scheduler.policy.published.profile import Profile
from scheduler.policy.published.rules import RULES
from tests.policy.worlds import NOW, Cluster


def cluster(name: PolicyName, **policy: Any) -> Cluster:
    return Cluster(PolicySettings(name=name, **policy))


def started(c: Cluster) -> list[int]:
    return [action.job_id for action in c.actions() if isinstance(action, Start)]


@pytest.mark.parametrize("name", sorted(RULES))
def test_waiting_adds_nothing_to_a_priority(name: PolicyName) -> None:
    c = cluster(name, aging_per_hour=600.0).node("a", 2)
    c.running(1, {"a": 2}, workers=(2, 2), priority=7, waited_seconds=3600.0)
    c.waiting(2, priority=8, queued_at=NOW, submitted_at=NOW)
    assert c.actions() == [StopJob(1, StopReason.PREEMPTED, 2), Reserve(2, (("a", 1),))]  # type: ignore[arg-type]


def test_published_policies_know_no_bookings() -> None:
    c = cluster("afs").node("a", 2).booked("b", 2, 0.0, 1000.0)
    c.running(1, {"a": 2}, workers=(2, 2), priority=7, booking="b").waiting(2, priority=8)
    assert c.actions() == [StopJob(1, StopReason.PREEMPTED, 2), Reserve(2, (("a", 1),))]  # type: ignore[arg-type]


def queue_of_three(name: PolicyName) -> Cluster:
    """8 slots, 4 held for 100 s more. Job 2 needs all; 3 needs 2 for 50 s, 4 needs 2 for 200 s."""
    c = cluster(name).node("a", 8)
    c.running(1, {"a": 4}, workers=(4, 4), expected_seconds=1100.0)
    c.waiting(2, workers=(8, 8), submitted_at=NOW - 30, expected_seconds=100.0)
    c.waiting(3, workers=(2, 2), submitted_at=NOW - 20, expected_seconds=50.0)
    return c.waiting(4, workers=(2, 2), submitted_at=NOW - 10, expected_seconds=200.0)


def test_fifo_starts_whoever_fits() -> None:
    assert started(queue_of_three("fifo")) == [3, 4]


@pytest.mark.parametrize("name", ["easy", "conservative"])
def test_backfill_lets_in_only_who_ends_before_the_promise_of_the_first(name: PolicyName) -> None:
    c = queue_of_three(name)
    c.step()
    assert (c.size(3), c.reason(2), c.reason(4)) == (2, WaitReason.INSUFFICIENT_SLOTS, WaitReason.BEHIND_RESERVATION)
    assert c.jobs[4].wait_for == 2  # type: ignore[index]


def two_promises(name: PolicyName) -> Cluster:
    """Job 1 holds 6 of 8 slots for 100 s more. Jobs 2 (6) and 3 (8) wait; job 4 (2) ends after 150 s."""
    c = cluster(name).node("a", 8)
    c.running(1, {"a": 6}, workers=(6, 6), expected_seconds=1100.0)
    c.waiting(2, workers=(6, 6), submitted_at=NOW - 30, expected_seconds=10.0)
    c.waiting(3, workers=(8, 8), submitted_at=NOW - 20, expected_seconds=100.0)
    return c.waiting(4, workers=(2, 2), submitted_at=NOW - 10, expected_seconds=150.0)


def test_easy_protects_only_the_first_and_conservative_the_second_too() -> None:
    assert started(two_promises("easy")) == [4]
    assert started(two_promises("conservative")) == []


def test_conservative_promises_nothing_to_a_job_that_the_nodes_cannot_hold() -> None:
    c = cluster("conservative").node("a", 2).node("b", 2)
    c.waiting(1, slots_per_worker=3, priority=1).waiting(2, workers=(2, 2))
    c.step()
    assert (c.reason(1), c.size(2)) == (WaitReason.EXCEEDS_CLUSTER, 2)


@pytest.mark.parametrize(
    ("workers", "slots", "held"),
    [
        pytest.param(6, 2, {"a": 1}, id="slots"),
        pytest.param(2, 3, {"a": 2, "b": 2, "c": 2}, id="parts of nodes"),
    ],
)
def test_conservative_promises_nothing_to_a_job_that_waits_for_others(
    workers: int, slots: int, held: dict[str, int]
) -> None:
    """What others hold, nobody knows for how long, keeps those behind from nothing."""
    c = cluster("conservative").node("a", 4).node("b", 4).node("c", 4)
    c.foreign = {NodeName(name): ForeignUse(count) for name, count in held.items()}
    c.waiting(1, workers=(workers, workers), slots_per_worker=slots, priority=1).waiting(2, workers=(2, 2))
    c.step()
    assert (c.size(1), c.reason(1), c.size(2)) == (0, WaitReason.INSUFFICIENT_SLOTS, 2)


def test_conservative_promises_a_small_job_the_slots_that_a_large_one_behind_it_has_no_use_for() -> None:
    c = cluster("conservative").node("a", 4).node("z", 1, gpu_type="l4")
    c.waiting(1, workers=(4, 4), gpu_type=None, priority=1).waiting(
        2, workers=(1, 1), priority=2, time_limit_seconds=20.0
    )
    c.step()
    assert (c.size(1), c.size(2)) == (4, 1)


def test_conservative_counts_no_node_as_having_less_than_nothing() -> None:
    closed = tuple(ClosedSlot(slot, SlotClosure.FOREIGN, "") for slot in range(4))
    c = cluster("conservative").node("a", 3).node("b", 4, closed_slots=closed).waiting(1, workers=(3, 3))
    c.foreign[NodeName("b")] = ForeignUse(slots=2)
    c.running(2, {"b": 2}, workers=(2, 2), priority=1)
    c.step()
    assert c.size(1) == 3


def test_tiresias_serves_the_first_queue_first_and_stops_the_second() -> None:
    c = cluster("tiresias", tiresias_slot_seconds=4000.0).node("a", 8)
    c.running(1, {"a": 4}, workers=(4, 4), served_slot_seconds=0.0)  # 4 slots for 1000 s: it has just fallen
    c.running(2, {"a": 3}, workers=(3, 3))
    c.waiting(3, workers=(5, 5), served_slot_seconds=9000.0, submitted_at=NOW - 2000)
    c.waiting(4, workers=(2, 2))
    assert c.actions() == [StopJob(1, StopReason.REBALANCED, 4), Reserve(4, (("a", 2),))]  # type: ignore[arg-type]


def test_shortest_stops_the_longest_and_no_more_than_it_needs() -> None:
    c = cluster("shortest").node("a", 8)
    c.running(1, {"a": 4}, workers=(4, 4), expected_seconds=1500.0)
    c.running(2, {"a": 4}, workers=(4, 4), expected_seconds=9000.0)
    c.waiting(3, workers=(2, 2), expected_seconds=400.0)
    c.waiting(4, workers=(2, 2), expected_seconds=600.0)
    assert c.actions() == [
        StopJob(2, StopReason.REBALANCED, 3),  # type: ignore[arg-type]
        Reserve(3, (("a", 2),)),  # type: ignore[arg-type]
        Reserve(4, (("a", 2),)),  # type: ignore[arg-type]
    ]


def test_nobody_is_stopped_where_that_would_not_make_room() -> None:
    c = cluster("shortest").node("a", 4).node("b", 4)
    c.running(1, {"a": 2}, workers=(2, 2), expected_seconds=9000.0)
    c.running(2, {"a": 2, "b": 2}, workers=(4, 4), expected_seconds=1100.0)
    c.waiting(3, workers=(2, 2), slots_per_worker=4, expected_seconds=400.0)
    c.running(4, {"b": 1}, workers=(1, 1), preemptible=False)
    assert not c.actions()


def test_jobs_that_are_smaller_than_they_prefer_do_not_stop_each_other_by_turns() -> None:
    """Two of its four workers fit: a job that runs is compared with one that waits as if both had two."""
    wants = {"workers": (1, 4), "preferred_workers": 4, "fraction": 0.5}
    c = cluster("shortest").node("a", 2)
    c.running(1, {"a": 2}, whole_slot_seconds=4000.0, **wants).waiting(2, whole_slot_seconds=4400.0, **wants)
    assert not c.actions()


def test_a_profile_finds_the_first_window_that_is_wide_and_long_enough() -> None:
    profile = Profile(0.0, 8)
    profile.change(0.0, 100.0, -6)
    profile.change(150.0, 200.0, -8)
    assert profile.earliest(2, 150.0) == 0.0
    assert profile.earliest(2, 151.0) == 200.0
    assert profile.earliest(4, 50.0) == 100.0
    assert profile.earliest(4, 51.0) == 200.0
    assert profile.earliest(8, float("inf")) == 200.0
    assert profile.earliest(9, 1.0) == float("inf")


def test_the_past_of_a_profile_is_now() -> None:
    profile = Profile(100.0, 4)
    profile.change(0.0, 150.0, -4)
    profile.change(0.0, 50.0, -4)
    assert profile.earliest(4, 10.0) == 150.0


@pytest.mark.parametrize("name", ["afs", "edl", "elastic-fifo"])
def test_a_job_that_nobody_may_take_from_loses_only_what_is_above_its_lowered_maximum(name: PolicyName) -> None:
    c = cluster(name).node("a", 5)
    c.running(1, {"a": 4}, workers=(1, 3), preemptible=False)
    c.waiting(2, workers=(3, 3), priority=9)
    c.running(3, {"a": 1}, workers=(1, 5), priority=9)
    leaving = [action for action in c.plan(outside_bounds=True).actions if isinstance(action, Shrink)]
    assert [(action.job_id, action.reason, len(action.workers)) for action in leaving] == [(1, LeaveReason.SCALED, 1)]


@pytest.mark.parametrize("name", sorted(FIXED_SIZES))
def test_where_sizes_are_fixed_a_job_above_its_lowered_maximum_keeps_that_maximum_beside_its_equals(
    name: PolicyName,
) -> None:
    c = cluster(name).node("a", 8)
    c.running(1, {"a": 8}, workers=(1, 3), priority=9)
    c.waiting(2, workers=(6, 6), priority=9, expected_seconds=1.0)
    plan = c.plan(outside_bounds=True)
    assert [action for action in plan.actions if isinstance(action, Shrink) and action.for_job is not None] == []
    assert any(isinstance(action, Shrink | StopJob) for action in plan.actions)
