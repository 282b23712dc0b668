"""Who loses workers for a more important job, and for whom slots are reserved: each rule on the smallest world."""

from typing import Any

import pytest
from hypothesis import given

from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Release, Reserve, Start, StopJob
from scheduler.policy.planner import plan
from scheduler.policy.preempt import victim_batch
from scheduler.policy.preempt.trial import Trial
from tests.policy.drawn_worlds import clusters
from tests.policy.expected import VICTIMS, shrink
from tests.policy.worlds import CORDONED, NOW, Cluster

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


def test_a_job_starts_on_what_it_holds_before_older_equals_take_what_is_free() -> None:
    """These had the slots that were free at once, since others for the holder were being freed."""
    c = Cluster().node("a", 1).node("b", 6).node("c", 6)
    c.running(2, {"b": 1, "c": 1}, workers=(1, 4), slots_per_worker=3).running(3, {"b": 1})
    c.waiting(5, workers=(2, 2), slots_per_worker=2, reservation=(("b", 1), ("c", 1)))
    c.waiting(6, submitted_at=0.0, reservation=(("c", 1),)).waiting(7, submitted_at=0.0, reservation=(("a", 1),))
    c.waiting(8, submitted_at=0.0).waiting(9, submitted_at=0.0)
    started = {action.job_id for action in c.actions() if isinstance(action, Start)}
    assert started == {5, 6, 7}


def test_a_node_that_shrank_keeps_the_older_one_of_two_reservations() -> None:
    c = Cluster().node("a", 1).running(1, {"a": 1}, state=JobState.STOPPING)
    for job_id in (2, 3):
        c.waiting(job_id, reservation=(("a", 1),), wait_reason=WaitReason.WAITING_FOR_VICTIMS)
    assert c.actions() == [Release(3)]


def test_an_older_job_takes_what_a_node_that_shrank_has_left_before_those_that_hold_it() -> None:
    c = Cluster().node("n", 3).running(1, {"n": 3}, workers=(3, 3), state=JobState.STOPPING)
    c.foreign[NodeName("n")] = ForeignUse(slots=1)
    c.node("m", 1).running(9, {"m": 1}, priority=1)
    c.waiting(2)
    c.waiting(3, reservation=(("n", 1),), wait_reason=WaitReason.WAITING_FOR_VICTIMS)
    c.waiting(4, reservation=(("n", 2),), workers=(2, 2), wait_reason=WaitReason.WAITING_FOR_VICTIMS)
    assert c.actions() == [Release(JobId(4)), Reserve(JobId(2), (("n", 1),))], "nobody is stopped for it"


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


@given(clusters(queue_max=4))
def test_it_does_not_matter_how_many_victims_are_looked_at_together(c: Cluster) -> None:
    made = plan(c.world(), c.now, c.settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(victim_batch, "FIRST_VICTIMS", 1)
        assert plan(c.world(), c.now, c.settings) == made


@given(clusters(queue_max=4, shapes=(1, 2, 3)))
def test_what_is_out_of_reach_could_not_have_been_taken(c: Cluster) -> None:
    made = plan(c.world(), c.now, c.settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trial, "within_reach", lambda *_: True)
        assert plan(c.world(), c.now, c.settings) == made
