"""Who may start or grow behind a blocked job: each rule on the smallest world that shows it."""

from typing import Any

import pytest

from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import NodeName
from scheduler.model.job import FixedGroup
from scheduler.model.job_state import StopReason, WaitReason
from scheduler.model.node import ClosedSlot, SlotClosure
from scheduler.model.plan import Grow, Reserve, Start, StopJob
from scheduler.model.shape import WorkerShape
from tests.policy.expected import shrink
from tests.policy.worlds import NOW, Cluster


def blocked_cluster(**of_running: Any) -> Cluster:
    """Job 1 holds half of node a; job 2 needs all of it."""
    c = Cluster().node("a", 8).running(1, {"a": 4}, workers=(4, 4), **of_running)
    return c.waiting(2, workers=(8, 8), submitted_at=NOW - 5000)


@pytest.mark.parametrize(
    ("of_running", "of_filler", "starts"),
    [
        ({}, {}, False),
        ({}, {"priority": -1}, True),
        ({}, {"priority": -1, "preemptible": False}, False),
        ({"time_limit_seconds": 2000.0}, {"time_limit_seconds": 1000.0}, True),
        ({"time_limit_seconds": 2000.0}, {"time_limit_seconds": 1001.0}, False),
        ({"time_limit_seconds": 2000.0}, {}, False),
        ({}, {"time_limit_seconds": 1e6}, True),
    ],
)
def test_only_what_does_not_delay_the_blocked_job_starts_before_it(
    of_running: Any, of_filler: Any, starts: bool
) -> None:
    c = blocked_cluster(**of_running).waiting(3, **of_filler)
    assert c.actions() == ([Start(3, (("a", 1),))] if starts else [])
    if not starts:
        assert c.plan().waiting[3].reason is WaitReason.BEHIND_RESERVATION  # type: ignore[index]
        assert c.plan().waiting[3].for_job == 2  # type: ignore[index]
    assert c.plan().waiting[2].reason is WaitReason.INSUFFICIENT_SLOTS  # type: ignore[index]


@pytest.mark.parametrize(("limit_seconds", "grows"), [(2000.0, True), (2001.0, False)])
def test_a_running_job_grows_if_its_time_limit_ends_it_before_the_promise(limit_seconds: float, grows: bool) -> None:
    c = Cluster().node("a", 8).running(1, {"a": 4}, workers=(4, 4), time_limit_seconds=2000.0)
    c.running(3, {"a": 1}, workers=(1, 3), time_limit_seconds=limit_seconds)
    c.waiting(2, workers=(7, 7), submitted_at=NOW - 5000)
    assert c.actions() == ([Grow(3, (("a", 2),))] if grows else [])  # type: ignore[arg-type]


def test_capacity_that_the_blocked_job_will_not_need_is_used() -> None:
    c = Cluster().node("a", 8).node("b", 2).running(1, {"a": 4}, workers=(4, 4), time_limit_seconds=2000.0)
    c.waiting(2, workers=(7, 7), submitted_at=NOW - 5000).waiting(3, workers=(2, 2)).waiting(4).waiting(5)
    # By the time of its start a and b have ten slots; the blocked job takes seven of a and leaves one there and b.
    assert c.actions() == [Start(3, (("b", 2),)), Start(4, (("a", 1),))]


def test_slots_of_less_important_jobs_count_for_the_promise_and_are_taken_by_those_behind_it_all_the_same() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 4}, workers=(4, 4), time_limit_seconds=2000.0)
    c.running(2, {"a": 4}, workers=(1, 4), priority=-5)
    c.waiting(3, workers=(8, 8), submitted_at=NOW - 5000).waiting(4, workers=(1, 1))
    assert c.actions() == [shrink(2, 4, by=4), Reserve(4, (("a", 1),))]
    c.waiting(4, workers=(1, 1), priority=-6)
    assert c.plan().waiting[4].reason is WaitReason.INSUFFICIENT_SLOTS  # type: ignore[index]


def blocked_with_two_behind(**of_running: Any) -> Cluster:
    """Job 2 waits for job 1; job 3 would keep the free slot from it, and job 4, less important, would give it back."""
    c = Cluster().node("a", 2).running(1, {"a": 1}, priority=2, preemptible=False, **of_running)
    c.waiting(2, workers=(2, 2), priority=3, preemptible=False)
    return c.waiting(3, priority=1, preemptible=False).waiting(4)


@pytest.mark.parametrize("limit", [None, 2000.0])
def test_nobody_starts_only_to_be_taken_from_by_a_more_important_job_behind_the_same_blocked_one(
    limit: float | None,
) -> None:
    c = blocked_with_two_behind(time_limit_seconds=limit)
    assert c.step().actions == (Start(3, (("a", 1),)),)
    assert c.step(1.0).actions == ()


def test_nobody_grows_only_to_be_taken_from_by_a_more_important_job_behind_a_blocked_one() -> None:
    c = blocked_with_two_behind().node("a", 3).running(4, {"a": 1}, workers=(1, 2))
    c.waiting(2, workers=(3, 3), priority=3, preemptible=False)
    assert c.step().actions == (Start(3, (("a", 1),)),)
    assert c.step(1.0).actions == ()


def test_they_have_what_less_important_ones_would_get_and_no_more() -> None:
    c = blocked_with_two_behind().node("a", 4).waiting(5, workers=(3, 3), priority=1, preemptible=False).waiting(6)
    c.waiting(2, workers=(4, 4), priority=3, preemptible=False)
    # Once job 3 has one of the three free slots, jobs 4 and 6 would not have enough for job 5.
    assert c.step().actions == (Start(3, (("a", 1),)), Start(4, (("a", 1),)), Start(6, (("a", 1),)))
    assert c.step(1.0).actions == ()


def test_what_starts_in_the_same_plan_counts_for_the_promise() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 2}, workers=(2, 2), time_limit_seconds=2000.0, preemptible=False)
    c.waiting(2, priority=9, workers=(1, 1), time_limit_seconds=500.0).waiting(3, workers=(3, 3), priority=5)
    c.waiting(4, time_limit_seconds=600.0).waiting(5, time_limit_seconds=400.0)
    # Job 3 has three slots only when job 1 ends, at 1000 s: job 4 may be there until then.
    assert c.actions() == [Start(2, (("a", 1),)), Start(4, (("a", 1),))]


def test_an_impossible_job_or_one_in_backoff_blocks_nobody() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 2}, workers=(2, 2)).waiting(2, priority=9, workers=(5, 5))
    c.waiting(3, priority=9, selector={"no": "where"}).waiting(4, priority=9, not_before=NOW + 5)
    c.waiting(5, workers=(2, 2))
    made = c.plan()
    assert made.actions == (Start(5, (("a", 2),)),)
    assert {k: w.reason for k, w in made.waiting.items()} == {
        2: WaitReason.EXCEEDS_CLUSTER,
        3: WaitReason.NO_MATCHING_NODE,
        4: WaitReason.BACKOFF,
    }
    assert made.next_look_at == NOW + 5
    c.now = NOW + 5
    assert c.plan().actions == (Start(4, (("a", 1),)),)


def test_a_blocked_job_does_not_protect_who_is_less_important_than_those_behind_it() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 6}, workers=(6, 6), priority=5)
    c.running(2, {"a": 2}, workers=(2, 2), priority=1)
    c.waiting(3, workers=(8, 8), priority=5).waiting(4, workers=(1, 1), priority=5)
    made = c.plan()
    assert made.actions == (StopJob(2, StopReason.PREEMPTED, 4), Reserve(4, (("a", 1),)))


_CLOSED = (ClosedSlot(0, SlotClosure.UNREADABLE, ""),)
_SERVERS = FixedGroup(1, ("serve",), shape=WorkerShape(0, cpus=1.0))


@pytest.mark.parametrize(
    ("of_node", "foreign", "of_blocked"),
    [
        ({"gpu_type": "B"}, ForeignUse(), {"workers": 8}),  # too few of that type
        ({"gpu_type": "B", "cpus": 8}, ForeignUse(), {"workers": 8, "fixed": _SERVERS}),
        ({}, ForeignUse(), {"workers": 1, "slots_per_worker": 8}),
        ({"cpus": 8}, ForeignUse(cpus=0.5), {"workers": 1, "cpus": 8}),
        ({}, ForeignUse(slots=1), {"workers": 1, "slots_per_worker": 4}),
        ({"closed_slots": _CLOSED}, ForeignUse(), {"workers": 1, "slots_per_worker": 4}),
    ],
)
def test_no_room_is_kept_where_the_blocked_job_could_not_start_whatever_ends(
    of_node: dict[str, Any], foreign: ForeignUse, of_blocked: dict[str, Any]
) -> None:
    c = Cluster().node("a", 8, gpu_type="A", cpus=16).node("b", 4, **of_node)
    c.foreign[NodeName("b")] = foreign
    c.running(1, {"a": 8}, workers=8, cpus=2, preemptible=False).waiting(2, **of_blocked).waiting(3, workers=3)
    assert c.actions() == [Start(3, (("b", 3),))]


def test_a_job_that_could_not_start_whatever_ends_leaves_the_promise_to_the_next_one() -> None:
    c = blocked_cluster(preemptible=False).node("b", 4).waiting(3, workers=3)
    c.waiting(4, workers=1, slots_per_worker=8, priority=1)
    c.foreign[NodeName("a")] = ForeignUse(slots=1)
    assert c.step().actions == ()
    assert [c.reason(4), c.reason(2), c.reason(3)] == [
        WaitReason.INSUFFICIENT_SLOTS,
        WaitReason.INSUFFICIENT_SLOTS,
        WaitReason.BEHIND_RESERVATION,
    ]
