"""Each rule of the planner on the smallest world that shows it."""

import math
from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Grow, Release, Reserve, Shrink, Start, StopJob, Waiting
from scheduler.model.worker import LeaveReason
from scheduler.policy.snapshot.order import Order, aged
from tests.policy.worlds import CORDONED, DOWN, DRAINING, NOW, QUARANTINED, Cluster

#: Nobody is named: it waits in its own favour.
VICTIMS = Waiting(WaitReason.WAITING_FOR_VICTIMS)


def shrink(job: int, *ordinals: int, by: int | None, reason: LeaveReason = LeaveReason.PREEMPTED) -> Shrink:
    return Shrink(job, tuple(f"{job}-{k}" for k in ordinals), reason, by)  # type: ignore[arg-type]


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


def test_strays_and_leaving_workers_keep_their_slots() -> None:
    c = Cluster().node("a", 2).stray(9, "a", [0]).running(1, {"a": 1}, state=JobState.STOPPING).waiting(2)
    assert c.actions() == [Reserve(2, (("a", 1),))]
    assert c.plan().waiting[JobId(2)] == VICTIMS
    c = Cluster().node("a", 1).stray(9, "a", [0]).waiting(2)
    assert c.actions() == [Reserve(2, (("a", 1),))]
    assert c.plan().waiting[JobId(2)] == VICTIMS


# Preemption


def test_the_youngest_workers_of_the_least_important_job_leave_first() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 4}, workers=(1, 4), priority=1)
    c.running(2, {"a": 4}, workers=(2, 4)).waiting(3, priority=5, workers=(3, 3))
    assert c.actions() == [shrink(1, 4, by=3), shrink(2, 4, 3, by=3), Reserve(3, (("a", 3),))]
    assert c.plan().waiting[JobId(3)] == VICTIMS


def test_nobody_is_stopped_where_shrinking_does_and_whoever_must_be_stopped_is_not_shrunk_as_well() -> None:
    c = Cluster().node("a", 6).running(1, {"a": 3}, workers=(3, 3)).running(2, {"a": 3}, workers=(1, 3), priority=1)
    c.waiting(3, priority=5, workers=(2, 2))
    assert c.actions() == [shrink(2, 3, 2, by=3), Reserve(3, (("a", 2),))]
    c.waiting(3, priority=5, workers=(4, 4))
    assert c.actions() == [StopJob(1, StopReason.PREEMPTED, 3), shrink(2, 3, by=3), Reserve(3, (("a", 4),))]
    c.waiting(3, priority=5, workers=(6, 6))
    assert c.actions() == [
        StopJob(1, StopReason.PREEMPTED, 3),
        StopJob(2, StopReason.PREEMPTED, 3),
        Reserve(3, (("a", 6),)),
    ]


def test_a_worker_of_several_slots_gets_them_from_one_node() -> None:
    c = Cluster().node("a", 2).node("b", 2)
    c.running(1, {"a": 1, "b": 1}, workers=(1, 2)).running(2, {"a": 1, "b": 1}, workers=(1, 2), priority=1)
    c.waiting(3, priority=5, slots_per_worker=2)
    # In turn, worker 1-2 on b and 2-2 on b.
    assert c.actions() == [shrink(1, 2, by=3), shrink(2, 2, by=3), Reserve(3, (("b", 1),))]
    c = Cluster().node("a", 2).node("b", 2).running(1, {"a": 1}).running(2, {"b": 1, "a": 1}, workers=(1, 2))
    c.running(3, {"b": 1}, workers=(1, 2), priority=1)
    c.waiting(4, priority=5, slots_per_worker=2)
    assert [a for a in c.actions() if isinstance(a, StopJob)] == [StopJob(1, StopReason.PREEMPTED, 4)]


def test_shrinking_node_by_node_saves_a_job_that_shrinking_in_turn_would_not() -> None:
    c = Cluster().node("a", 2).node("b", 3)
    c.running(1, {"b": 1, "a": 1}, workers=(1, 2))
    c.running(2, {"a": 1, "b": 2}, workers=(1, 3), priority=1)
    # The youngest of each are 1-2 on a and 2-3, 2-2 on b: b frees two together.
    c.waiting(3, priority=5, slots_per_worker=2, workers=(1, 1))
    assert not any(isinstance(a, StopJob) for a in c.actions())


@pytest.mark.parametrize(
    "spared",
    [{"preemptible": False}, {"priority": 5, "workers": (2, 2)}, {"finishing": True}, {"priority": 7}],
)
def test_what_may_not_be_taken_is_left_alone(spared: dict[str, Any]) -> None:
    c = Cluster().node("a", 2).running(1, {"a": 2}, **{"workers": (1, 2), **spared}).waiting(2, priority=5)
    assert c.actions() == []
    assert c.plan().waiting[2].reason is WaitReason.INSUFFICIENT_SLOTS  # type: ignore[index]


def test_no_victim_is_touched_in_vain() -> None:
    c = (
        Cluster()
        .node("a", 4)
        .running(1, {"a": 2}, workers=(1, 2))
        .running(2, {"a": 2}, preemptible=False, workers=(2, 2))
    )
    c.waiting(3, priority=5, workers=(3, 3))
    assert c.actions() == []


def test_what_is_being_freed_already_is_not_taken_again() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(1, 4), leaving=2).waiting(2, priority=5, workers=(2, 2))
    assert c.actions() == [Reserve(2, (("a", 2),))]
    assert c.plan().waiting[JobId(2)] == VICTIMS


def test_one_victim_may_give_to_two_and_a_later_stop_includes_an_earlier_shrink() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(1, 4))
    c.waiting(2, priority=6).waiting(3, priority=5)
    assert c.actions() == [shrink(1, 4, by=2), shrink(1, 3, by=3), Reserve(2, (("a", 1),)), Reserve(3, (("a", 1),))]
    c.waiting(3, priority=5, workers=(3, 3))
    assert c.actions() == [StopJob(1, StopReason.PREEMPTED, 3), Reserve(2, (("a", 1),)), Reserve(3, (("a", 3),))]


# Reservations


def test_a_reservation_is_kept_from_equals_and_started_on_when_complete() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 2}, leaving=1, workers=(1, 2), leave_for=2)
    c.waiting(2, workers=(3, 3), reservation=(("a", 3),), wait_reason=WaitReason.WAITING_FOR_VICTIMS)
    c.waiting(3, submitted_at=NOW - 5000)
    assert c.actions() == []
    assert c.plan().waiting[3].reason is WaitReason.BEHIND_RESERVATION  # type: ignore[index]
    assert c.plan().waiting[3].for_job == 2  # type: ignore[index]
    c.finish(1)
    assert Start(2, (("a", 3),)) in c.actions()


def test_a_strictly_more_important_job_takes_a_reservation_over() -> None:
    c = Cluster().node("a", 2).running(1, {"a": 2}, workers=(1, 2), leaving=1).waiting(3, priority=9)
    c.waiting(2, reservation=(("a", 1),), priority=2, wait_reason=WaitReason.WAITING_FOR_VICTIMS, preemptible=False)
    assert c.actions() == [StopJob(1, StopReason.PREEMPTED, 2), Reserve(3, (("a", 1),))]
    c = Cluster().node("a", 2).running(1, {"a": 1}, state=JobState.STOPPING).waiting(3, priority=9)
    c.waiting(2, reservation=(("a", 2),), workers=(2, 2), priority=2)
    assert Start(3, (("a", 1),)) in c.actions()


def test_only_the_reservations_that_are_needed_are_taken_over() -> None:
    c = Cluster().node("a", 3).node("b", 3).stray(8, "a", [0]).stray(9, "b", [0])
    c.waiting(1, workers=(3, 3), reservation=(("a", 3),), wait_reason=WaitReason.WAITING_FOR_VICTIMS)
    c.waiting(2, workers=(3, 3), priority=1, reservation=(("b", 3),), wait_reason=WaitReason.WAITING_FOR_VICTIMS)
    c.waiting(3, workers=(2, 2), priority=5)
    assert c.actions() == [Release(1), Start(3, (("a", 2),))]


@pytest.mark.parametrize(
    "fields",
    [{"not_before": NOW + 9}, {"workers": (9, 9)}, {"state": JobState.SUSPENDED}],
)
def test_a_job_that_does_not_wait_for_slots_gives_its_reservation_up(fields: dict[str, Any]) -> None:
    c = Cluster().node("a", 2).stray(9, "a", [0])
    c.waiting(1, **{"workers": (2, 2), "reservation": (("a", 2),), **fields})
    assert c.actions() == [Release(1)]


def test_a_reservation_that_cannot_be_completed_is_decided_anew() -> None:
    c = Cluster().node("a", 2, intent=CORDONED).node("b", 2).running(1, {"b": 2}, workers=(1, 2), priority=-1)
    c.waiting(2, reservation=(("a", 1),))
    assert c.actions() == [shrink(1, 2, by=2), Reserve(2, (("b", 1),))]
    c = Cluster().node("a", 2).running(1, {"a": 2}, workers=(2, 2), preemptible=False)
    c.waiting(2, reservation=(("a", 1),))
    assert c.actions() == [Release(2)]
    c = Cluster().node("a", 3).stray(9, "a", [0, 1, 2]).waiting(2, reservation=(("a", 1),), workers=(2, 2))
    assert c.actions() == [Reserve(2, (("a", 2),))]


# Backfill


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


def test_a_gang_too_large_for_any_single_gpu_type_exceeds_the_cluster() -> None:
    c = Cluster().node("a", 4, gpu_type="x").node("b", 4, gpu_type="y", health=DOWN).waiting(1, workers=(5, 5))
    assert c.plan().waiting[1].reason is WaitReason.EXCEEDS_CLUSTER  # type: ignore[index]
    c.waiting(1, workers=(4, 4), gpu_type="y")
    assert c.plan().waiting[1].reason is WaitReason.NODES_UNAVAILABLE  # type: ignore[index]


def test_quarantined_cordoned_and_lost_nodes_take_no_workers() -> None:
    c = Cluster().node("a", 4, intent=QUARANTINED).node("b", 4, intent=CORDONED).node("c", 4, health=DOWN).node("d", 1)
    assert c.waiting(1, workers=(1, 8)).actions() == [Start(1, (("d", 1),))]


# Growth


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
    c = Cluster().node("a", 4).running(1, {"a": 2}, workers=(1, 3), **fields)
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


def test_a_blocked_job_does_not_protect_who_is_less_important_than_those_behind_it() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 6}, workers=(6, 6), priority=5)
    c.running(2, {"a": 2}, workers=(2, 2), priority=1)
    c.waiting(3, workers=(8, 8), priority=5).waiting(4, workers=(1, 1), priority=5)
    made = c.plan()
    assert made.actions == (StopJob(2, StopReason.PREEMPTED, 4), Reserve(4, (("a", 1),)))
