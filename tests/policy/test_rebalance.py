"""Sharing among equals: who waits gets the minimum, and a worker goes to where it is worth more."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config import PolicySettings
from scheduler.model.job import Runtime
from scheduler.model.plan import Grow, Reserve, Shrink, Start, StopJob
from scheduler.model.queue import ANY_GPU
from scheduler.model.worker import LeaveReason
from tests.policy.worlds import CORDONED, DRAINING, LONG_AGO, NOW, Cluster

#: Speed by size of jobs to which more workers are worth all, something and nothing.
STEEP = ((1, 10.0), (8, 80.0))
BENT = ((1, 10.0), (8, 40.0))
FLAT = ((1, 10.0), (8, 10.0))
ALONE = PolicySettings(share=False)


def shrinks(c: Cluster) -> list[Shrink]:
    return [action for action in c.actions() if isinstance(action, Shrink)]


def elastic(c: Cluster, number: int, on: dict[str, int], throughput: Any, **fields: Any) -> Cluster:
    fields = {"workers": (1, 8), "runtime": Runtime.ELASTIC, "running_at": LONG_AGO, **fields}
    return c.running(number, on, throughput=throughput, **fields)


def flat_beside_steep(policy: PolicySettings | None = None, **of_grower: Any) -> Cluster:
    """Job 1 has four workers of which three are worth nothing; job 2 would be twice as fast with four more."""
    c = Cluster(policy).node("a", 8)
    return elastic(elastic(c, 1, {"a": 4}, FLAT), 2, {"a": 4}, STEEP, **of_grower)


# Who waits


def test_a_waiting_equal_gets_its_minimum_from_whom_the_last_worker_is_worth_least() -> None:
    c = Cluster().node("a", 8)
    elastic(elastic(c, 1, {"a": 4}, STEEP), 2, {"a": 4}, BENT).waiting(3, workers=(2, 8))
    (shrink,) = shrinks(c)
    assert (shrink.job_id, len(shrink.workers), shrink.reason, shrink.for_job) == (2, 2, LeaveReason.REBALANCED, 3)
    c.step()
    assert [action for action in c.step().actions if isinstance(action, Start)] == [Start(3, (("a", 2),))]  # type: ignore[arg-type]
    assert (c.size(1), c.size(2), c.size(3)) == (4, 2, 2)


def test_nobody_goes_below_the_minimum_for_an_equal() -> None:
    c = Cluster().node("a", 4)
    elastic(c, 1, {"a": 4}, FLAT, workers=(3, 4)).waiting(2, workers=(2, 2))
    assert c.actions() == []


def test_who_is_not_preemptible_gives_nothing() -> None:
    c = Cluster().node("a", 4)
    elastic(c, 1, {"a": 4}, FLAT, preemptible=False).waiting(2)
    assert c.actions() == []


def test_without_sharing_who_waits_goes_on_waiting() -> None:
    c = Cluster(ALONE).node("a", 4)
    elastic(c, 1, {"a": 4}, FLAT).waiting(2)
    assert c.actions() == []


def test_less_important_jobs_give_before_equals_do() -> None:
    c = Cluster().node("a", 8)
    elastic(elastic(c, 1, {"a": 4}, FLAT), 2, {"a": 4}, STEEP, priority=-1).waiting(3, workers=(2, 2))
    assert [shrink.job_id for shrink in shrinks(c)] == [2]


def test_a_short_small_job_is_served_behind_one_too_large_to_serve() -> None:
    """Job 3 is gone again before job 1 ends and makes room for job 2."""
    c = Cluster().node("a", 4)
    elastic(c, 1, {"a": 4}, FLAT, workers=(2, 4), time_limit_seconds=NOW - LONG_AGO + 600.0)
    c.waiting(2, workers=(4, 4)).waiting(3, workers=(2, 2), time_limit_seconds=60.0)
    assert [(shrink.for_job, len(shrink.workers)) for shrink in shrinks(c)] == [(3, 2)]


@pytest.mark.parametrize("of_each", [{}, {"queue": "lab"}])
def test_a_less_important_job_is_stopped_and_an_equal_shrunk_where_neither_is_enough(of_each: dict[str, str]) -> None:
    c = Cluster().node("a", 6)
    for path in of_each.values():
        c.queue(path)
    c.running(1, {"a": 2}, workers=2, priority=-1, **of_each).running(2, {"a": 4}, workers=(2, 4), **of_each)
    c.waiting(3, workers=4, **of_each)
    assert [type(action) for action in c.step().actions] == [StopJob, Shrink, Reserve]
    c.settle()
    assert (c.size(2), c.size(3)) == (2, 4)


def test_no_equal_is_stopped_together_with_a_less_important_job() -> None:
    c = Cluster().node("a", 6).running(1, {"a": 2}, workers=2, priority=-1).running(2, {"a": 4}, workers=(3, 4))
    assert c.waiting(3, workers=4).step().actions == ()


def test_an_equal_that_shares_slots_gives_each_worker_once() -> None:
    """Job 3 needs more CPUs than all that job 1 could give up while it keeps its minimum."""
    c = Cluster().node("a", 4, oversell=2.0, cpus=6.0)
    c.running(9, {"a": 1}, preemptible=False, cpus=2.0)
    c.running(1, {"a": 4}, workers=(1, 4), shared=True, oversell=True, cpus=1.0)
    c.waiting(3, workers=(2, 2), cpus=3.0)
    assert c.actions() == []


def test_who_is_about_to_start_elsewhere_takes_nothing_on_nodes_of_another_type() -> None:
    """Job 3 gets slots of the A100s that job 9 is leaving; what job 1 has on H100s could never be its."""
    c = Cluster().node("a", 4, gpu_type="A100").node("h", 8, gpu_type="H100")
    elastic(c, 9, {"a": 4}, FLAT, leaving=3, priority=-1)
    elastic(c, 1, {"h": 8}, FLAT).waiting(
        3, workers=(2, 8), runtime=Runtime.ELASTIC, throughput=STEEP, reservation=(("a", 2),)
    )
    assert shrinks(c) == []


# Who runs


def test_workers_move_to_where_they_are_worth_more() -> None:
    c = flat_beside_steep()
    (shrink,) = shrinks(c)
    assert (shrink.job_id, len(shrink.workers), shrink.for_job) == (1, 3, 2)
    c.settle()
    assert (c.size(1), c.size(2)) == (1, 7)


def test_without_sharing_they_stay() -> None:
    assert flat_beside_steep(ALONE).actions() == []


def test_they_stay_where_somebody_else_is_more_important_or_less() -> None:
    assert flat_beside_steep(priority=-1).actions() == []
    assert flat_beside_steep(priority=1).actions() == []


def test_a_worker_has_to_be_worth_the_margin_more() -> None:
    def world(margin: float) -> Cluster:
        """One worker more is worth 1 to job 2, and the last of job 1 is worth 3/7."""
        c = Cluster(PolicySettings(share_margin=margin)).node("a", 4)
        return elastic(elastic(c, 1, {"a": 2}, BENT), 2, {"a": 2}, STEEP)

    assert shrinks(world(1.30)) != []
    assert world(1.35).actions() == []


def test_close_values_move_nothing_however_long_they_run() -> None:
    c = Cluster().node("a", 8)
    half_done: dict[str, Any] = {"fraction": 0.5, "whole_slot_seconds": 8 * (NOW - LONG_AGO)}
    elastic(elastic(c, 1, {"a": 4}, BENT, **half_done), 2, {"a": 4}, ((1, 9.0), (8, 50.0)), **half_done)
    for _ in range(20):
        assert c.step(600.0).actions == ()


def test_as_jobs_get_older_workers_move_now_and_then_and_never_to_and_fro() -> None:
    """A day of two jobs that are alike: who has had more is worth less for a while."""
    c = Cluster(PolicySettings(share_margin=0.5)).node("a", 8)
    elastic(elastic(c, 1, {"a": 6}, BENT), 2, {"a": 2}, BENT)
    moves = [shrink for _ in range(24 * 12) for shrink in c.step(300.0).actions if isinstance(shrink, Shrink)]
    assert 1 <= len(moves) <= 8


def test_what_moved_stays_there() -> None:
    c = flat_beside_steep()
    c.settle()
    for _ in range(60):
        assert c.step(60.0).actions == ()


def test_a_worker_on_a_node_that_takes_nobody_is_left_alone() -> None:
    c = Cluster().node("a", 4, intent=CORDONED).node("b", 4)
    elastic(elastic(c, 1, {"a": 4}, FLAT), 2, {"b": 4}, STEEP)
    assert c.actions() == []
    elastic(c.node("c", 2), 3, {"c": 2}, FLAT)
    assert [shrink.job_id for shrink in shrinks(c)] == [3]


def test_growth_that_does_not_pay_for_its_resize_takes_from_nobody() -> None:
    """From 4 to 8 workers, job 2 saves 500 seconds of the 1000 that it still needs."""
    half_done: dict[str, Any] = {"fraction": 0.5, "whole_slot_seconds": 8 * (NOW - LONG_AGO)}
    assert shrinks(flat_beside_steep(resize_seconds=10.0, **half_done)) != []
    assert flat_beside_steep(resize_seconds=11.0, **half_done).actions() == []


def test_who_is_near_its_end_takes_from_nobody() -> None:
    assert flat_beside_steep(time_limit_seconds=NOW - LONG_AGO + 4.0).actions() == []
    assert shrinks(flat_beside_steep(time_limit_seconds=NOW - LONG_AGO + 6.0)) != []


def test_who_was_resized_a_moment_ago_neither_takes_nor_gives() -> None:
    cooling: dict[str, Any] = {"resize_seconds": 1.0, "last_resize_at": NOW - 1.9}
    cooled = {**cooling, "last_resize_at": NOW - 2.0}
    assert flat_beside_steep(**cooling).actions() == []
    assert shrinks(flat_beside_steep(**cooled)) != []
    for giving, moved in ((cooling, 0), (cooled, 1)):
        c = Cluster().node("a", 8)
        elastic(elastic(c, 1, {"a": 4}, FLAT, **giving), 2, {"a": 4}, STEEP)
        assert len(shrinks(c)) == moved


def test_places_are_given_up_where_the_one_who_gets_them_is() -> None:
    c = Cluster().node("a", 4).node("b", 4)
    elastic(elastic(c, 1, {"a": 2, "b": 2}, FLAT, workers=(2, 4)), 2, {"b": 2, "a": 1}, STEEP, workers=(1, 5))
    elastic(c, 3, {"a": 1}, FLAT)
    (shrink,) = shrinks(c)
    nodes = {worker.id: worker.node for worker in c.world().active[shrink.job_id].workers}
    assert [nodes[worker_id] for worker_id in shrink.workers] == ["b", "b"]
    assert [action.placement for action in c.step().actions if isinstance(action, Grow)] == []
    assert [action.placement for action in c.step().actions if isinstance(action, Grow)] == [(("b", 2),)]


def test_less_important_equals_exchange_once_the_more_important_want_no_more() -> None:
    c = flat_beside_steep()
    c.node("b", 8)
    elastic(elastic(c, 3, {"b": 4}, FLAT, priority=1), 4, {"b": 4}, STEEP, priority=1, workers=(1, 7))
    moved = [action for _ in range(4) for action in c.step(10.0).actions if isinstance(action, Shrink)]
    assert [(shrink.job_id, len(shrink.workers)) for shrink in moved] == [(3, 3), (1, 3)]


# Who else would get what is given up


def far_beside_near(slots: int = 8) -> Cluster:
    """Job 1 needs a hundred times as long as job 2, which would take five of its six workers."""
    c = Cluster().node("a", slots).running(1, {"a": 6}, workers=(1, 8), expected_seconds=5e5)
    return c.running(2, {"a": 1}, workers=(1, 8), expected_seconds=5e3)


@pytest.mark.parametrize(
    ("fields", "moved"),
    [
        ({"priority": 5}, 0),
        ({"priority": 5, "last_resize_at": NOW - 1.0}, 0),  # it has cooled down by then
        ({"priority": 5, "workers": (1, 1)}, 5),
        ({"priority": -5}, 5),
        ({"preemptible": False, "expected_seconds": 100.0}, 0),
        ({"preemptible": False, "expected_seconds": 5e5}, 5),
    ],
)
def test_nothing_moves_where_a_grower_that_comes_before_would_get_it(fields: dict[str, Any], moved: int) -> None:
    c = far_beside_near().running(3, {"a": 1}, **{"workers": (1, 8), **fields})
    assert [len(shrink.workers) for shrink in shrinks(c)] == [moved] * (moved > 0)


def test_a_grower_that_comes_before_gets_in_the_way_only_where_its_workers_have_room() -> None:
    c = far_beside_near(7).node("b", 7, gpu_type="B")
    c.running(3, {"b": 1}, workers=(1, 8), slots_per_worker=7, priority=5)
    assert [shrink.job_id for shrink in shrinks(c)] == [1]


@pytest.mark.parametrize(
    ("fields", "moved"),
    [({}, 0), ({"workers": (6, 6)}, 5), ({"preemptible": False}, 5), ({"gpu_type": "none"}, 5)],
)
def test_nothing_moves_where_a_waiting_job_would_start_with_it(fields: dict[str, Any], moved: int) -> None:
    """Job 8 waits for job 5, and could take back what a preemptible job starts with."""
    c = far_beside_near(7).node("b", 1).running(5, {"b": 1}, priority=9, preemptible=False)
    c.waiting(8, workers=(8, 8), priority=5)
    assert [len(shrink.workers) for shrink in shrinks(c)] == [5]
    c.waiting(9, priority=-1, **fields)
    assert [len(shrink.workers) for shrink in shrinks(c)] == [moved] * (moved > 0)


def test_nothing_moves_while_jobs_are_stopped_that_would_start_with_it() -> None:
    c = far_beside_near(7).node("b", 1, intent=DRAINING).running(3, {"b": 1}, priority=-1)
    assert [type(action) for action in c.actions()] == [StopJob]


def test_nothing_moves_in_a_queue_that_is_beyond_its_limit() -> None:
    c = Cluster().node("a", 7).queue("q", limit=6)
    c.running(1, {"a": 6}, workers=(1, 8), expected_seconds=5e5, queue="q")
    c.running(2, {"a": 1}, workers=(1, 8), expected_seconds=5e3, queue="q")
    assert shrinks(c) == []
    c.queues[0] = replace(c.queues[0], limit=((ANY_GPU, 7),))
    assert [shrink.job_id for shrink in shrinks(c)] == [1]


def test_a_job_that_grows_takes_nothing_more_before_it_has_grown() -> None:
    c = far_beside_near(8)
    assert [type(action) for action in c.step().actions] == [Grow]
    assert [type(action) for action in c.step(60.0).actions] == [Shrink]


@st.composite
def equals(draw: st.DrawFn) -> Cluster:
    """Full nodes of running elastic jobs that reported all kinds of speeds, and a short queue."""
    c = Cluster()
    number = 0
    for name in "ab"[: draw(st.integers(1, 2))]:
        c.node(name, draw(st.integers(4, 8)))
        left = c.nodes[name].slots  # type: ignore[index]
        while left:
            number += 1
            size = draw(st.integers(1, left))
            low = draw(st.integers(1, size))
            points = tuple((n, draw(st.floats(1.0, 100.0))) for n in sorted({1, size, 8}))
            fields = _progress(draw)
            elastic(c, number, {name: size}, points, workers=(low, draw(st.integers(size, 9))), **fields)
            left -= size
    for _ in range(draw(st.integers(0, 2))):
        number += 1
        c.waiting(number, workers=(draw(st.integers(1, 3)), 4), runtime=Runtime.ELASTIC)
    return c


def _progress(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "priority": draw(st.sampled_from((0, 0, 0, 1))),
        "preemptible": draw(st.sampled_from((True, True, True, False))),
        "fraction": draw(st.sampled_from((None, 0.1, 0.5, 0.99))),
        "reported_at": NOW,
        "resize_seconds": draw(st.sampled_from((None, 0.5, 5.0))),
    }


@settings(max_examples=30)
@given(equals())
def test_equals_share_and_settle(c: Cluster) -> None:
    for _ in range(12):
        before = dict(c.jobs)
        for shrink in (action for action in c.step(30.0).actions if isinstance(action, Shrink)):
            job = before[shrink.job_id]
            assert len(job.wanted_workers) - len(shrink.workers) >= job.min_workers
            assert job.spec.preemptible
            assert shrink.for_job is not None
            gets = before[shrink.for_job].priority
            assert gets == job.priority if shrink.reason is LeaveReason.REBALANCED else gets > job.priority
    c.settle(rounds=3, seconds=30.0)
