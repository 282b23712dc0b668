"""What is booked: others fill it until shortly before the window, and it is there for its jobs when that begins.

The default settings clear booked slots 35 s before a start: 30 s of grace and 5 s of lead.
"""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Grow, Reserve, Shrink, StopJob
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.policy.overlay.booking_view import pieces
from tests.policy.worlds import DOWN, DRAINING, NOW, Cluster, enact

HOUR = 3600.0
CLEAR = 35.0


def sizes(c: Cluster, *numbers: int) -> list[int]:
    return [c.size(number) for number in numbers]


def test_elastic_jobs_fill_the_hole_and_leave_it_in_time() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 2}, workers=(1, 8)).booked("b", 6, HOUR, 2 * HOUR)
    assert c.step().next_look_at == NOW + HOUR - CLEAR
    assert c.size(1) == 8
    made = c.step(HOUR - CLEAR - 1)
    assert (c.size(1), made.actions) == (8, ())
    made = c.step(1)
    [shrink] = made.actions
    assert isinstance(shrink, Shrink)
    assert (shrink.reason, shrink.for_job, len(shrink.workers)) == (LeaveReason.BOOKED, None, 6)
    assert c.size(1) == 2
    assert c.step(CLEAR + 30).actions == ()
    assert c.plan().next_look_at == NOW + HOUR + 60


def test_jobs_of_a_booking_wait_for_its_start_and_then_start_at_once() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 8}, workers=(2, 8), priority=9)
    c.waiting(2, workers=(2, 4), slots_per_worker=1, booking="b").booked("b", 6, HOUR, 2 * HOUR)
    c.step()
    assert c.reason(2) is WaitReason.BOOKED_LATER
    c.step(HOUR - 1)
    assert sizes(c, 1, 2) == [2, 0]
    c.step(1)
    assert sizes(c, 1, 2) == [2, 4]
    c.step(60)
    assert sizes(c, 1, 2) == [4, 4]


def test_a_job_starts_nowhere_before_its_booking_however_much_is_free() -> None:
    c = Cluster().node("a", 8).waiting(1, booking="b").booked("b", 1, HOUR, 2 * HOUR)
    assert c.settle(seconds=10) == 1
    assert (c.size(1), c.reason(1)) == (0, WaitReason.BOOKED_LATER)


@pytest.mark.parametrize(
    ("fields", "starts"),
    [
        ({}, False),
        ({"time_limit_seconds": 2 * HOUR}, False),
        ({"time_limit_seconds": HOUR}, True),
        ({"preemptible": False}, False),
        ({"workers": (2, 4), "preemptible": False}, False),
        ({"workers": (2, 4), "preemptible": False, "time_limit_seconds": HOUR}, True),
        ({"workers": (2, 4)}, True),
        ({"workers": (2, 4), "grace_seconds": HOUR}, False),
    ],
)
def test_before_it_only_those_start_who_can_be_out_in_time(fields: dict[str, Any], starts: bool) -> None:
    c = Cluster().node("a", 8).booked("b", 7, HOUR, 2 * HOUR)
    c.waiting(1, **{"workers": (2, 2), **fields}).step()
    assert bool(c.size(1)) is starts
    assert c.reason(1) is (None if starts else WaitReason.BEHIND_BOOKING)


def test_those_who_stay_have_what_is_not_booked() -> None:
    c = Cluster().node("a", 8).node("b", 8).booked("b", 2, HOUR, 2 * HOUR, WorkerShape(slots=4))
    for number in range(1, 13):
        c.waiting(number)
    c.waiting(13, time_limit_seconds=60.0).step()
    assert sum(sizes(c, *range(1, 13))) == 8
    assert c.size(13) == 1
    assert c.settle(seconds=1) <= 1


def test_a_time_limit_may_also_begin_after_the_end_of_nothing_booked() -> None:
    c = Cluster().node("a", 8).booked("b", 4, HOUR, 2 * HOUR).booked("c", 8, 3 * HOUR, 4 * HOUR)
    c.waiting(1, workers=(4, 4), time_limit_seconds=2.5 * HOUR)
    c.waiting(2, workers=(4, 4), time_limit_seconds=2.5 * HOUR)
    c.step()
    assert sizes(c, 1, 2) == [4, 0]


def test_a_job_that_stays_does_not_grow_into_what_is_booked() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 2}, workers=(2, 8), preemptible=False).booked("b", 4, HOUR, 2 * HOUR)
    c.settle(seconds=10)
    assert c.size(1) == 4


def test_a_job_that_stays_is_as_large_as_what_is_booked_allows() -> None:
    c = Cluster().node("a", 8).waiting(1, workers=(1, 8), preemptible=False).booked("b", 5, HOUR, 2 * HOUR)
    assert c.settle(seconds=1) > 0
    assert c.size(1) == 3
    c = Cluster().node("a", 8).running(1, {"a": 2}, workers=(1, 8), preemptible=False).booked("b", 5, HOUR, 2 * HOUR)
    c.settle(seconds=60)
    assert c.size(1) == 3
    c = Cluster().node("a", 8).waiting(1, workers=(4, 8), preemptible=False).booked("b", 5, HOUR, 2 * HOUR)
    c.settle(seconds=1)
    assert (c.size(1), c.reason(1)) == (0, WaitReason.BEHIND_BOOKING)


def test_one_who_stays_and_one_who_leaves_come_to_rest_beside_what_is_booked() -> None:
    """Who stays was to have more than what is not booked, got nothing, and who leaves got all, by turns."""
    c = Cluster().node("b", 3).node("c", 3).running(1, {"b": 1, "c": 1}, workers=(2, 3), slots_per_worker=3)
    c.waiting(2, workers=(1, 4), priority=1, preemptible=False).booked("b", 1, -100, HOUR).booked("c", 2, -100, HOUR)
    c.settle(seconds=1)
    assert (c.size(1), c.size(2)) == (0, 3)


def test_victims_shrink_first_the_least_important_and_stop_only_where_that_cannot_do() -> None:
    c = Cluster().node("a", 8).booked("b", 6, CLEAR, HOUR)
    c.running(1, {"a": 4}, workers=(1, 4), priority=1).running(2, {"a": 4}, workers=(2, 4), priority=2)
    made = c.step()
    assert sizes(c, 1, 2) == [0, 2]
    assert made.actions[0] == StopJob(JobId(1), StopReason.BOOKED, None)
    c = Cluster().node("a", 8).booked("b", 4, CLEAR, HOUR)
    c.running(1, {"a": 4}, workers=(1, 4), priority=1).running(2, {"a": 4}, workers=(2, 4), priority=2)
    c.step()
    assert sizes(c, 1, 2) == [1, 3]


def test_what_cannot_be_taken_is_waited_for_and_the_rest_is_held() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 4}, preemptible=False, workers=(4, 4)).booked("b", 8, CLEAR, HOUR)
    c.running(2, {"a": 4}, workers=(1, 4)).waiting(3, workers=(2, 4), booking="b")
    c.step()
    assert sizes(c, 1, 2, 3) == [4, 0, 0]
    c.step(CLEAR)
    assert sizes(c, 1, 2, 3) == [4, 0, 4]
    c.finish(1)
    c.step(1)
    assert c.size(2) == 0


def test_slots_that_nobody_of_the_booking_uses_are_lent_and_taken_back() -> None:
    c = Cluster().node("a", 8).booked("b", 6, 0, HOUR).running(1, {"a": 2}, workers=(1, 8), priority=9)
    c.waiting(2, workers=(3, 3))
    made = c.step()
    assert (sizes(c, 1, 2), made.next_look_at) == ([2, 0], NOW + 60)
    c.step(60)
    assert sizes(c, 1, 2) == [8, 0]
    c.waiting(3, workers=(2, 4), booking="b", priority=-5)
    c.step(10)
    c.step(1)
    assert sizes(c, 1, 3) == [4, 4]


def test_inside_the_window_nobody_takes_from_jobs_of_the_booking() -> None:
    c = Cluster().node("a", 8).booked("b", 8, -HOUR, HOUR).running(1, {"a": 8}, workers=(1, 8), booking="b")
    c.waiting(2, workers=(4, 4), priority=99)
    c.settle()
    assert sizes(c, 1, 2) == [8, 0]
    c.bookings.clear()
    c.settle()
    assert sizes(c, 1, 2) == [4, 4]


def test_a_job_of_a_booking_that_waits_for_slots_that_are_held_for_it_takes_no_others() -> None:
    c = Cluster().node("a", 6).booked("b", 1, -1.0, HOUR)
    c.running(1, {"a": 6}, workers=(1, 40), leaving=1, leave_for=JobId(2))
    c.waiting(2, workers=(1, 6), booking="b", priority=9, reservation=(("a", 1),))
    for _ in range(3):
        assert c.plan().actions == ()
        c.now += 1.0


@pytest.mark.parametrize("booking", ["b", "c"])
def test_jobs_of_bookings_share_what_is_left_of_them_when_nodes_are_drained(booking: str) -> None:
    c = Cluster().node("a", 2).node("b", 2, intent=DRAINING).booked("b", 3, -HOUR, HOUR).booked("c", 1, -HOUR, HOUR)
    c.running(1, {"a": 2}, workers=(1, 2), booking="b").waiting(2, booking=booking)
    made = c.step()
    assert [(type(each), each.job_id) for each in made.actions] == [(Shrink, 1), (Reserve, 2)]
    c.step(1.0)
    assert sizes(c, 1, 2) == [1, 1]


def test_jobs_of_a_booking_have_what_is_booked_and_no_more() -> None:
    c = Cluster().node("a", 8).booked("b", 4, 0, HOUR)
    c.waiting(1, workers=(1, 8), booking="b").waiting(2, workers=(2, 2), booking="b")
    c.waiting(3, workers=(5, 5), booking="b").waiting(4, workers=(1, 8))
    c.settle()
    assert sizes(c, 1, 2, 3) == [2, 2, 0]
    assert c.reason(3) is WaitReason.BOOKING_FULL
    assert c.size(4) == 4
    c.finish(2)
    c.settle()
    assert sizes(c, 1, 4) == [4, 4]


@pytest.mark.parametrize("runtime", list(Runtime))
def test_a_job_of_a_booking_below_its_minimum_gets_no_more_than_its_maximum(runtime: Runtime) -> None:
    c = Cluster().node("a", 8).booked("b", 8, 0.0, HOUR)
    c.running(1, {"a": 1}, workers=(3, 4), runtime=runtime, booking="b")
    job = c.jobs[JobId(1)]
    c.jobs[job.id] = replace(job, spec=replace(job.spec, min_workers=3, max_workers=4))
    made = c.plan(outside_bounds=True)
    assert made.actions == (Grow(JobId(1), (("a", 3),)),)


def test_what_the_minimum_of_a_running_job_lacks_is_not_given_to_another_of_the_booking() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 1}, workers=(3, 3), runtime=Runtime.ELASTIC, booking="b")
    c.waiting(2, workers=(2, 2), booking="b").booked("b", 4, 0.0, HOUR)
    made = c.plan(outside_bounds=True)
    assert made.actions == (Grow(JobId(1), (("a", 2),)),)
    assert made.waiting[JobId(2)].reason is WaitReason.BOOKING_FULL


def test_only_jobs_that_it_admits_belong_to_a_booking() -> None:
    c = Cluster().node("a", 8).booked("b", 8, HOUR, 2 * HOUR, priority_min=5)
    c.waiting(1, booking="b", priority=5, time_limit_seconds=60.0).waiting(
        2, booking="b", priority=4, time_limit_seconds=60.0
    )
    c.step()
    assert sizes(c, 1, 2) == [0, 1]


def test_overlapping_bookings_each_get_theirs() -> None:
    c = Cluster().node("a", 8, gpu_type="x").node("b", 8, gpu_type="y").running(1, {"a": 8}, workers=(1, 8))
    c.running(2, {"b": 8}, workers=(1, 8))
    c.booked("any", 6, CLEAR, HOUR).booked("y", 6, CLEAR, HOUR, WorkerShape(gpu_type="y"))
    c.waiting(3, workers=(6, 6), booking="any").waiting(4, workers=(6, 6), booking="y", gpu_type="y")
    c.step()
    assert sizes(c, 1, 2) == [2, 2]
    c.step(CLEAR)
    assert sizes(c, 3, 4) == [6, 6]


def test_a_node_lost_in_the_window_is_made_up_for_by_others() -> None:
    c = Cluster().node("a", 4).node("b", 4).booked("b", 4, -10, HOUR)
    c.running(1, {"b": 4}, workers=(1, 4), priority=9).waiting(2, workers=(2, 4), booking="b")
    c.step()
    assert sizes(c, 1, 2) == [4, 4]
    del c.jobs[JobId(2)]
    c.node("a", 4, health=DOWN).waiting(2, workers=(2, 4), booking="b")
    c.settle(seconds=5)
    assert sizes(c, 1, 2) == [0, 4]


def test_workers_of_many_slots_find_them_together() -> None:
    c = Cluster().node("a", 8).node("b", 8).booked("b", 8, CLEAR, HOUR)
    c.running(1, {"a": 4, "b": 4}, workers=(1, 8), priority=1).running(2, {"a": 4, "b": 4}, workers=(1, 8), priority=1)
    c.waiting(3, workers=(1, 1), slots_per_worker=8, booking="b")
    c.step()
    c.step(CLEAR)
    assert c.size(3) == 1


def test_while_those_who_leave_are_slow_nobody_else_is_taken_from() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 8}, workers=(1, 8)).booked("b", 4, CLEAR, HOUR)
    enact(c, c.plan(), slowly=True)
    for _ in range(3):
        c.now += 5
        assert c.actions() == []


def test_a_cancelled_booking_leaves_no_trace() -> None:
    c = Cluster().node("a", 8).running(1, {"a": 8}, workers=(1, 8)).booked("b", 4, CLEAR, HOUR)
    c.waiting(2, workers=(2, 2), booking="b")
    c.step()
    assert (c.size(1), c.reason(2)) == (4, WaitReason.BOOKED_LATER)
    c.bookings.clear()
    c.step(10)
    assert c.jobs[JobId(2)].state is JobState.RUNNING


def test_the_lead_is_a_setting() -> None:
    c = Cluster(PolicySettings(booking_lead_seconds=100.0)).node("a", 8).booked("b", 4, HOUR, 2 * HOUR)
    c.running(1, {"a": 8}, workers=(1, 8), grace_seconds=7.0)
    assert c.step().next_look_at == NOW + HOUR - 107


@pytest.mark.parametrize("count", [0, 1, 2, 7, 32, 1000])
def test_pieces_make_up_any_part_of_a_number(count: int) -> None:
    found = list(pieces(count))
    assert sum(found) == count
    for part in range(count + 1):
        left = part
        for piece in found:
            left -= piece if piece <= left else 0
        assert left == 0


def test_a_member_that_finds_no_room_does_not_keep_what_is_booked_from_being_held() -> None:
    c = Cluster().node("a", 4, labels={"zone": "b"}).node("b", 6).booked("exam", 4, -1.0, HOUR)
    c.running(1, {"a": 4}, workers=(4, 4), preemptible=False)
    c.waiting(2, workers=(1, 2), slots_per_worker=2, selector={"zone": "b"}, booking="exam")
    c.waiting(3, workers=(2, 2), slots_per_worker=3, priority=7).step()
    assert sizes(c, 2, 3) == [0, 0]
    c.finish(1)
    c.step()
    assert sizes(c, 2, 3) == [2, 2]


def test_a_member_that_finds_no_room_to_grow_does_not_keep_the_rest_from_being_held() -> None:
    c = Cluster().node("a", 2, labels={"zone": "a"}).node("b", 7).booked("exam", 3, -1.0, HOUR, WorkerShape(slots=2))
    c.running(1, {"a": 2}, workers=(1, 3), selector={"zone": "a"}, booking="exam")
    c.waiting(2, workers=(2, 6), slots_per_worker=2, priority=8).step()
    assert sizes(c, 1, 2) == [2, 0]


def test_a_member_on_shared_slots_gets_none_of_its_own_besides() -> None:
    c = Cluster().node("a", 4, oversell=2.0).booked("exam", 4, -1.0, HOUR)
    c.running(1, {"a": 2}, workers=(1, 6), oversell=True, shared=True, booking="exam").step()
    assert {worker.shared for worker in c.jobs[JobId(1)].workers} == {True}


def test_slots_of_its_own_that_a_member_on_shared_slots_may_not_have_are_lent() -> None:
    c = Cluster().node("a", 8, oversell=2.0).booked("exam", 8, -1000.0, HOUR)
    c.running(1, {"a": 2}, workers=(2, 8), oversell=True, shared=True, booking="exam").waiting(2, workers=(1, 8))
    c.settle()
    assert sizes(c, 1, 2) == [2, 8]


def test_beside_what_is_booked_the_first_in_the_queue_has_what_is_left() -> None:
    """A reservation of one behind it once counted first: it was started for by stopping others, and those again."""
    c = Cluster().node("a", 4, gpu_type="y").node("b", 1, gpu_type="x").node("c", 6, gpu_type="x")
    c.booked("b", 4, -100, 2000)
    c.running(1, {"c": 2}, workers=(2, 2)).running(2, {"a": 3}, workers=(2, 3)).running(3, {"b": 1})
    c.running(5, {"c": 1}).waiting(6).running(7, {"c": 1}, slots_per_worker=3, booking="b")
    c.waiting(4, workers=(4, 4), priority=1)
    assert c.settle(seconds=0.01) <= 3
    assert sizes(c, 4, 1, 3, 5) == [4, 0, 0, 0]
