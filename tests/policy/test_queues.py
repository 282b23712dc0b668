"""Queues in the policy: who gets what is open, and who takes from whom."""

from dataclasses import replace

import pytest

from scheduler.config import PolicySettings
from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.node import NodeIntent
from scheduler.model.plan import Reserve, Shrink, Start, StopJob
from scheduler.model.queue_usage import QueueUsage
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.policy.planner import plan
from tests.policy.worlds import CORDONED, DRAINING, LONG_AGO, NOW, Cluster


def running(c: Cluster) -> dict[int, int]:
    return {int(job_id): len(job.wanted_workers) for job_id, job in c.jobs.items() if job.workers}


def two_queues(slots: int = 8, settings: PolicySettings | None = None) -> Cluster:
    return Cluster(settings).node("a", slots).queue("left").queue("right")


def test_a_queue_takes_half_of_what_another_has_borrowed_and_stops_nobody() -> None:
    c = two_queues().running(1, on={"a": 8}, workers=(1, 8), queue="left")
    c.waiting(2, workers=(1, 8), queue="right")
    made = c.step()
    assert [(a.job_id, len(a.workers), a.reason) for a in made.actions if isinstance(a, Shrink)] == [
        (1, 1, LeaveReason.RECLAIMED)
    ]
    c.settle()
    assert running(c) == {1: 4, 2: 4}
    c.finish(2)
    c.settle()
    assert running(c) == {1: 8}


def test_priority_decides_inside_a_queue_only() -> None:
    c = two_queues().running(1, on={"a": 4}, workers=4, queue="left").waiting(2, workers=4, queue="right")
    c.waiting(3, workers=4, queue="left", priority=900).waiting(4, workers=4, queue="right", priority=5)
    c.settle()
    assert running(c) == {3: 4, 4: 4}


def test_weights_divide_what_nobody_is_guaranteed() -> None:
    c = Cluster().node("a", 12).queue("left").queue("right", weight=2.0)
    for number in range(1, 13):
        c.waiting(number, queue="left")
        c.waiting(number + 12, queue="right")
    c.settle()
    assert [sum(job in running(c) for job in jobs) for jobs in (range(1, 13), range(13, 25))] == [4, 8]


def test_many_small_queues_do_not_keep_a_large_one_from_its_share() -> None:
    c = Cluster().node("a", 8).queue("big", weight=73.0).waiting(9, workers=(1, 8), queue="big")
    for number in range(1, 8):
        c.queue(f"small{number}").waiting(number, workers=(1, 8), queue=f"small{number}")
    c.settle()
    assert running(c) == {9: 8}, "7.3 slots, and 0.1 for each of the others"


def test_to_reach_its_guarantee_a_queue_stops_borrowers_whatever_their_priority() -> None:
    c = Cluster().node("a", 8).queue("left", guarantee=4).queue("right")
    c.running(1, on={"a": 4}, workers=4, queue="right", priority=100)
    c.running(2, on={"a": 4}, workers=4, queue="right", priority=50)
    c.waiting(3, workers=4, queue="left")
    assert [(a.job_id, a.reason) for a in c.plan().actions if isinstance(a, StopJob)] == [(2, StopReason.RECLAIMED)]
    c.settle()
    assert running(c) == {1: 4, 3: 4}


def test_a_job_that_cannot_shrink_keeps_nothing_of_what_is_guaranteed_to_others() -> None:
    c = Cluster().node("a", 8).queue("left", guarantee=4).queue("right", guarantee=4)
    c.running(1, on={"a": 8}, workers=8, queue="right", priority=100).waiting(2, workers=4, queue="left")
    assert [(a.job_id, a.reason) for a in c.plan().actions if isinstance(a, StopJob)] == [(1, StopReason.RECLAIMED)]
    c.settle()
    assert running(c) == {2: 4}, "the larger job waits until there is room beside the guarantee"


def test_what_is_guaranteed_to_a_queue_bounds_what_those_inside_it_are_guaranteed_of_a_type() -> None:
    c = Cluster().node("a", 8, gpu_type="x").queue("lab", guarantee=2).queue("lab/one", guarantee={"x": 4})
    c.queue("works").running(1, on={"a": 8}, workers=(1, 8), queue="works")
    c.waiting(2, workers=3, queue="lab/one", gpu_type="x", preemptible=False)
    c.settle()
    assert running(c) == {1: 8}, "2 are guaranteed, and the job needs 3 that nobody takes back"
    c.waiting(3, workers=2, queue="lab/one", gpu_type="x", preemptible=False).settle()
    assert running(c) == {1: 6, 3: 2}


def test_who_is_left_less_than_its_part_is_stopped_only_where_nobody_else_would_do() -> None:
    c = Cluster().node("a", 12).queue("left", guarantee=4).queue("right", guarantee=4)
    c.running(1, on={"a": 6}, workers=6, queue="right").running(2, on={"a": 2}, workers=2, queue="right", priority=99)
    c.running(3, on={"a": 4}, workers=4, queue="right", priority=50).waiting(4, workers=4, queue="left")
    assert [a.job_id for a in c.plan().actions if isinstance(a, StopJob)] == [3], "8 are left to it, of 4 guaranteed"
    c = Cluster().node("a", 8).queue("left", guarantee=2).queue("right", guarantee=6)
    c.running(1, on={"a": 6}, workers=6, queue="right").running(2, on={"a": 2}, workers=2, queue="other")
    c.waiting(3, workers=2, queue="left").settle()
    assert running(c) == {1: 6, 3: 2}


def test_for_a_fair_share_nobody_is_stopped_unless_a_setting_says_after_how_long() -> None:
    def world(settings: PolicySettings) -> Cluster:
        c = two_queues(settings=settings)
        c.running(1, on={"a": 4}, workers=4, queue="right").running(2, on={"a": 4}, workers=4, queue="right")
        return c.waiting(3, workers=4, queue="left")

    assert world(PolicySettings()).plan().actions == ()
    ran = NOW - LONG_AGO
    assert world(PolicySettings(fair_stop_seconds=ran + 1)).plan().actions == ()
    made = world(PolicySettings(fair_stop_seconds=ran)).plan()
    assert [(a.job_id, a.reason) for a in made.actions if isinstance(a, StopJob)] == [(2, StopReason.RECLAIMED)]


def test_nobody_is_pushed_below_what_it_is_entitled_to() -> None:
    c = two_queues(9).running(1, on={"a": 5}, workers=(1, 8), queue="left")
    c.running(2, on={"a": 4}, workers=(4, 8), queue="right")
    assert c.settle() == 0, "4.5 each: neither may have one more at the cost of the other"


def test_inside_a_department_its_queues_take_from_each_other_and_not_from_others() -> None:
    c = Cluster().node("a", 8)
    for path in ("lab", "lab/one", "lab/two", "works"):
        c.queue(path)
    c.running(1, on={"a": 4}, workers=(1, 8), queue="lab/one").running(2, on={"a": 4}, workers=(1, 8), queue="works")
    c.waiting(3, workers=(1, 8), queue="lab/two")
    c.settle()
    assert running(c) == {1: 2, 2: 4, 3: 2}


def test_a_limit_holds_and_the_jobs_below_it_make_room_for_each_other() -> None:
    c = Cluster().node("a", 12).queue("left", limit=8)
    c.waiting(1, workers=(1, 8), queue="left")
    c.step()
    assert running(c) == {1: 8}
    c.waiting(2, workers=(1, 8), queue="left")
    c.settle()
    assert running(c) == {1: 7, 2: 1}
    c.waiting(3, workers=6, queue="left", priority=9)
    c.settle()
    assert running(c) == {1: 1, 2: 1, 3: 6}
    c.waiting(4, workers=9, queue="left")
    c.step()
    assert c.reason(4) is WaitReason.QUEUE_LIMIT


def test_a_limit_counts_workers_on_nodes_that_take_no_new_ones() -> None:
    c = Cluster().node("a", 8).node("b", 4, intent=CORDONED).queue("left", limit=6)
    c.running(1, on={"b": 4}, workers=4, queue="left").waiting(2, workers=(1, 4), queue="left")
    c.settle()
    assert running(c) == {1: 4, 2: 2}
    c.waiting(3, workers=3, queue="left", priority=9)
    c.settle()
    assert c.reason(3) is WaitReason.QUEUE_LIMIT


def test_at_a_limit_a_job_leaves_a_draining_node_before_it_starts_elsewhere() -> None:
    c = Cluster().node("a", 8).node("b", 4, intent=DRAINING).queue("left", limit=4)
    c.running(1, on={"b": 4}, workers=(4, 8), queue="left")
    assert [action.reason for action in c.plan().actions if isinstance(action, StopJob)] == [StopReason.DRAINED]
    c.settle()
    assert running(c) == {1: 4}


def test_above_a_limit_a_job_below_its_minimum_gets_nothing() -> None:
    c = Cluster().node("a", 8).queue("left", limit=2).running(1, on={"a": 1}, workers=(2, 4), queue="left")
    c.running(2, on={"a": 2}, workers=2, queue="left")
    made = c.plan(outside_bounds=True)
    assert [action.reason for action in made.actions if isinstance(action, StopJob)] == [StopReason.BELOW_MINIMUM]


def test_for_a_limit_nobody_stops_a_job_of_the_same_priority() -> None:
    c = Cluster().node("a", 8).queue("left", limit=4)
    c.running(1, on={"a": 4}, workers=(3, 4), queue="left").waiting(2, workers=2, queue="left")
    assert c.plan().actions == ()


def test_who_waits_for_a_limit_keeps_nobody_else_waiting() -> None:
    c = Cluster().node("a", 4).queue("lab", user_limit=1).queue("other")
    c.running(1, on={"a": 1}, queue="lab", user="ann").waiting(2, queue="lab", user="ann")
    c.waiting(3, queue="lab", user="bob").waiting(4, workers=2, queue="other")
    c.step()
    assert running(c) == {1: 1, 3: 1, 4: 2}


def test_who_waits_for_a_limit_is_told_so() -> None:
    c = Cluster().node("a", 8).queue("left", limit=4).running(1, on={"a": 4}, workers=4, queue="left")
    c.waiting(2, workers=4, queue="left")
    c.settle()
    assert c.reason(2) is WaitReason.QUEUE_LIMIT


def test_a_job_that_is_larger_than_what_its_queue_is_entitled_to_keeps_nobody_else_waiting() -> None:
    c = Cluster().node("a", 8).queue("left", guarantee=5).queue("right")
    c.running(1, on={"a": 3}, workers=3, queue="right").running(2, on={"a": 3}, workers=(1, 5), queue="left")
    c.waiting(3, workers=3, queue="right")
    c.settle()
    assert running(c) == {1: 3, 2: 5}


def test_users_share_a_queue_that_says_so() -> None:
    c = Cluster().node("a", 8).queue("lab", share_users=True)
    for number in range(1, 9):
        c.waiting(number, queue="lab", user="ann")
    c.settle()
    c.waiting(9, workers=(1, 8), queue="lab", user="bob")
    c.waiting(10, workers=(1, 8), queue="lab", user="ann", priority=9)
    c.finish(1)
    c.step()
    assert 9 in running(c), "bob has nothing yet"


def test_a_user_stays_below_a_limit_for_each_user() -> None:
    c = Cluster().node("a", 8).queue("lab", user_limit=3)
    c.waiting(1, workers=(1, 8), queue="lab", user="ann").waiting(2, workers=2, queue="lab", user="ann", priority=-1)
    c.waiting(3, workers=(1, 8), queue="lab", user="bob")
    c.settle()
    assert running(c) == {1: 1, 2: 2, 3: 3}
    c.waiting(4, workers=4, queue="lab", user="ann")
    c.step()
    assert c.reason(4) is WaitReason.USER_LIMIT


def test_jobs_that_are_not_preemptible_start_inside_guarantees_only() -> None:
    c = Cluster().node("a", 8).queue("left", guarantee=4).queue("right")
    c.waiting(1, workers=4, queue="left", preemptible=False).waiting(2, workers=1, queue="left", preemptible=False)
    c.waiting(3, workers=1, queue="right", preemptible=False).waiting(4, workers=1, queue="left")
    c.step()
    assert running(c) == {1: 4, 4: 1}
    assert {c.reason(2), c.reason(3)} == {WaitReason.NOT_GUARANTEED}


def test_a_guarantee_of_a_gpu_type_is_met_on_nodes_of_that_type() -> None:
    c = Cluster().node("a", 8, gpu_type="A100").node("h", 8, gpu_type="H100")
    c.queue("left", guarantee={"H100": 4}).queue("right")
    c.running(1, on={"a": 8}, workers=(1, 8), queue="left", gpu_type="A100")
    c.running(2, on={"h": 8}, workers=(1, 8), queue="right", gpu_type="H100")
    c.waiting(3, workers=4, queue="left", gpu_type="H100")
    c.settle()
    assert running(c) == {1: 8, 2: 4, 3: 4}


def test_who_is_stopped_for_a_guarantee_does_not_start_again_on_the_same_slots() -> None:
    c = Cluster().node("a", 5, gpu_type="A100").queue("left", guarantee={"A100": 7})
    c.waiting(1, workers=(1, 11), queue="left", gpu_type="A100").waiting(2, workers=4)
    c.settle()
    assert running(c) == {1: 5}
    c = Cluster().node("a", 2).node("h", 2, gpu_type="H100").queue("left", guarantee={"H100": 6})
    c.running(1, on={"h": 1}).waiting(2, workers=(1, 6), queue="left", gpu_type="H100")
    c.settle()
    assert running(c) == {1: 1, 2: 2}


def test_no_victim_is_of_the_wrong_type_or_on_a_node_where_it_does_not_help() -> None:
    c = Cluster().node("a", 4).node("b", 4)
    c.queue("left").queue("right")
    c.running(1, on={"a": 4, "b": 4}, workers=(6, 8), queue="right").waiting(2, slots_per_worker=4, queue="left")
    assert c.plan().actions == (), "two slots at most: no node would have four"


def test_what_is_lent_is_divided_department_by_department_until_its_owner_needs_it() -> None:
    """Story 3 of Kueue's fair sharing: 300 lent slots become 150 and 150, inside the first 30, 30 and 90."""
    c = Cluster()
    for k in range(30):
        c.node(f"n{k:02}", 10)
    for path, weight in (("first", 1.0), ("first/a", 1.0), ("first/b", 1.0), ("first/c", 3.0), ("second", 1.0)):
        c.queue(path, weight=weight)
    c.queue("owner", guarantee=300)
    c.running(1, on=dict.fromkeys(list(c.nodes), 10), workers=(1, 300), queue="first/c")
    c.waiting(2, workers=(1, 90), queue="first/a").waiting(3, workers=(1, 90), queue="first/b")
    c.waiting(4, workers=(1, 300), queue="second")
    c.settle()
    assert running(c) == {1: 90, 2: 30, 3: 30, 4: 150}
    c.waiting(5, workers=(1, 300), queue="owner")
    c.settle()
    assert running(c) == {5: 300}


def test_no_queues_no_change() -> None:
    c = Cluster().node("a", 4).running(1, on={"a": 4}, workers=(1, 4)).waiting(2, workers=2, priority=5, queue="gone")
    made = c.plan()
    assert [type(action) for action in made.actions] == [Shrink, Reserve]
    assert c.jobs[1].state is JobState.RUNNING  # type: ignore[index]


def test_a_job_that_waits_for_its_own_queues_limit_keeps_nobody_else_from_starting() -> None:
    c = Cluster().node("a", 8).queue("left", limit=4).queue("right")
    c.running(1, on={"a": 3}, workers=3, queue="left", priority=9).waiting(2, workers=2, queue="left", priority=9)
    c.waiting(3, workers=1, queue="left").waiting(4, workers=4, queue="right")
    c.step()
    assert running(c) == {1: 3, 3: 1, 4: 4}
    assert c.reason(2) is WaitReason.QUEUE_LIMIT


def test_another_queue_uses_what_a_blocked_job_could_take_back() -> None:
    def world(guarantee: int | None) -> Cluster:
        c = Cluster().node("a", 4).node("b", 4).queue("left", guarantee=guarantee).queue("right")
        c.running(1, on={"a": 1}, workers=1, queue="left", preemptible=False, priority=9)
        c.running(2, on={"b": 1}, workers=1, queue="right", preemptible=False, priority=9)
        c.running(3, on={"b": 3}, workers=3, queue="right", preemptible=False, priority=9)
        return c.waiting(4, slots_per_worker=4, queue="left").waiting(5, queue="right")

    c = world(None)
    c.step()
    assert 5 not in running(c)
    c = world(6)
    c.step()
    assert running(c)[5] == 1, "it has borrowed the slot"


def test_a_limit_holds_while_workers_move_off_a_node() -> None:
    c = Cluster().node("a", 4, intent=NodeIntent.DRAINING).node("b", 8).queue("left", limit=4)
    c.running(1, on={"a": 4}, workers=4, queue="left")
    made = c.step()
    assert [type(action) for action in made.actions] == [StopJob]
    c.settle()
    assert running(c) == {1: 4}


@pytest.mark.parametrize("guarantee", [4, None])
def test_gangs_that_fit_a_share_take_it_in_one_plan_and_larger_ones_keep_nobody_waiting(guarantee: int | None) -> None:
    """Kueue's issue 7101, where gangs were preempted over and over: 4 of 2, then others of 6, 5, 4 and 3."""
    c = Cluster(PolicySettings(fair_stop_seconds=None if guarantee else 0.0)).node("a", 8)
    c.queue("one", guarantee=guarantee).queue("two", guarantee=guarantee)
    for number in range(1, 5):
        c.waiting(number, workers=2, queue="one")
    c.settle()
    for number, size in ((5, 6), (6, 5), (7, 4), (8, 3)):
        c.waiting(number, workers=size, queue="two")
    made = c.step()
    assert sorted(a.job_id for a in made.actions if isinstance(a, StopJob)) == [3, 4]
    c.step()
    assert running(c) == {1: 2, 2: 2, 7: 4}
    assert c.settle() == 0


@pytest.mark.parametrize("fair_stop_seconds", [None, 0.0])
def test_a_job_beyond_the_part_of_its_queue_stops_nobody_over_and_over(fair_stop_seconds: float | None) -> None:
    """Kueue's issue 3779: a queue that had borrowed most stopped the only job of another one in a loop."""
    c = Cluster(PolicySettings(fair_stop_seconds=fair_stop_seconds)).node("a", 30)
    c.queue("one", guarantee=15).queue("two", guarantee=15).queue("spare")
    c.running(1, on={"a": 25}, workers=25, queue="one").running(2, on={"a": 5}, workers=5, queue="spare")
    c.waiting(3, workers=5, queue="one")
    assert c.step().actions == ()
    assert c.settle() == 0
    assert running(c) == {1: 25, 2: 5}


def test_queues_that_hold_equal_parts_go_by_what_they_have_used_of_late_for_their_weight() -> None:
    def first(half_life_seconds: float, weight: float) -> set[int]:
        c = Cluster(PolicySettings(usage_half_life_seconds=half_life_seconds)).node("a", 1)
        c.queue("left", weight=weight).queue("right").waiting(1, queue="left").waiting(2, queue="right")
        used = {"left": QueueUsage(7200.0, NOW, 0), "right": QueueUsage(3600.0, NOW, 0)}
        world = replace(c.world(), queue_usage=used)
        return {action.job_id for action in plan(world, c.now, c.settings).actions if isinstance(action, Start)}

    assert first(0.0, 1.0) == {1}, "the older job"
    assert first(3600.0, 1.0) == {2}
    assert first(3600.0, 4.0) == {1}


def test_a_fixed_group_of_any_type_keeps_off_a_type_of_which_the_workers_use_up_the_limit() -> None:
    c = Cluster().node("h", 8, gpu_type="h100").node("l", 8, gpu_type="l4").queue("lab", limit={"l4": 4})
    beside = FixedGroup(2, ("ps",), shape=WorkerShape(slots=2))
    c.waiting(1, workers=1, slots_per_worker=2, gpu_type="l4", queue="lab", fixed=beside)
    assert c.actions() == [Start(JobId(1), (("l", 1),), fixed=(("h", 2),))], "with all on l, it would be 6 of 4"


def beside_a_blocked_job(**limits: float) -> Cluster:
    """A job of one queue waits for its own to end; another one's slots all belong to one of its two inner queues."""
    c = Cluster().node("a", 8).node("b", 8).node("c", 8).queue("other").queue("lab").queue("lab/a").queue("lab/b")
    c.running(1, on={"a": 8}, workers=8, queue="other").waiting(2, workers=12, queue="other")
    return c.running(3, on={"b": 8, "c": 8}, workers=(1, 16), queue="lab/a", **limits)


def test_a_job_that_waits_in_another_queue_keeps_no_inner_queue_from_its_share() -> None:
    c = beside_a_blocked_job()
    c.settle()
    assert running(c) == {1: 8, 3: 16}
    c.waiting(4, workers=(1, 8), queue="lab/b")
    c.settle()
    assert running(c) == {1: 8, 3: 6, 4: 6}, "half of what the lab is entitled to, each"


def test_what_a_blocked_job_is_promised_is_passed_on_to_nobody_who_would_hold_it_longer() -> None:
    c = beside_a_blocked_job(time_limit_seconds=LONG_AGO + 3600.0)
    c.waiting(4, workers=(4, 8), queue="lab/b")
    made = c.plan()
    assert [a for a in made.actions if isinstance(a, Shrink)] == []


def test_beside_a_blocked_job_less_important_jobs_of_its_own_queue_give_way_as_ever() -> None:
    c = beside_a_blocked_job().waiting(4, workers=(4, 4), queue="lab/a", priority=9)
    c.settle()
    assert running(c) == {1: 8, 3: 12, 4: 4}
