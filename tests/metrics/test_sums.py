"""Sums over jobs, which are kept from tick to tick: they stay those of a fresh count."""

from typing import Any

import pytest

from scheduler.engine.leadership.repairs import LOOK_SECONDS
from scheduler.errors import StoreUnavailable
from scheduler.metrics import Metrics
from scheduler.metrics.jobs import JOB_METRICS
from tests.metrics.observed import Observed, samples
from tests.store import garbage
from tests.store.test_unreadable import tick


@pytest.mark.slow
def test_sums_over_jobs_are_those_of_a_fresh_count(w: Observed) -> None:
    w.node("a", slots=8, oversell=1.5)
    jobs = [w.job(f"job {n}", priority=n * 7, workers=(1, 1 + n % 4), oversell=n % 3 == 0) for n in range(12)]
    for number in range(40):
        if number % 7 == 3:
            w.ask_cancel(jobs[number // 7])
        if number % 9 == 4:
            w.set_priority(jobs[-1 - number // 9], number * 10)
        w.advance(1.5)
        assert w.board.world is not None
        fresh = Metrics(w.board, (), w.clock)
        fresh.observe(w.engine.report)
        for metric in JOB_METRICS:
            kept, counted = samples(w.metrics, metric.name), samples(fresh, metric.name)
            assert {(*labels.values(), number) for labels, number in kept} == {
                (*labels.values(), number) for labels, number in counted
            }


def test_sums_are_right_again_after_a_tick_of_which_nothing_was_told(w: Observed) -> None:
    w.node("a", slots=4)
    ended = w.job("ended", workers=2)
    w.job("goes on", workers=2)
    w.advance(10)
    w.ask_cancel(ended)
    while not w.get(ended).state.terminal:
        w.engine.tick()
        w.engine.forget()
        w.metrics.crashed()
        w.clock.advance(1)
    w.tick()
    assert w.value("sched_jobs") == 1
    assert w.value("sched_held_slots") == w.value("sched_workers") == 2
    before = w.value("sched_slot_seconds_total")
    w.clock.advance(10)
    w.tick()
    assert w.value("sched_slot_seconds_total") == pytest.approx(before + 20)


def test_sums_are_right_again_after_commits_whose_answers_were_lost(
    w: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    w.node("a", slots=4)
    ended = w.job("ended", workers=2)
    w.job("goes on", workers=2)
    w.advance(10)
    w.ask_cancel(ended)
    commit = w.store.commit

    def without_answer(*given: Any) -> None:
        commit(*given)
        raise StoreUnavailable("the connection broke off")

    with monkeypatch.context() as broken:
        broken.setattr(w.store, "commit", without_answer)
        while not w.get(ended).state.terminal:
            w.metrics.observe(w.engine.tick())
            w.clock.advance(1)
    w.tick()
    assert w.value("sched_jobs") == 1
    assert w.value("sched_held_slots") == w.value("sched_workers") == 2


def test_a_job_counts_again_once_its_row_is_mended(w: Observed) -> None:
    w.node("a", slots=4)
    job_id = w.job("j", workers=2)
    w.advance(10)
    counted = [w.value(name) for name in ("sched_jobs", "sched_held_slots", "sched_workers")]
    with garbage.unreadable_job(f"sqlite:///{w.store.file}", job_id):
        w.engine.forget()
        w.metrics.observe(tick(w))
        assert w.value("sched_jobs") == w.value("sched_held_slots") == 0
    w.clock.advance(LOOK_SECONDS)
    w.metrics.observe(tick(w))
    assert [w.value(name) for name in ("sched_jobs", "sched_held_slots", "sched_workers")] == counted == [1, 2, 2]
    before = w.value("sched_slot_seconds_total")
    w.clock.advance(10)
    w.tick()
    assert w.value("sched_slot_seconds_total") == pytest.approx(before + 20)
