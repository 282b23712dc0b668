"""The checks of queues find what is broken, and name it."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.fixed import FixedGroup
from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Action, Grow, Plan, Reserve, Shrink, Start, StopJob
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.policy.checks.invariants import check_plan
from scheduler.policy.planner import plan
from tests.policy.worlds import CORDONED, LONG_AGO, NOW, Cluster, enact

WAITS: dict[str, Any] = {"wait_reason": WaitReason.INSUFFICIENT_SLOTS}


def found(c: Cluster, *actions: Action) -> set[str]:
    return {violation.invariant for violation in check_plan(c.world(), Plan(actions), NOW, c.settings)}


def start(number: int, node: str, workers: int) -> Start:
    return Start(JobId(number), ((node, workers),))  # type: ignore[arg-type]


def grow(number: int, node: str, workers: int) -> Grow:
    return Grow(JobId(number), ((node, workers),))  # type: ignore[arg-type]


def taken(victim: int, workers: list[int], taker: int, reason: LeaveReason = LeaveReason.RECLAIMED) -> Shrink:
    return Shrink(JobId(victim), tuple(f"{victim}-{k}" for k in workers), reason, JobId(taker))  # type: ignore[misc]


def reserve(number: int, node: str, workers: int) -> Reserve:
    return Reserve(JobId(number), ((node, workers),))  # type: ignore[arg-type]


def limited() -> Cluster:
    """`lab` holds 4 of 6 slots, one of them leaving and one on a cordoned node."""
    c = Cluster().node("a", 8).node("b", 2, intent=CORDONED).queue("lab", limit=6).queue("lab/one", user_limit=5)
    c.running(1, {"a": 3}, workers=(1, 8), leaving=1, queue="lab/one", user="ann")
    c.running(2, {"b": 1}, queue="lab/one", user="ann")
    return c.waiting(3, workers=(1, 3), queue="lab/one", user="ann", **WAITS).waiting(4, queue="lab", **WAITS)


def test_limits_count_leaving_workers_and_all_nodes() -> None:
    c = limited()
    assert found(c, start(3, "a", 1)) == set()
    assert found(c, start(3, "a", 1), start(4, "a", 1)) == set()
    assert found(c, start(3, "a", 2)) == {"I13"}, "ann may have 5"
    assert found(c, start(3, "a", 1), grow(1, "a", 1)) == {"I13"}
    assert found(c, taken(1, [2], 3, LeaveReason.REBALANCED), start(3, "a", 2)) >= {"I13"}, "it is there still"


def test_published_policies_know_no_queues() -> None:
    c = limited()
    c.settings = PolicySettings(name="fifo")
    assert found(c, start(3, "a", 3)) == set()


def test_a_limit_of_a_gpu_type_counts_jobs_that_ask_for_none() -> None:
    c = Cluster().node("h", 8, gpu_type="H100").node("a", 8, gpu_type="A100").queue("lab", limit={"H100": 4})
    c.waiting(1, workers=(1, 8), queue="lab", **WAITS)
    assert found(c, start(1, "h", 4)) == found(c, start(1, "a", 8)) == set()
    assert found(c, start(1, "h", 5)) == {"I13"}


def test_above_a_lowered_limit_nothing_is_given() -> None:
    c = Cluster().node("a", 8).queue("lab", limit=2).running(1, {"a": 4}, workers=(1, 8), queue="lab")
    assert found(c) == set()
    assert found(c, grow(1, "a", 1)) == {"I13"}


def test_jobs_that_are_not_preemptible_need_a_guarantee() -> None:
    c = Cluster().node("a", 8).queue("left", guarantee=4).queue("right")
    c.waiting(1, workers=(1, 5), queue="left", preemptible=False, **WAITS)
    c.waiting(2, queue="right", preemptible=False, **WAITS).running(3, {"a": 1}, queue="left", preemptible=False)
    assert found(c, start(1, "a", 3)) == set()
    assert found(c, start(1, "a", 4)) == found(c, start(2, "a", 1)) == {"I15"}


@pytest.mark.parametrize(("state", "broken"), [(JobState.RUNNING, {"I15"}), (JobState.STOPPING, set())])
def test_the_fixed_group_of_a_job_that_is_stopping_needs_no_guarantee_any_more(
    state: JobState, broken: set[str]
) -> None:
    c = Cluster().node("a", 8).queue("left", guarantee=4)
    fixed = FixedGroup(1, ("serve",), shape=WorkerShape(2))
    stopping = state is JobState.STOPPING
    c.running(1, {"a": 1}, queue="left", preemptible=False, fixed=fixed, fixed_on={"a": 1}, leaving=int(stopping))
    c.jobs[JobId(1)] = replace(c.jobs[JobId(1)], state=state, stop_reason=StopReason.TIME_LIMIT if stopping else None)
    c.waiting(2, workers=4, queue="left", preemptible=False, **WAITS)
    assert found(c, start(2, "a", 4)) == broken


def borrowed(settings: PolicySettings | None = None, **taker: Any) -> Cluster:
    """`right` holds everything; `left` wants up to six slots and is guaranteed two, all would be four."""
    c = Cluster(settings).node("a", 8).queue("left", guarantee=2).queue("right")
    c.running(1, {"a": 4}, workers=(2, 8), queue="right").running(2, {"a": 4}, workers=4, queue="right")
    return c.waiting(3, queue="left", **{"workers": 1, **WAITS, **taker}).waiting(4, workers=5, queue="left", **WAITS)


def test_what_is_lent_is_taken_back_up_to_what_a_queue_is_entitled_to() -> None:
    c = borrowed(workers=2)
    assert found(c, taken(1, [3, 4], 3), reserve(3, "a", 2)) == set()
    assert found(c, taken(1, [3, 4], 3)) == {"I14"}, "nobody gets it"
    stop = StopJob(JobId(2), StopReason.RECLAIMED, JobId(3))
    assert found(c, stop, reserve(3, "a", 2)) == set()
    above = borrowed(workers=6)
    assert "I14" in found(above, taken(1, [3, 4], 3), stop, reserve(3, "a", 6)), "5 are its entitlement"


def test_a_queue_keeps_what_it_is_entitled_to() -> None:
    c = Cluster().node("a", 8).queue("left").queue("right")
    c.running(1, {"a": 3}, workers=(1, 8), queue="left").running(2, {"a": 5}, workers=(1, 8), queue="right")
    assert found(c, taken(2, [5], 1)) == set()
    assert found(c, taken(2, [4, 5], 1)) == {"I14"}
    assert found(c, taken(1, [3], 2)) == {"I14"}


def test_for_a_fair_share_jobs_are_stopped_after_the_time_that_a_setting_says_only() -> None:
    stop = StopJob(JobId(2), StopReason.RECLAIMED, JobId(3))
    for after, broken in ((None, {"I14"}), (NOW - LONG_AGO + 1, {"I14"}), (NOW - LONG_AGO, set())):
        c = borrowed(PolicySettings(fair_stop_seconds=after), workers=3)
        assert found(c, stop, reserve(3, "a", 3)) == broken


@pytest.mark.parametrize("reason", [LeaveReason.PREEMPTED, LeaveReason.REBALANCED])
def test_importance_takes_inside_a_queue_only(reason: LeaveReason) -> None:
    c = borrowed(priority=5)
    assert found(c, taken(1, [4], 3, reason), reserve(3, "a", 1)) == {"I14"}
    c.jobs[JobId(3)] = replace(c.jobs[JobId(3)], spec=replace(c.jobs[JobId(3)].spec, queue="right"))
    assert found(c, taken(1, [4], 3, reason), reserve(3, "a", 1)) == set()
    assert found(c, taken(1, [4], 3), reserve(3, "a", 1)) == {"I14"}, "its own queue lent nothing"


def test_nobody_takes_from_jobs_that_are_not_preemptible() -> None:
    c = borrowed().running(1, {"a": 0}, workers=(2, 8), queue="right")
    c.jobs[JobId(1)] = replace(borrowed().jobs[JobId(1)], spec=replace(c.jobs[JobId(1)].spec, preemptible=False))
    assert found(c, taken(1, [4], 3), reserve(3, "a", 1)) == {"I14"}


def test_what_more_workers_do_for_a_job_is_left_open() -> None:
    """By its speeds the job on the left may want no more: then `right` is entitled to seven slots."""
    c = Cluster().node("a", 8).queue("left").queue("right")
    c.running(1, {"a": 1}, workers=(1, 8), queue="left", throughput=((1, 1.0), (2, 1.0)))
    c.running(2, {"a": 5}, workers=(1, 8), queue="right").running(3, {"a": 2}, workers=(1, 2), queue="right")
    assert found(c, taken(2, [4, 5], 1)) == set()
    assert found(c, taken(2, [2, 3, 4, 5], 1)) == {"I14"}


def test_a_running_job_that_names_no_type_takes_what_its_queue_is_guaranteed_of_one() -> None:
    for taker, broken in (({}, set()), ({"gpu_type": "L4"}, set()), ({"gpu_type": "V100"}, {"I14"})):
        c = Cluster().node("a", 7, gpu_type="L4").node("v", 0, gpu_type="V100")
        c.queue("left", guarantee={"*": 1, "L4": 8}).queue("right")
        c.running(1, {"a": 4}, workers=(1, 9), queue="left", **taker)
        c.running(2, {"a": 3}, workers=(1, 9), queue="right")
        assert found(c, taken(2, [3], 1)) == broken, taker


def test_what_is_guaranteed_of_types_counts_where_it_is_more_than_that_of_any() -> None:
    """Three slots are guaranteed to `left`, and half of the others are lent to it: `right` may keep three."""
    for limit, broken in ((9, set()), (5, {"I14"})):
        c = Cluster().node("a", 6).node("h", 3, gpu_type="L4")
        c.queue("left", guarantee={"*": 1, "L4": 3}, limit=limit).queue("right")
        c.running(1, {"h": 3}, workers=(1, 3), queue="left").running(3, {"a": 2}, workers=(1, 9), queue="left")
        c.running(2, {"a": 4}, workers=(1, 9), queue="right")
        assert found(c, taken(2, [4], 3)) == broken, limit


def told(c: Cluster) -> list[str]:
    """What the checks say of the planner's own plan."""
    return [each.detail for each in check_plan(c.world(), plan(c.world(), c.now, c.settings), c.now, c.settings)]


def test_what_a_guarantee_of_a_type_takes_may_have_been_taken_later() -> None:
    for guarantee in ({"x": 5}, {"*": 5, "x": 5}):
        c = Cluster().node("m", 6, gpu_type="x").node("n", 7).queue("a", guarantee, limit=5)
        c.running(2, {"n": 3, "m": 2}, workers=(1, 5), slots_per_worker=2)
        c.running(4, {"m": 2}, workers=(1, 3), gpu_type="x", queue="a")
        c.waiting(1, workers=2, queue="a").waiting(3, workers=(1, 2), gpu_type="x", queue="a")
        assert told(c) == []


@pytest.mark.parametrize(("limit", "broken"), [(4, set()), (7, set()), (8, {"I14"})])
def test_where_limits_are_full_a_waiting_job_claims_a_guarantee_of_a_type_that_it_does_not_name(
    limit: int, broken: set[str]
) -> None:
    """Job 4 wants what is guaranteed; job 2 goes before it, and starts on that type in place of job 1."""
    c = Cluster().node("h", 4, gpu_type="H", labels={"zone": "h"}).node("z", 4)
    c.queue("lab", {"H": 4}, limit=limit).queue("right", guarantee=4)
    c.running(1, {"z": 4}, workers=4, queue="lab").running(3, {"h": 4}, workers=4, queue="right")
    c.waiting(2, workers=4, queue="lab", priority=5, selector={"zone": "h"}, **WAITS)
    c.waiting(4, workers=4, queue="lab", gpu_type="H", **WAITS)
    assert told(c) == []
    both = (StopJob(JobId(1), StopReason.PREEMPTED, JobId(2)), StopJob(JobId(3), StopReason.RECLAIMED, JobId(2)))
    assert found(c, *both, reserve(2, "h", 4)) == broken


def test_a_running_job_may_claim_slots_that_are_being_freed_already() -> None:
    c = Cluster().node("a", 6, gpu_type="A").node("h", 2, gpu_type="H").queue("lab", guarantee={"H": 2}).queue("right")
    c.running(1, {"h": 1}, workers=(1, 2), gpu_type="H", queue="lab")
    c.running(2, {"a": 4}, workers=(1, 4), gpu_type="A", queue="lab")
    c.running(3, {"a": 2}, workers=(1, 6), gpu_type="A", queue="right")
    c.running(4, {"h": 1}, workers=1, gpu_type="H", state=JobState.STOPPING)
    assert told(c) == []


@pytest.mark.parametrize(("size", "workers"), [(3, 4), (4, (1, 2))])
def test_who_leaves_by_the_plan_uses_up_no_guarantee(size: int, workers: int | tuple[int, int]) -> None:
    """Job 1 has lost one of its workers, or is to have fewer."""
    c = Cluster().node("a", 8).node("b", 2).queue("lab", guarantee=4)
    c.running(1, {"a": size}, workers=workers, queue="lab", preemptible=False)
    c.waiting(2, workers=2, queue="lab", preemptible=False)
    assert told(c) == []


def test_nobody_leaves_for_a_reservation_that_another_queue_takes_over() -> None:
    """That of job 3 is dropped, since others have come to hold a slot, and made anew by the same plan."""
    c = Cluster().node("m", 7, gpu_type="x").queue("a", {"x": 4}).queue("c", {"*": 6, "x": 8})
    c.running(1, {"m": 7}, workers=(1, 11)).waiting(3, queue="c")
    enact(c, plan(c.world(), c.now, c.settings), slowly=True)
    c.foreign[NodeName("m")] = ForeignUse(slots=1)
    c.waiting(8, queue="a", gpu_type="x")
    assert told(c) == []


def test_a_guarantee_of_a_type_counts_as_far_as_limits_inside_let_it_be_used() -> None:
    c = Cluster().node("h", 4, gpu_type="H").node("a", 2, gpu_type="A")
    c.queue("lab", {"*": 1, "H": 4}).queue("lab/in", limit={"H": 1}).queue("lab/other").queue("right")
    c.running(1, {"h": 1}, workers=(1, 4), gpu_type="H", queue="lab/in")
    c.running(2, {"a": 2}, workers=2, gpu_type="A", queue="right")
    c.waiting(3, gpu_type="A", queue="lab/other")
    assert told(c) == []


def test_a_job_claims_a_guarantee_of_a_type_for_all_its_slots_or_none() -> None:
    """Its fixed group alone names the type."""
    c = Cluster().node("h", 5, gpu_type="H").queue("left", {"*": 1, "H": 4}).queue("right")
    c.running(1, {"h": 4}, workers=4, gpu_type="H", queue="right")
    c.waiting(2, workers=2, fixed=FixedGroup(1, ("x",), shape=WorkerShape(1, gpu_type="H")), queue="left")
    assert told(c) == []
