"""Room for processes of others: who leaves for them, and what stays free until they come."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import PolicyName, PolicySettings
from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.job_state import StopReason, WaitReason
from scheduler.model.plan import Action, Grow, Shrink, Start, StopJob, Waiting
from scheduler.model.worker import LeaveReason
from scheduler.policy.explain.held_slots import Keeper, Look
from scheduler.policy.planner import Planner, planned
from tests.policy.worlds import Cluster


def shrink(job: int, *ordinals: int) -> Shrink:
    return Shrink(JobId(job), tuple(WorkerId(f"{job}-{k}") for k in ordinals), LeaveReason.FOREIGN)


def stop(job: int) -> StopJob:
    return StopJob(JobId(job), StopReason.FOREIGN)


def test_free_room_is_kept_for_them() -> None:
    c = Cluster().node("a", 4).demand("web", 3).waiting(1, workers=(1, 4))
    assert c.actions() == [Start(JobId(1), ((NodeName("a"), 1),))]
    c = Cluster().node("a", 4).demand("web", 3).running(1, {"a": 1}, workers=(1, 4))
    assert c.actions() == []


def test_what_they_hold_is_not_there() -> None:
    c = Cluster().node("a", 4).waiting(1, workers=(1, 4))
    c.foreign[NodeName("a")] = ForeignUse(slots=3)
    assert c.actions() == [Start(JobId(1), ((NodeName("a"), 1),))]


def test_cpus_and_memory_of_others_count_too() -> None:
    c = Cluster().node("a", 4, cpus=8.0, memory_mib=8000).waiting(1, workers=(1, 4), cpus=2.0, memory_mib=1000)
    c.foreign[NodeName("a")] = ForeignUse(cpus=4.0)
    assert c.actions() == [Start(JobId(1), ((NodeName("a"), 2),))]
    c.foreign[NodeName("a")] = ForeignUse(memory_mib=7000)
    assert c.actions() == [Start(JobId(1), ((NodeName("a"), 1),))]


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        (1, [shrink(2, 4)]),
        (3, [shrink(2, 4, 3, 2)]),
        (4, [shrink(1, 4), shrink(2, 4, 3, 2)]),
        (7, [stop(2), shrink(1, 4, 3, 2)]),
        (8, [stop(1), stop(2)]),
    ],
)
def test_the_least_important_shrink_first_and_stop_last(slots: int, expected: list[Action]) -> None:
    c = Cluster().node("a", 8).demand("web", slots)
    c.running(1, {"a": 4}, workers=(1, 4), priority=5).running(2, {"a": 4}, workers=(1, 4))
    assert sorted(c.actions(), key=repr) == sorted(expected, key=repr)


def test_several_are_served_in_their_order() -> None:
    c = Cluster().node("a", 4).demand("first", 3).demand("second", 3).running(1, {"a": 4}, workers=(1, 4))
    assert c.actions() == [shrink(1, 4, 3, 2)]


@given(
    st.sampled_from([0.05, 0.5, 1.0]), st.sampled_from([0.1, 0.5, 2.0]), st.integers(1, 8), st.sampled_from([None, "a"])
)
def test_who_needs_no_slots_may_be_where_none_are_left(held: float, wanted: float, cpus: int, only: str | None) -> None:
    """Workers leave only for what CPUs lack."""
    workers = min(2, int(cpus / held))
    c = Cluster().node("a", workers, cpus=float(cpus)).running(1, {"a": workers}, workers=(1, 2), cpus=held)
    c.demand("d", 0, cpus=wanted, nodes=only and [only])
    fits = wanted <= cpus - workers * held + 1e-9
    made = c.plan()
    assert (made.actions == ()) == (fits or wanted > cpus), c


@pytest.mark.parametrize("name", get_args(PolicyName))
def test_under_every_policy_workers_leave_for_who_needs_no_slots(name: PolicyName) -> None:
    c = Cluster(PolicySettings(name=name)).node("a", 4, cpus=4.0).node("b", 4, cpus=4.0)
    c.running(1, {"a": 4}, cpus=1.0, workers=(4, 4)).waiting(2).demand("d", 0, cpus=1.0, nodes=["a"])
    assert c.actions()[0] == stop(1)


def test_who_may_not_be_preempted_stays() -> None:
    c = Cluster().node("a", 4).demand("web", 1).running(1, {"a": 4}, workers=(1, 4), preemptible=False)
    assert c.actions() == []


def test_nobody_leaves_where_it_would_not_be_enough() -> None:
    c = Cluster().node("a", 4).demand("web", 4)
    c.running(1, {"a": 2}, workers=(1, 2)).running(2, {"a": 2}, workers=(2, 2), preemptible=False)
    assert c.actions() == []


def test_slots_that_are_being_freed_are_waited_for() -> None:
    c = Cluster().node("a", 4).demand("web", 2).running(1, {"a": 4}, workers=(1, 4), leaving=2)
    assert c.actions() == []


def test_only_nodes_that_it_may_use_count() -> None:
    c = Cluster().node("a", 4).node("b", 4).demand("web", 2, nodes=["b"])
    c.running(1, {"a": 2, "b": 4}, workers=(1, 8))
    assert c.actions() == [shrink(1, 6, 5)]


def test_one_that_wants_more_than_any_node_has_harms_nobody() -> None:
    c = Cluster().node("a", 4).demand("web", 5).running(1, {"a": 2}, workers=(1, 4))
    assert c.actions() == [Grow(JobId(1), ((NodeName("a"), 2),))]


def test_one_that_was_not_taken_up_does_not_count() -> None:
    c = Cluster().node("a", 4).demand("web", 3, ignored_until=2e9).waiting(1, workers=(4, 4))
    assert c.actions() == [Start(JobId(1), ((NodeName("a"), 4),))]


def test_reasons_name_no_job_that_does_not_exist() -> None:
    c = Cluster().node("a", 4).demand("web", 3).running(1, {"a": 2}, workers=(1, 3), leaving=1)
    c.waiting(2, workers=(2, 2))
    assert c.plan().waiting[JobId(2)] == Waiting(WaitReason.BEHIND_FOREIGN)


def test_what_is_booked_goes_before() -> None:
    c = (
        Cluster()
        .node("a", 4)
        .booked("exam", 4, -1.0, 3600.0)
        .demand("web", 2)
        .waiting(1, workers=(4, 4), booking="exam")
    )
    assert c.actions() == [Start(JobId(1), ((NodeName("a"), 4),))]


def test_what_is_kept_free_is_told_apart() -> None:
    c = Cluster().node("a", 8).booked("exam", 4, -1.0, 3600.0).demand("web", 2).demand("db", 1)
    look = Look(*planned(c.world(), c.now, c.settings))
    assert look.kept() == [(Keeper(booking="exam"), 4), (Keeper(), 3)]


def test_a_planner_that_saw_other_demands_decides_the_same() -> None:
    c = Cluster().node("a", 4).node("b", 4).running(1, {"a": 4}, workers=(1, 8)).waiting(2, workers=(2, 2))
    planner = Planner(c.settings)
    worlds = [c.world(), c.demand("web", 2).world(), c.demand("db", 3, nodes=["b"]).world()]
    c.foreign[NodeName("b")] = ForeignUse(slots=1)
    worlds += [c.world(), worlds[0]]
    for world in worlds:
        assert planner.plan(world, c.now) == Planner(c.settings).plan(world, c.now)
