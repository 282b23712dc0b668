"""Numbers of runs whose use of slots is known beforehand."""

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.model.observation import SlotLoad
from scheduler.model.shape import WorkerShape
from scheduler.simulate.summary import summarize
from scheduler.simulate.usage import usage
from tests.simulate.runs import PROTOCOL_SECONDS, job, run


def test_slots_that_are_held_until_the_next_round_make_no_more_than_all_of_the_use() -> None:
    summary = summarize(run(job("a", work=400.0, workers=(4, 4)), every_seconds=60.0))
    assert summary.makespan_seconds == pytest.approx(100.0, abs=PROTOCOL_SECONDS)
    assert summary.utilization == pytest.approx(1.0, abs=0.01)


def test_a_run_that_is_given_up_is_measured_until_then() -> None:
    result = run(job("short", work=10.0), job("long", work=1e6), until_seconds=1000.0)
    summary = summarize(result)
    assert (result.ended_at, summary.makespan_seconds, summary.unfinished) == (1000.0, 1000.0, 1)
    assert summary.utilization == pytest.approx((10.0 + 1000.0) / (4 * 1000.0), abs=0.001)


def test_nothing_was_used_before_the_first_submission() -> None:
    summary = summarize(run(job("late", 100.0), until_seconds=50.0))
    assert (summary.makespan_seconds, summary.utilization, summary.unfinished) == (0.0, 0.0, 1)


def test_who_can_never_start_makes_nothing_longer() -> None:
    summary = summarize(run(job("a", work=100.0, workers=(4, 4)), job("huge", workers=(5, 5))))
    assert summary.makespan_seconds == pytest.approx(25.0, abs=PROTOCOL_SECONDS)
    assert summary.utilization == pytest.approx(1.0, abs=0.01)


def test_slots_that_are_shared_beyond_the_physical_count_are_counted_apart(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("name,slots,oversell\na,2,2\n")
    owner = job("owner", work=200.0, workers=(2, 2))
    sharer = job("sharer", 1.0, work=100.0, shape=WorkerShape(oversell=True))
    alike = summarize(run(owner, sharer, nodes=str(nodes)))
    assert alike.utilization == pytest.approx(200.0 / (2 * 101.0), abs=0.01)
    assert alike.shared_slot_hours == pytest.approx(100.0 / 3600.0, rel=0.01)
    slower = summarize(run(owner, replace(sharer, shared_speed=0.5), nodes=str(nodes)))
    assert slower.makespan_seconds == pytest.approx(201.0, abs=PROTOCOL_SECONDS)


def test_who_shares_leaves_a_slot_whose_memory_runs_full(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("name,slots,oversell\na,1,2\n")
    owner = replace(job("owner", work=1000.0), load=SlotLoad(memory=0.7))
    sharer = job("sharer", 1.0, work=500.0, shape=WorkerShape(oversell=True))
    roomy = run(owner, replace(sharer, load=SlotLoad(memory=0.2)), nodes=str(nodes)).jobs[1]
    assert (roomy.stops, roomy.finished_at) == (0, pytest.approx(501.0, abs=PROTOCOL_SECONDS))
    crowded = run(owner, replace(sharer, load=SlotLoad(memory=0.5)), nodes=str(nodes)).jobs[1]
    assert crowded.stops > 0
    assert crowded.finished_at is not None
    assert crowded.finished_at > 1000.0


def test_use_over_time_tells_what_was_held_and_who_waited() -> None:
    result = run(job("a", work=400.0, workers=(4, 4)), job("b", 10.0, work=40.0, workers=(4, 4)))
    uses = {round(use.at): (use.slots, use.shared_slots, use.waiting_jobs) for use in usage(result)}
    assert uses == {0: (4, 0, 0), 10: (4, 0, 1), 100: (4, 0, 0), 110: (0, 0, 0)}


def test_moments_that_no_float_holds_exactly_make_no_time_go_backwards() -> None:
    result = run(*(job(f"{number}", 0.1 * number, work=0.05) for number in range(1, 20)))
    assert [step.at for step in result.queue] == sorted(step.at for step in result.queue)
    assert usage(result)[-1].waiting_jobs == 0
    assert all(each.waiting_seconds is not None and each.waiting_seconds >= 0.0 for each in result.jobs)
