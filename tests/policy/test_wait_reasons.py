"""Why a job that is left waiting does not start."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.model.ids import JobId, NodeName
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.plan import Waiting
from tests.policy.worlds import Cluster

HELD: dict[str, Any] = {"wait_reason": WaitReason.WAITING_FOR_VICTIMS}


def held(**workers: int) -> tuple[tuple[NodeName, int], ...]:
    return tuple((NodeName(name), count) for name, count in workers.items())


def said(c: Cluster, number: int = 1) -> Waiting:
    return c.plan().waiting[JobId(number)]


@pytest.mark.parametrize(
    ("keep", "reason"),
    [
        (lambda c: c.demand("pod", 2), WaitReason.BEHIND_FOREIGN),
        (lambda c: c.demand("pod", 2, nodes=["b"]), WaitReason.BEHIND_FOREIGN),
        (lambda c: c.booked("exam", 2, -10, 1000), WaitReason.BEHIND_BOOKING),
        (lambda c: c.demand("pod", 2).running(2, {"b": 1}, priority=9), WaitReason.INSUFFICIENT_SLOTS),
        (lambda c: c.running(2, {"b": 1}, priority=9), WaitReason.INSUFFICIENT_SLOTS),
        (lambda c: c.waiting(2, workers=2, priority=9), WaitReason.INSUFFICIENT_SLOTS),
    ],
    ids=["others", "others there", "a booking", "others beside a worker", "a worker", "a job that starts"],
)
def test_free_room_that_is_kept_is_not_lacking(keep: Callable[[Cluster], Cluster], reason: WaitReason) -> None:
    c = keep(Cluster().node("a", 1).node("b", 8).running(7, {"a": 1}, priority=9)).waiting(1, workers=8)
    assert said(c) == Waiting(reason)


def test_room_that_others_and_a_reservation_keep_is_not_lacking() -> None:
    """Job 3 waits for a slot more than is free."""
    c = Cluster().node("a", 8).node("b", 1).running(9, {"b": 1}, state=JobState.STOPPING)
    c.waiting(3, workers=5, priority=8, reservation=held(a=4, b=1), **HELD).demand("pod", 4, nodes=["a"])
    assert said(c.waiting(1, workers=8)) == Waiting(WaitReason.BEHIND_FOREIGN)
    assert said(c.waiting(1, workers=9)) == Waiting(WaitReason.INSUFFICIENT_SLOTS)


def test_a_job_waits_behind_the_reservation_that_is_in_its_way() -> None:
    """For job 2 slots are held that nobody could have now, and for job 3 the free ones, besides others."""
    c = Cluster().node("a", 8).node("b", 4).node("c", 4)
    c.running(8, {"a": 8}, workers=8, state=JobState.STOPPING).running(9, {"c": 4}, workers=4, state=JobState.STOPPING)
    c.waiting(2, workers=8, priority=8, reservation=held(a=8), **HELD)
    c.waiting(3, workers=8, priority=7, reservation=held(b=4, c=4), **HELD)
    assert said(c.waiting(1, workers=4)) == Waiting(WaitReason.BEHIND_RESERVATION, JobId(3))
