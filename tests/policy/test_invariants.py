"""The checks find what is broken, and name it."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.node_usage import NodeUsage
from scheduler.model.plan import Action, Grow, Plan, Release, Reserve, Shrink, Start, StopJob, Waiting
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason, WorkerState
from scheduler.model.world import World
from scheduler.policy.checks.invariants import check_plan, check_world
from tests.policy.worlds import CORDONED, NOW, Cluster


def cluster() -> Cluster:
    """Job 1 is elastic on a, job 2 waits, job 3 is being stopped, node b is cordoned, node c is of another type."""
    c = Cluster().node("a", 8, cpus=8.0, memory_mib=8).node("b", 8, intent=CORDONED).node("c", 8, gpu_type="y")
    c.running(1, {"a": 3}, workers=(2, 4), cpus=1.0, memory_mib=1)
    c.waiting(2, workers=(2, 3), priority=5, wait_reason=WaitReason.INSUFFICIENT_SLOTS)
    return c.running(3, {"a": 1}, state=JobState.STOPPING)


def found(c: Cluster, *actions: Action, waiting: Any = None) -> set[str]:
    made = Plan(actions, waiting or {})
    return {violation.invariant for violation in check_plan(c.world(), made, NOW, c.settings)}


def test_only_what_a_plan_takes_has_to_be_there() -> None:
    c = cluster()
    c.foreign[NodeName("a")] = ForeignUse(memory_mib=100)
    assert found(c, Start(2, (("a", 2),))) == set()  # type: ignore[arg-type]
    assert found(c, Grow(1, (("a", 1),))) == {"I1"}  # type: ignore[arg-type]


def test_a_sound_world_and_plan_have_no_violations() -> None:
    c = cluster()
    assert check_world(c.world(), NOW) == []
    assert found(c, Start(2, (("a", 2),))) == set()  # type: ignore[arg-type]
    assert found(c, Grow(1, (("a", 1),))) == set()  # type: ignore[arg-type]


@pytest.mark.parametrize(("shared", "broken"), [(False, set()), (True, {"I5"})])
def test_a_sharer_stops_for_an_equal_that_keeps_slots_of_its_own(shared: bool, broken: set[str]) -> None:
    c = Cluster().node("a", 4, cpus=2.0, oversell=2.0)
    c.running(1, {"a": 1}, cpus=1.0, oversell=True, shared=True)
    waits: dict[str, Any] = {"wait_reason": WaitReason.WAITING_FOR_VICTIMS, "reservation_shared": shared}
    c.waiting(2, cpus=1.0, oversell=True, reservation=(("a", 1),), **waits)
    assert found(c, StopJob(1, StopReason.REBALANCED, 2)) == broken  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("foreign", "taken", "broken"), [(1, 1, set()), (1, 2, {"I11"}), (3, 1, set()), (3, 2, {"I11"})]
)
def test_beside_two_bookings_only_what_neither_could_have_is_free(foreign: int, taken: int, broken: set[str]) -> None:
    """What others leave of seven slots is too little for 1 and 3 × 2: of six and of four, all but one serve."""
    c = Cluster().node("a", 7).booked("early", 1, 0.0, 600.0).booked("late", 3, 0.0, 300.0, WorkerShape(2))
    c.foreign[NodeName("a")] = ForeignUse(slots=foreign)
    c.waiting(1, workers=(1, 4))
    assert found(c, Start(1, (("a", taken),))) == broken  # type: ignore[arg-type]
    if not broken:
        c.step()
        assert c.size(1) == taken


def test_what_is_held_for_a_job_of_the_booking_serves_it_whatever_the_shape_of_its_workers() -> None:
    """Two workers of three slots need both nodes, on which three workers of two slots would leave one slot."""
    c = Cluster().node("a", 4).node("b", 3).booked("night", 3, 0.0, 300.0, WorkerShape(2)).waiting(2)
    c.waiting(1, workers=(2, 2), slots_per_worker=3, booking="night", wait_reason=WaitReason.INSUFFICIENT_SLOTS)
    taken = Start(2, (("a", 1),))  # type: ignore[arg-type]
    assert found(c, Reserve(1, (("a", 1), ("b", 1))), taken) == set()  # type: ignore[arg-type]
    c.jobs[JobId(1)] = replace(c.jobs[JobId(1)], reservation=((NodeName("a"), 1), (NodeName("b"), 1)))
    assert found(c, taken) == set()
    assert found(c, Release(1), taken) == {"I11"}  # type: ignore[arg-type]


def test_what_a_job_of_the_booking_that_pauses_starts_with_serves_it_whatever_the_shape_that_was_booked() -> None:
    """After its pause it starts with a worker of three slots, for which one node is enough."""
    c = Cluster().node("a", 3).node("b", 3).booked("night", 2, 0.0, 300.0, WorkerShape(2)).waiting(2, workers=(1, 4))
    c.waiting(1, slots_per_worker=3, booking="night", not_before=NOW + 100.0)
    c.step()
    assert c.size(2) == 2
    c.jobs[JobId(2)] = replace(c.jobs[JobId(2)], state=JobState.QUEUED, workers=())
    assert found(c, Start(2, (("a", 2), ("b", 2)))) == {"I11"}  # type: ignore[arg-type]
    c.jobs[JobId(1)] = replace(c.jobs[JobId(1)], not_before=0.0)
    assert found(c, Start(2, (("b", 2),))) == {"I11"}  # type: ignore[arg-type]


def test_what_a_job_of_the_booking_could_use_serves_it_whatever_the_shape_that_was_booked() -> None:
    """Of eight slots a job has one and could use four more; the other three are two and one, of which b has four."""
    c = Cluster().node("a", 4).node("b", 4).node("c", 1).booked("spring", 4, 0.0, 300.0, WorkerShape(2))
    c.running(1, {"a": 1}, workers=(1, 5), booking="spring").waiting(2)
    assert found(c, Start(2, (("b", 1),))) == set()  # type: ignore[arg-type]
    c.jobs[JobId(1)] = replace(c.jobs[JobId(1)], max_workers=1)
    assert found(c, Start(2, (("b", 1),))) == {"I11"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("actions", "invariant"),
    [
        ((Start(2, (("a", 2),)), Reserve(2, (("a", 2),))), "PLAN"),
        ((Grow(1, (("a", 1),)), StopJob(1, StopReason.DRAINED)), "PLAN"),
        ((Start(2, (("a", 2),)), Shrink(1, ("1-3",), LeaveReason.SCALED)), "PLAN"),
        ((Start(9, (("a", 2),)),), "PLAN"),
        ((Start(1, (("a", 2),)),), "PLAN"),
        ((Start(2, (("a", 1),)),), "I2"),
        ((Start(2, (("a", 4),)),), "I2"),
        ((Reserve(2, (("a", 3),)),), "I2"),
        ((Start(2, (("a", 1), ("a", 1))),), "PLAN"),
        ((Start(2, (("b", 2),)),), "I1"),
        ((Start(2, (("nowhere", 2),)),), "I1"),
        ((Start(2, (("a", 1), ("c", 1))),), "I1"),
        ((Grow(1, (("c", 1),)),), "I1"),
        ((Grow(1, (("a", 2),)),), "I2"),
        ((Grow(3, (("a", 1),)),), "PLAN"),
        ((Shrink(1, ("1-2", "1-3"), LeaveReason.SCALED),), "I2"),
        ((Shrink(1, ("1-9",), LeaveReason.SCALED),), "PLAN"),
        ((Shrink(1, (), LeaveReason.SCALED),), "PLAN"),
        ((Shrink(3, ("3-1",), LeaveReason.SCALED),), "PLAN"),
        ((StopJob(3, StopReason.DRAINED),), "PLAN"),
        ((StopJob(2, StopReason.DRAINED),), "PLAN"),
        ((Release(2),), "PLAN"),
        ((Shrink(1, ("1-3",), LeaveReason.PREEMPTED, 2),), "I5"),
        ((StopJob(1, StopReason.PREEMPTED),), "I5"),
        ((StopJob(9, StopReason.PREEMPTED),), "PLAN"),
    ],
)
def test_a_broken_plan_is_named(actions: Any, invariant: str) -> None:
    assert invariant in found(cluster(), *actions)


@pytest.mark.parametrize("spared", [{"priority": 5}, {"preemptible": False}])
def test_taking_from_who_may_not_be_taken_from_is_found(spared: dict[str, Any]) -> None:
    c = cluster().running(1, {"a": 3}, workers=(2, 4), **spared)
    actions = (Shrink(1, ("1-3",), LeaveReason.PREEMPTED, 2), Reserve(2, (("a", 2),)))  # type: ignore[arg-type]
    assert found(c, *actions) == {"I5"}


@pytest.mark.parametrize("name", ["fifo", "elastic-fifo", "afs", "elastic"])
def test_equals_share_by_shrinking_and_stop_for_each_other_only_where_the_policy_says_so(name: Any) -> None:
    waits: dict[str, Any] = {"workers": (2, 3), "wait_reason": WaitReason.INSUFFICIENT_SLOTS}
    c = cluster().running(1, {"a": 3}, workers=(2, 4), priority=1).waiting(2, priority=1, **waits)
    shrink = Shrink(1, ("1-3",), LeaveReason.REBALANCED, 2)  # type: ignore[arg-type]
    stop = StopJob(1, StopReason.REBALANCED, 2)  # type: ignore[arg-type]
    served = Reserve(2, (("a", 2),))  # type: ignore[arg-type]
    c.settings = PolicySettings(name=name)
    assert (found(c, shrink, served), found(c, stop, served)) == (set(), {"I5"})
    assert found(c, shrink) == {"I5"}
    c.settings = PolicySettings(name="tiresias")
    assert found(c, stop, served) == set()
    c.waiting(2, priority=0, **waits)
    assert found(c, shrink, served) == {"I5"}


def test_more_than_is_free_or_held_by_others_is_found() -> None:
    c = cluster().waiting(4, workers=(5, 9), priority=1, wait_reason=WaitReason.INSUFFICIENT_SLOTS)
    assert found(c, Start(4, (("a", 5),))) == {"I1"}  # type: ignore[arg-type]
    assert found(c, Reserve(4, (("a", 5),))) == set()  # type: ignore[arg-type]
    assert found(c, Reserve(4, (("a", 5),)), Start(2, (("a", 2),))) == {"I1"}  # type: ignore[arg-type]
    c.waiting(4, workers=(5, 9), reservation=(("b", 5),), wait_reason=WaitReason.WAITING_FOR_VICTIMS)
    assert found(c) == {"I1"}


def test_a_job_without_a_reason_or_with_a_wrong_one_is_found() -> None:
    c = cluster().waiting(2, workers=(2, 3))
    told = Waiting(WaitReason.INSUFFICIENT_SLOTS)
    assert found(c) == {"PLAN"}
    assert found(c, waiting={2: told}) == set()
    assert found(c, waiting={2: told, 1: told}) == {"PLAN"}
    assert found(c, Start(2, (("a", 2),)), waiting={2: told}) == {"PLAN"}  # type: ignore[arg-type]


def broken_world(number: int, index: int | None = None, **fields: Any) -> set[str]:
    """What is found when a job, or one of its workers, has these fields."""
    c = cluster()
    job = c.jobs[number]  # type: ignore[index]
    if index is None:
        job = replace(job, **fields)
    else:
        workers = list(job.workers)
        workers[index] = replace(workers[index], **fields)
        job = replace(job, workers=tuple(workers))
    c.jobs[job.id] = job
    return {violation.invariant for violation in check_world(c.world(), NOW)}


@pytest.mark.parametrize(
    ("index", "fields", "invariant"),
    [
        (0, {"node": "nowhere"}, "I1"),
        (0, {"slot_ids": (1,)}, "I1"),
        (0, {"slot_ids": (8,)}, "I1"),
        (0, {"slot_ids": (5, 5)}, "I1"),
        (0, {"cpus": 9.0}, "I1"),
        (0, {"memory_mib": 9}, "I1"),
        (0, {"id": "1-2"}, "I4"),
        (0, {"job_id": 7}, "I4"),
        (0, {"state": WorkerState.LOST}, "I4"),
        (0, {"rank": 1}, "I4"),
        (None, {"state": JobState.QUEUED}, "I4"),
        (None, {"min_workers": 4}, "I2"),
        (None, {"max_workers": 2}, "I2"),
        (None, {"min_workers": 0}, "I2"),
    ],
)
def test_a_broken_world_is_named(index: int | None, fields: dict[str, Any], invariant: str) -> None:
    assert invariant in broken_world(1, index, **fields)


def test_an_index_that_does_not_match_is_found() -> None:
    world = cluster().world()
    usage = {**world.usage, "a": NodeUsage(1, 0.0, 0, 1)}
    assert [v.invariant for v in check_world(replace(world, usage=usage), NOW)] == ["INDEX"]  # type: ignore[arg-type]
    misplaced = World(queued=world.active, nodes=world.nodes, usage=world.usage)
    assert "INDEX" in {v.invariant for v in check_world(misplaced, NOW)}
