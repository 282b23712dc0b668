"""What a user does to a job is the user's act, whatever stopped the job before."""

from collections.abc import Callable

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, StopReason
from tests.world import World

_ACTS = [
    pytest.param(IntentKind.CANCEL, JobState.CANCELLED, StopReason.CANCELLED, id="cancel"),
    pytest.param(IntentKind.SUSPEND, JobState.SUSPENDED, StopReason.SUSPENDED, id="suspend"),
]
_TOLD = {IntentKind.CANCEL: EventKind.JOB_CANCELLED, IntentKind.SUSPEND: EventKind.JOB_SUSPENDED}


def preempted(w: World) -> JobId:
    """Back in the queue, for a more important job."""
    w.node("a", slots=2)
    victim = w.job("victim", workers=2, priority=1)
    w.settle()
    w.job("boss", workers=2, priority=5)
    w.settle()
    assert w.expect(victim, JobState.QUEUED).stop_for is not None
    return victim


def being_preempted(w: World) -> JobId:
    """Asked to leave for a more important job, and not gone yet."""
    w.node("a", slots=2)
    victim = w.job("victim", workers=2, priority=1, behaviour=Behaviour(Runtime.ELASTIC, leave_seconds=5.0))
    w.settle()
    w.job("boss", workers=2, priority=5)
    w.advance(1)
    assert w.expect(victim, JobState.STOPPING).stop_for is not None
    return victim


def failed(w: World) -> JobId:
    """Back in the queue after a failure, for a pause."""
    w.node("a", slots=1)
    job_id = w.job("j", runtime=Runtime.COMMAND, behaviour=Behaviour(Runtime.COMMAND, crash_after_seconds=1.0))
    w.advance(2)
    assert w.expect(job_id, JobState.QUEUED).detail
    return job_id


@pytest.mark.parametrize("stopped", [preempted, being_preempted, failed])
@pytest.mark.parametrize(("act", "state", "reason"), _ACTS)
def test_a_user_s_act_replaces_what_stopped_the_job_before(
    w: World, stopped: Callable[[World], JobId], act: IntentKind, state: JobState, reason: StopReason
) -> None:
    job_id = stopped(w)
    w.ask(act, job_id)
    w.settle()
    job = w.expect(job_id, state, workers=0)
    assert (job.stop_reason, job.stop_for, job.detail) == (reason, None, "")
    told = w.events(_TOLD[act])[-1]
    assert (told.job_id, told.cause, told.for_job, told.detail) == (job_id, reason.value, None, "")


@pytest.mark.parametrize(("act", "state", "reason"), _ACTS)
def test_a_job_that_never_ran_has_the_reason_of_the_act(
    w: World, act: IntentKind, state: JobState, reason: StopReason
) -> None:
    job_id = w.job("j")
    w.tick()
    w.ask(act, job_id)
    w.tick()
    assert w.expect(job_id, state).stop_reason is reason


def test_cancelling_a_suspended_job_is_why_it_ended(w: World) -> None:
    job_id = w.job("j")
    w.tick()
    w.ask(IntentKind.SUSPEND, job_id)
    w.tick()
    w.ask_cancel(job_id)
    w.tick()
    assert w.expect(job_id, JobState.CANCELLED).stop_reason is StopReason.CANCELLED
