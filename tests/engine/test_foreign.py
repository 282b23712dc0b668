"""Beside others: what they hold is not given out, and workers leave for what they wait for."""

from pathlib import Path

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.foreign import Demand
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from tests.world import World


@pytest.fixture
def w(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.node("a", slots=4)
    world.node("b", slots=4)
    return world


def service(w: World, name: str, slots: int, **wish: object) -> None:
    w.cluster.foreign.come(Demand(name, WorkerShape(slots), **wish))  # type: ignore[arg-type]


def causes(w: World, kind: EventKind, job_id: JobId) -> list[str]:
    return [event.cause for event in w.events(kind) if event.job_id == job_id]


def test_what_others_hold_is_not_given_out(w: World) -> None:
    service(w, "web", 3)
    job = w.job("train", workers=(1, 8))
    w.settle()
    w.expect(job, JobState.RUNNING, workers=5)


def test_an_elastic_job_shrinks_for_others_and_grows_again_when_they_leave(w: World) -> None:
    job = w.job("train", workers=(1, 8))
    w.settle()
    w.expect(job, JobState.RUNNING, workers=8)
    service(w, "web-1", 2)
    service(w, "web-2", 2)
    w.settle()
    assert w.cluster.foreign.demands == ()
    w.expect(job, JobState.RUNNING, workers=4)
    assert set(causes(w, EventKind.JOB_SHRANK, job)) == {LeaveReason.FOREIGN}
    w.cluster.foreign.go("web-1")
    w.settle()
    w.expect(job, JobState.RUNNING, workers=6)


def test_the_least_important_gives_way_and_a_job_is_stopped_only_where_shrinking_is_not_enough(w: World) -> None:
    high = w.job("high", priority=5, workers=(2, 2))
    low = w.job("low", priority=1, workers=(1, 6))
    w.settle()
    service(w, "web", 4)
    w.settle()
    w.expect(high, JobState.RUNNING, workers=2)
    w.expect(low, JobState.RUNNING, workers=2)
    service(w, "more", 2)
    w.settle()
    w.expect(high, JobState.RUNNING, workers=2)
    w.expect(low, JobState.QUEUED, workers=0)
    assert causes(w, EventKind.JOB_STOPPING, low) == ["FOREIGN"]


def test_workers_leave_for_others_that_wait_for_cpus_and_no_slots(tmp_path: Path) -> None:
    w = World(tmp_path)
    w.node("a", slots=4, cpus=8)
    job = w.job("train", workers=(1, 4), cpus=2)
    w.settle()
    w.expect(job, JobState.RUNNING, workers=4)
    w.cluster.foreign.come(Demand("web", WorkerShape(0, cpus=3)))
    w.settle()
    assert w.cluster.foreign.demands == ()
    w.expect(job, JobState.RUNNING, workers=2)
    assert set(causes(w, EventKind.JOB_SHRANK, job)) == {LeaveReason.FOREIGN}
    w.cluster.foreign.go("web")
    w.settle()
    w.expect(job, JobState.RUNNING, workers=4)


def test_a_job_that_must_not_be_preempted_stays_and_others_wait(w: World) -> None:
    job = w.job("rigid", workers=(8, 8), preemptible=False)
    w.settle()
    service(w, "web", 1)
    w.settle()
    w.expect(job, JobState.RUNNING, workers=8)
    assert len(w.cluster.foreign.demands) == 1


def test_a_demand_that_waits_for_others_to_go_keeps_no_job_from_starting(w: World) -> None:
    service(w, "web-1", 3)
    service(w, "web-2", 3)
    w.settle()
    service(w, "large", 2)
    job = w.job("rigid", workers=(2, 2), preemptible=False)
    w.settle()
    w.expect(job, JobState.RUNNING, workers=2)
    assert [demand.name for demand in w.cluster.foreign.demands] == ["large"]


def test_a_demand_counts_as_soon_as_workers_could_make_room_for_it(w: World) -> None:
    service(w, "web-1", 3)
    service(w, "web-2", 3)
    w.settle()
    service(w, "large", 2)
    job = w.job("train", workers=(1, 8))
    w.settle()
    w.expect(job, JobState.RUNNING, workers=2)
    w.cluster.foreign.go("web-1")
    w.settle()
    assert w.cluster.foreign.demands == ()
    w.expect(job, JobState.RUNNING, workers=3)


def test_only_nodes_that_the_demand_may_use_are_cleared(w: World) -> None:
    job = w.job("train", workers=(1, 8))
    w.settle()
    service(w, "web", 2, nodes=frozenset({NodeName("b")}))
    w.settle()
    assert w.cluster.foreign.node_of("web") == "b"
    w.expect(job, JobState.RUNNING, workers=6)


def test_slots_that_are_cleared_for_others_are_not_given_to_waiting_jobs(w: World) -> None:
    job = w.job("train", workers=(1, 8), behaviour=Behaviour(runtime=Runtime.ELASTIC, leave_seconds=5.0))
    w.settle()
    service(w, "web", 4)
    w.cluster.foreign.held_up = True
    waiting = w.job("waiting", workers=(4, 4), priority=-1)
    w.advance(20)
    w.expect(job, JobState.RUNNING, workers=4)
    w.expect(waiting, JobState.QUEUED, workers=0)


def test_room_that_nobody_comes_for_is_used_again(w: World) -> None:
    job = w.job("train", workers=(1, 8))
    w.settle()
    service(w, "web", 4)
    w.cluster.foreign.held_up = True
    w.advance(30)
    w.expect(job, JobState.RUNNING, workers=4)
    w.advance(90)
    w.expect(job, JobState.RUNNING, workers=8)
    w.advance(900)
    w.expect(job, JobState.RUNNING, workers=8)


def test_others_for_whom_nobody_leaves_take_what_is_free(w: World) -> None:
    job = w.job("train", workers=(1, 6))
    w.settle()
    w.cluster.foreign.come(Demand("small", WorkerShape(2)), heard=False)
    w.cluster.foreign.come(Demand("large", WorkerShape(3)), heard=False)
    w.settle()
    w.expect(job, JobState.RUNNING, workers=6)
    assert w.cluster.foreign.node_of("small") == "b"
    assert w.cluster.foreign.node_of("large") is None


def test_a_worker_that_fails_is_not_replaced_where_others_have_come(w: World) -> None:
    job = w.job("train", workers=(1, 8))
    w.settle()
    w.cluster.foreign.come(Demand("web", WorkerShape(1)), heard=False)
    w.cluster.crash(w.get(job).workers[0].id)
    w.settle()
    assert w.cluster.foreign.node_of("web") is not None
    w.expect(job, JobState.RUNNING, workers=7)
    assert w.get(job).retries_used == 1
    assert not w.events(EventKind.WORKER_REPLACED)
