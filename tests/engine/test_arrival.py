"""Jobs are admitted in the order in which they come, whatever clock the daemon had that took them."""

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from tests.specs import spec_of
from tests.world import World


def submitted(w: World, ahead_seconds: float) -> JobId:
    """A job that was submitted by a clock that is ahead."""
    (job,) = w.store.submit([spec_of("early", workers=1)], w.clock.now() + ahead_seconds)
    w.submitted.append(job.id)
    w.cluster.behave(job.id, Behaviour(runtime=Runtime.ELASTIC))
    return job.id


def test_a_job_that_was_submitted_by_a_clock_that_is_a_day_ahead_waits_behind_nobody_who_came_later(w: World) -> None:
    w.node("a", slots=1)
    busy = w.job("busy", workers=1, priority=5)
    w.settle()
    early = submitted(w, 86_400.0)
    w.tick()
    assert w.get(early).submitted_at == w.get(early).queued_at == w.clock.now()
    w.advance(60)
    late = w.job("late", workers=1)
    w.advance(10)
    w.ask_cancel(busy)
    w.advance(30)
    w.expect(early, JobState.RUNNING)
    w.expect(late, JobState.QUEUED)


def test_the_time_of_submission_stays_as_the_user_was_told_it_where_clocks_differ_little(w: World) -> None:
    w.node("a", slots=1)
    job_id = submitted(w, 2.0)
    told = w.clock.now() + 2.0
    w.settle()
    assert w.get(job_id).submitted_at == told
