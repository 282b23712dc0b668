"""Budgets of queues: told once when nearly spent, kept to once spent, until the month ends or more is given."""

import dataclasses
from datetime import UTC, datetime

import pytest

from scheduler.model.budget import month_hours
from scheduler.model.event import EventKind
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.queue import Queue
from tests.engine.test_accounts import put
from tests.world import World

HOUR = 3600.0


def spent(world: World) -> frozenset[str]:
    assert world.engine.world is not None
    return world.engine.world.spent


def near(world: World) -> list[str]:
    return [event.detail.partition(":")[0] for event in world.events(EventKind.QUEUE_BUDGET_NEAR)]


def test_a_spent_budget_keeps_jobs_from_starting_and_growing_until_more_is_given(w: World) -> None:
    w.node("a", slots=4)
    put(w, "lab", budget=4)
    put(w, "lab/vision")
    first = w.job("first", workers=2, queue="lab/vision", user="ann")
    w.advance(60)
    assert (spent(w), near(w)) == (frozenset(), [])
    w.clock.advance(1.7 * HOUR)
    w.tick()
    assert (spent(w), near(w)) == (frozenset(), ["lab"])
    w.clock.advance(0.4 * HOUR)
    w.tick()
    assert spent(w) == {"lab", "lab/vision"}
    second = w.job("second", workers=1, queue="lab", user="bob")
    other = w.job("other", workers=1, user="bob")
    w.advance(60)
    w.expect(first, JobState.RUNNING, workers=2)
    w.expect(other, JobState.RUNNING, workers=1)
    assert w.expect(second, JobState.QUEUED).wait_reason is WaitReason.BUDGET_SPENT
    assert near(w) == ["lab"]
    now = w.clock.now()
    w.store.set_queue("lab", lambda queue: dataclasses.replace(queue or Queue("lab", now), budget=100), now)
    w.advance(60)
    w.expect(second, JobState.RUNNING, workers=1)
    assert spent(w) == frozenset()


def test_what_is_spent_and_told_is_known_after_a_crash(w: World) -> None:
    w.node("a", slots=4)
    put(w, "lab", budget=4)
    job = w.job("first", workers=4, queue="lab", user="ann")
    w.advance(5)
    w.clock.advance(HOUR)
    w.tick()
    assert (spent(w), near(w)) == ({"lab"}, ["lab"])
    w.ask_cancel(job)
    w.advance(60)
    w.kill_engine()
    w.tick()
    assert (spent(w), near(w)) == ({"lab"}, ["lab"])


def test_with_the_next_month_a_budget_begins_anew(w: World) -> None:
    w.node("a", slots=4)
    put(w, "lab", budget=4)
    w.job("first", workers=4, queue="lab", user="ann")
    w.advance(5)
    w.clock.advance(HOUR)
    w.tick()
    assert spent(w) == {"lab"}
    _, following = month_hours(w.clock.now())
    w.clock.set(following * HOUR - 10)
    w.tick()
    assert spent(w) == {"lab"}
    w.clock.advance(20)
    w.tick()
    assert spent(w) == frozenset(), "ten seconds of the new month"
    w.clock.advance(HOUR)
    w.tick()
    assert spent(w) == {"lab"}
    assert near(w) == ["lab", "lab"]


def test_a_budget_of_nothing_lets_nothing_start(w: World) -> None:
    w.node("a", slots=4)
    put(w, "lab", budget=0)
    job = w.job("first", queue="lab")
    w.advance(30)
    assert w.expect(job, JobState.QUEUED).wait_reason is WaitReason.BUDGET_SPENT


@pytest.mark.parametrize("moment", [(2030, 1, 1, 0), (2030, 2, 28, 23), (2028, 2, 29, 5), (2030, 12, 31, 23)])
def test_months_are_those_of_the_calendar(moment: tuple[int, int, int, int]) -> None:
    at = datetime(*moment, tzinfo=UTC)
    first, last = (datetime.fromtimestamp(hour * HOUR, UTC) for hour in month_hours(at.timestamp()))
    assert (first.year, first.month, first.day, first.hour) == (at.year, at.month, 1, 0)
    assert first <= at < last
    assert (last.day, last.hour) == (1, 0)
    assert (last - first).days in (28, 29, 30, 31)
