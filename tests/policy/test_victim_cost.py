"""Victims are chosen by what taking from them costs: a pause where they shrink, unsaved work where they stop."""

from typing import Any

import pytest

from scheduler.model.job import Job, Runtime
from scheduler.model.job_state import StopReason
from scheduler.model.plan import Shrink, StopJob
from scheduler.policy.estimate.lost_work import shrink_cost, stop_cost
from tests.policy.worlds import NOW, Cluster

STARTED = NOW - 1000.0


def elastic(c: Cluster, number: int, size: int = 2, **fields: Any) -> Cluster:
    """A job on a node of its own that can give up all workers but one."""
    node = f"n{number}"
    fields = {"runtime": Runtime.ELASTIC, "workers": (1, size), "started_at": STARTED, **fields}
    return c.node(node, size).running(number, {node: size}, **fields)


def rigid(c: Cluster, number: int, **fields: Any) -> Cluster:
    """A job on a node of its own that can be stopped only."""
    return elastic(c, number, **{"workers": (2, 2), **fields})


def shrunk(c: Cluster) -> list[int]:
    """Jobs that give a worker to one that needs a slot."""
    c.waiting(99, priority=5)
    return [action.job_id for action in c.actions() if isinstance(action, Shrink)]


def stopped(c: Cluster, workers: int = 2) -> list[int]:
    """Jobs that are stopped for one that needs this many slots."""
    c.waiting(99, priority=5, workers=(workers, workers))
    return [action.job_id for action in c.actions() if isinstance(action, StopJob)]


def running(**fields: Any) -> Job:
    (job,) = elastic(Cluster(), 1, **fields).jobs.values()
    return job


# To shrink


def test_a_shrink_of_a_job_long_since_its_commit_is_cheap() -> None:
    c = elastic(Cluster(), 1, last_commit_at=NOW - 900.0, resize_seconds=0.2)
    assert shrunk(elastic(c, 2, last_commit_at=NOW - 1.0, resize_seconds=0.3)) == [1]


def test_the_job_whose_fewer_workers_pause_shrinks_first() -> None:
    c = elastic(Cluster(), 1, 3, resize_seconds=0.5)
    assert shrunk(elastic(c, 2, 4, resize_seconds=0.4)) == [1]


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        (Runtime.COMMAND, Runtime.ELASTIC),
        (Runtime.ELASTIC, Runtime.HOROVOD),
        (Runtime.HOROVOD, Runtime.TORCHRUN),
    ],
)
def test_a_pause_that_was_never_measured_is_that_of_the_runtime(cheap: Runtime, dear: Runtime) -> None:
    c = elastic(Cluster(), 1, runtime=cheap)
    assert shrunk(elastic(c, 2, runtime=dear)) == [1]


def test_a_pause_that_was_measured_counts_more_than_the_runtime() -> None:
    c = elastic(Cluster(), 1, runtime=Runtime.HOROVOD, resize_seconds=0.1)
    assert shrunk(elastic(c, 2)) == [1]


def test_a_shrink_that_restarts_processes_repeats_what_came_after_the_checkpoint() -> None:
    assert shrink_cost(running(runtime=Runtime.TORCHRUN)).at(NOW) == 2 * (4.0 + 1000.0)
    saved = running(runtime=Runtime.TORCHRUN, last_checkpoint_at=NOW - 60.0)
    assert shrink_cost(saved).at(NOW) == 2 * (4.0 + 60.0)
    assert shrink_cost(running(runtime=Runtime.HOROVOD)).at(NOW) == 2 * 4.0


@pytest.mark.parametrize(("saved_seconds_ago", "gives"), [(5.0, 1), (60.0, 2)])
def test_a_torchrun_job_shrinks_first_where_it_saved_a_short_time_ago(saved_seconds_ago: float, gives: int) -> None:
    c = elastic(Cluster(), 1, runtime=Runtime.TORCHRUN, last_checkpoint_at=NOW - saved_seconds_ago)
    assert shrunk(elastic(c, 2, resize_seconds=30.0)) == [gives]


def test_those_who_do_not_work_yet_or_any_more_do_not_pause() -> None:
    assert shrink_cost(running(size=5, leaving=1, standby=2)).at(NOW) == 2 * 0.5


# To stop


def test_a_job_that_just_wrote_a_checkpoint_is_stopped_rather_than_one_that_did_not() -> None:
    c = rigid(Cluster(), 1, runtime=Runtime.TORCHRUN, last_checkpoint_at=NOW - 5.0)
    assert stopped(rigid(c, 2, last_commit_at=NOW - 50.0)) == [1]
    c = rigid(Cluster(), 1, runtime=Runtime.TORCHRUN, last_checkpoint_at=NOW - 500.0)
    assert stopped(rigid(c, 2, last_commit_at=NOW - 50.0)) == [2]


@pytest.mark.parametrize("kind", ["last_commit_at", "last_checkpoint_at"])
def test_what_an_earlier_attempt_saved_does_not_count(kind: str) -> None:
    c = rigid(Cluster(), 1)
    assert stopped(rigid(c, 2, started_at=NOW - 10.0, **{kind: NOW - 5000.0})) == [2]


def test_a_stop_loses_the_work_since_the_last_of_commit_and_checkpoint_on_all_slots() -> None:
    assert stop_cost(running()).at(NOW) == 2 * 1000.0
    both = running(last_commit_at=NOW - 40.0, last_checkpoint_at=NOW - 30.0, slots_per_worker=1)
    assert stop_cost(both).at(NOW) == 2 * 30.0
    assert stop_cost(running(last_commit_at=NOW + 30.0)).at(NOW) == 0.0
    assert stop_cost(running(started_at=None)).at(NOW) == 0.0


def test_the_pause_of_a_shrink_does_not_choose_who_is_stopped() -> None:
    c = rigid(Cluster(), 1, last_commit_at=NOW - 1.0, resize_seconds=60.0)
    assert stopped(rigid(c, 2, last_commit_at=NOW - 9.0, resize_seconds=0.1)) == [1]


def test_beside_a_stop_those_shrink_whom_that_costs_least() -> None:
    c = Cluster().node("a", 6)
    c.running(1, {"a": 2}, workers=(2, 2), started_at=NOW - 1.0)
    c.running(2, {"a": 2}, workers=(1, 2), runtime=Runtime.ELASTIC, last_commit_at=NOW - 5.0, resize_seconds=9.0)
    c.running(3, {"a": 2}, workers=(1, 2), runtime=Runtime.ELASTIC, last_commit_at=NOW - 500.0, resize_seconds=0.1)
    assert stopped(c, workers=3) == [1]
    assert [action.job_id for action in c.actions() if isinstance(action, Shrink)] == [3]


def test_for_a_booking_the_job_is_stopped_that_saved_last() -> None:
    c = rigid(Cluster(), 1, last_commit_at=NOW - 4.0)
    rigid(c, 2, last_commit_at=NOW - 400.0)
    c.booked("b", 2, 0.0, 3600.0)
    assert [(a.job_id, a.reason) for a in c.actions() if isinstance(a, StopJob)] == [(1, StopReason.BOOKED)]
