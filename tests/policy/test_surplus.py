"""Jobs of which only the surplus is preemptible: the minimum is safe, and what they hold beyond it can be taken."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job_state import StopReason, WaitReason
from scheduler.model.node import NodeIntent
from scheduler.model.plan import Reserve, StopJob
from scheduler.policy.snapshot.usage import RESIZABLE_STATES
from tests.policy.drawn_queues import queued_clusters
from tests.policy.drawn_worlds import clusters
from tests.policy.expected import VICTIMS, shrink
from tests.policy.worlds import Cluster, enact

#: What its `preemptible: surplus` is as fields of a spec.
SURPLUS = {"preemptible": False, "surplus_preemptible": True}


def running(c: Cluster) -> dict[int, int]:
    return {job_id: len(job.wanted_workers) for job_id, job in c.jobs.items() if job.state.active}


def test_a_more_important_job_takes_what_is_beyond_the_minimum() -> None:
    c = Cluster().node("a", 6).running(1, {"a": 6}, workers=(2, 6), **SURPLUS)
    c.waiting(2, priority=5, workers=3)
    assert c.actions() == [shrink(1, 6, 5, 4, by=2), Reserve(2, (("a", 3),))]
    assert c.plan().waiting[JobId(2)] == VICTIMS


def test_the_minimum_is_not_taken_where_that_alone_would_do() -> None:
    c = Cluster().node("a", 6).running(1, {"a": 6}, workers=(2, 6), **SURPLUS)
    c.waiting(2, priority=5, workers=5)
    assert c.actions() == []
    assert c.plan().waiting[JobId(2)].reason is WaitReason.INSUFFICIENT_SLOTS


def test_others_are_stopped_in_its_place() -> None:
    c = Cluster().node("a", 6).running(1, {"a": 3}, workers=(2, 6), **SURPLUS)
    c.running(2, {"a": 3}, workers=3, priority=1).waiting(3, priority=5, workers=4)
    assert c.actions() == [StopJob(2, StopReason.PREEMPTED, 3), shrink(1, 3, by=3), Reserve(3, (("a", 4),))]


def test_an_equal_that_waits_gets_what_is_beyond_the_minimum() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(2, 4), **SURPLUS).waiting(2, workers=2)
    c.settle()
    assert running(c) == {1: 2, 2: 2}


def test_it_starts_with_its_minimum_inside_a_guarantee_and_grows_beyond_it() -> None:
    c = Cluster().node("a", 8).queue("left", guarantee=4).queue("right")
    c.waiting(1, workers=(3, 8), queue="left", **SURPLUS).waiting(2, workers=(2, 8), queue="left", **SURPLUS)
    c.settle()
    assert running(c) == {1: 8}
    assert c.reason(2) is WaitReason.NOT_GUARANTEED
    c.waiting(3, workers=1, queue="left", preemptible=False).settle()
    assert running(c)[3] == 1


def test_an_owner_takes_back_what_it_has_beyond_the_guarantee_of_its_minimum() -> None:
    c = Cluster().node("a", 8).queue("left", guarantee=2).queue("right", guarantee=6)
    c.running(1, {"a": 8}, workers=(2, 8), queue="left", **SURPLUS).waiting(2, workers=6, queue="right")
    c.settle()
    assert running(c) == {1: 2, 2: 6}


def test_the_oldest_workers_that_stay_are_its_minimum_once_a_node_is_drained() -> None:
    c = Cluster().node("a", 2, intent=NodeIntent.DRAINING).node("b", 2)
    c.running(1, {"a": 1, "b": 2}, workers=(2, 4), **SURPLUS).waiting(2, priority=5)
    c.settle()
    assert c.size(1) == 2
    assert c.reason(2) is WaitReason.INSUFFICIENT_SLOTS


@pytest.mark.parametrize("name", ["afs", "edl", "elastic-fifo", "tiresias", "shortest", "fifo", "easy", "conservative"])
def test_no_published_policy_takes_its_minimum(name: str) -> None:
    c = Cluster(PolicySettings(name=name)).node("a", 4)  # type: ignore[arg-type]
    c.running(1, {"a": 4}, workers=(2, 4), preferred_workers=4, expected_seconds=1e6, **SURPLUS)
    c.waiting(2, priority=9, workers=3, expected_seconds=1.0).waiting(3, priority=9, expected_seconds=1.0)
    for _ in range(5):
        c.step(60.0)
        assert c.size(1) >= 2


@settings(max_examples=60)
@given(c=st.one_of(clusters(), queued_clusters()))
def test_no_job_comes_below_its_minimum_for_another(c: Cluster) -> None:
    for _ in range(4):
        safe = [job for job in c.jobs.values() if job.state in RESIZABLE_STATES and job.spec.surplus_preemptible]
        made = c.plan()
        stopped = {action.job_id for action in made.actions if isinstance(action, StopJob) and action.for_job}
        assert stopped.isdisjoint(job.id for job in safe)
        enact(c, made)
        assert all(c.size(job.id) >= min(job.min_workers, len(job.wanted_workers)) for job in safe)
        c.now += 60.0
