"""Why a running job has no more workers: never another reason than the planner's."""

from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.plan import Grow
from scheduler.model.shape import WorkerShape
from scheduler.policy.explain.growth_limits import Growth, GrowthLimits, Limit
from scheduler.policy.explain.held_slots import Keeper, Look
from scheduler.policy.explain.shortage import Lack
from scheduler.policy.planner import planned
from tests.policy.worlds import CORDONED, NOW, Cluster


def growth(c: Cluster, number: int = 1) -> Growth:
    """What is said of the job; where the planner lets it grow, and only there, nothing limits it."""
    world = c.world()
    seen = Look(*planned(world, c.now, c.settings))
    found = GrowthLimits(world, c.now, c.settings, seen).of(c.jobs[JobId(number)])
    grows = any(isinstance(action, Grow) and action.job_id == number for action in c.plan().actions)
    assert (found.limit is Limit.NOTHING) == grows
    assert seen.plan == c.plan()
    return found


def elastic(c: Cluster, on: dict[str, int], most: int = 8, **fields: Any) -> Cluster:
    return c.running(1, on, workers=(1, most), **fields)


def test_a_job_with_room_and_no_reason_grows() -> None:
    assert growth(elastic(Cluster().node("a", 4), {"a": 2})).limit is Limit.NOTHING


def test_a_job_at_its_maximum_is_not_limited_by_slots() -> None:
    assert growth(elastic(Cluster().node("a", 4), {"a": 2}, most=2)).limit is Limit.MAXIMUM


@pytest.mark.parametrize(
    ("node", "shape", "lack"),
    [
        ({"slots": 2}, {}, Lack.SLOTS),
        ({"slots": 4, "cpus": 2.0}, {"cpus": 1.0}, Lack.CPUS),
        ({"slots": 4, "cpus": 8.0, "memory_mib": 200}, {"cpus": 1.0, "memory_mib": 100}, Lack.MEMORY),
    ],
)
def test_it_names_what_one_more_worker_lacks(node: dict[str, Any], shape: dict[str, Any], lack: Lack) -> None:
    found = growth(elastic(Cluster().node("a", **node), {"a": 2}, **shape))
    assert (found.limit, found.lack, found.slots) == (Limit.NO_ROOM, lack, node["slots"] - 2)


def test_slots_that_are_free_on_too_many_nodes_are_of_no_use() -> None:
    c = Cluster().node("a", 3).node("b", 3)
    found = growth(elastic(c, {"a": 1, "b": 1}, slots_per_worker=2))
    assert (found.limit, found.lack, found.slots) == (Limit.NO_ROOM, Lack.SPLIT, 2)


def test_slots_of_another_gpu_type_or_on_closed_nodes_are_no_room() -> None:
    c = Cluster().node("a", 2, gpu_type="A").node("b", 4, gpu_type="B").node("c", 4, gpu_type="A", intent=CORDONED)
    found = growth(elastic(c, {"a": 2}))
    assert (found.limit, found.lack, found.slots) == (Limit.NO_ROOM, Lack.SLOTS, 0)


def test_a_job_that_shares_gets_no_slots_of_its_own() -> None:
    c = Cluster().node("a", 4, oversell=1.25)
    found = growth(elastic(c, {"a": 1}, oversell=True, shared=True))
    assert (found.limit, found.lack, found.slots) == (Limit.NO_ROOM, Lack.SLOTS, 0)


def test_a_fixed_group_uses_up_cpus() -> None:
    group = FixedGroup(replicas=2, command=("serve",), shape=WorkerShape(slots=0, cpus=1.5))
    c = Cluster().node("a", 4, cpus=4.0)
    found = growth(elastic(c, {"a": 2}, cpus=0.5, fixed=group, fixed_on={"a": 2}))
    assert (found.limit, found.lack) == (Limit.NO_ROOM, Lack.CPUS)


def test_what_is_held_for_a_waiting_job_names_it() -> None:
    c = elastic(Cluster().node("a", 4), {"a": 1}, priority=1)
    c.running(2, {"a": 2}, workers=(1, 2), leaving=1, leave_for=JobId(3), priority=1)
    c.waiting(3, workers=(2, 2), priority=9, reservation=(("a", 2),))
    found = growth(c)
    assert (found.limit, found.holder) == (Limit.RESERVED, 3)


def test_a_cool_down_lasts_as_long_as_the_job_s_resizes_ask_for() -> None:
    c = Cluster(PolicySettings(grow_cooldown_seconds=2.0, grow_cooldown_factor=2.0, grow_payback_factor=0.0))
    elastic(c.node("a", 4), {"a": 2}, last_resize_at=NOW - 5.0, resize_seconds=10.0)
    found = growth(c)
    assert (found.limit, found.until) == (Limit.COOLDOWN, NOW + 15.0)


def test_a_resize_that_does_not_pay_back_is_told_as_that() -> None:
    c = Cluster(PolicySettings(grow_cooldown_factor=0.0, grow_payback_factor=48.0))
    elastic(c.node("a", 4), {"a": 2}, expected_seconds=10.0, resize_seconds=100.0)
    assert growth(c).limit is Limit.PAYBACK


def test_a_job_that_has_not_told_its_speed_tries_no_more_before_a_while() -> None:
    c = Cluster(PolicySettings(unmeasured_workers=2, measure_seconds=30.0))
    elastic(c.node("a", 4), {"a": 2}, runtime=Runtime.ELASTIC, running_at=NOW - 10.0)
    found = growth(c)
    assert (found.limit, found.until) == (Limit.UNTRIED, NOW + 20.0)


def test_a_job_near_its_end_stays_as_it_is() -> None:
    c = Cluster(PolicySettings(near_end_seconds=5.0))
    assert growth(elastic(c.node("a", 4), {"a": 2}, time_limit_seconds=1002.0)).limit is Limit.NEAR_END


def test_booked_slots_are_kept_for_their_booking() -> None:
    c = Cluster().node("a", 4).booked("exam", 3, -10.0, 600.0)
    found = growth(elastic(c, {"a": 1}))
    assert (found.limit, found.keeper) == (Limit.KEPT, Keeper(booking="exam"))
    assert Look(*planned(c.world(), c.now, c.settings)).kept() == [(Keeper(booking="exam"), 3)]


def test_a_job_inside_its_booking_has_no_more_than_what_is_booked() -> None:
    c = Cluster().node("a", 4).booked("exam", 2, -10.0, 600.0)
    assert growth(elastic(c, {"a": 2}, booking="exam")).limit is Limit.BOOKING_FULL


def test_slots_that_others_of_the_cluster_wait_for_are_kept_for_them() -> None:
    c = Cluster().node("a", 4).demand("theirs", 3)
    found = growth(elastic(c, {"a": 1}))
    assert (found.limit, found.keeper) == (Limit.KEPT, Keeper())


def test_what_a_blocked_job_will_need_is_kept_for_it() -> None:
    c = Cluster().node("a", 4).running(2, {"a": 2}, workers=(2, 2), time_limit_seconds=1600.0, preemptible=False)
    elastic(c, {"a": 1}, preemptible=False, priority=3)
    c.waiting(3, workers=(3, 3), priority=3)
    found = growth(c)
    assert (found.limit, found.keeper) == (Limit.KEPT, Keeper(for_job=JobId(3)))
    assert Look(*planned(c.world(), c.now, c.settings)).kept_back() == (Keeper(for_job=JobId(3)), 1)


def test_without_the_planner_s_look_less_is_said() -> None:
    c = elastic(Cluster().node("a", 4).booked("exam", 3, -10.0, 600.0), {"a": 1})
    found = GrowthLimits(c.world(), c.now, c.settings).of(c.jobs[JobId(1)])
    assert (found.limit, found.slots) == (Limit.UNKNOWN, 3)
