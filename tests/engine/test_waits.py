"""A wait is the time from being queued, or queued again, to being started; aging remembers those before."""

from dataclasses import replace

import pytest

from scheduler.config import PolicySettings
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job_state import JobState
from scheduler.policy.snapshot.order import Order
from tests.world import START, World

AGING = PolicySettings(aging_per_hour=1.0)


def waited(w: World, job_id: JobId) -> list[float | None]:
    """Seconds that history tells for each of its starts."""
    return [event.amount for event in w.events(EventKind.JOB_STARTED) if event.job_id == job_id]


def start_twice(w: World) -> JobId:
    """A job that waits for 100 seconds, runs for 50, loses its slots, and waits for 10 more."""
    w.node("a", slots=2)
    first = w.job("first", workers=2, priority=5)
    w.tick()
    job_id = w.job("twice", workers=2, priority=1)
    w.advance(100)
    w.ask_cancel(first)
    w.advance(50)
    second = w.job("second", workers=2, priority=5)
    w.advance(10)
    assert w.expect(job_id, JobState.QUEUED).queued_at == pytest.approx(START + 150, abs=1)
    w.ask_cancel(second)
    w.advance(20)
    w.expect(job_id, JobState.RUNNING)
    return job_id


def test_every_start_tells_its_own_wait(w: World) -> None:
    job_id = start_twice(w)
    assert waited(w, job_id) == [pytest.approx(100, abs=1), pytest.approx(10, abs=1)]


def test_aging_adds_up_all_waits(w: World) -> None:
    job = w.get(start_twice(w))
    assert job.waited_seconds == pytest.approx(110, abs=2)
    assert Order(w.clock.now(), AGING).effective(job) == pytest.approx(1 + job.waited_seconds / 3600)
    now = w.clock.now() + 1000
    queued = replace(job, state=JobState.QUEUED, workers=(), queued_at=now - 90)
    assert Order(now, AGING).effective(queued) == pytest.approx(1 + (job.waited_seconds + 90) / 3600)


def test_a_job_that_is_resumed_waits_anew(w: World) -> None:
    job_id = start_twice(w)
    w.ask(IntentKind.SUSPEND, job_id)
    w.advance(30)
    w.ask(IntentKind.RESUME, job_id)
    w.advance(30)
    assert waited(w, job_id)[2:] == [pytest.approx(0, abs=1)]
    assert w.get(job_id).waited_seconds == pytest.approx(0, abs=1)


def test_a_job_keeps_when_it_was_started_first(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("victim", workers=2)
    w.advance(50)
    first = w.get(job_id).started_at
    w.job("boss", workers=2, priority=5)
    w.advance(50)
    w.ask_cancel(job_id)
    w.tick()
    job = w.expect(job_id, JobState.CANCELLED)
    assert (job.attempt, job.started_at, job.first_started_at) == (1, None, first)


def test_a_later_start_leaves_the_first_one_as_it_was(w: World) -> None:
    job = w.get(start_twice(w))
    assert job.attempt == 2
    assert job.first_started_at == pytest.approx(START + 100, abs=1)
    assert job.started_at == pytest.approx(START + 160, abs=1)
