"""Workers that are asked to leave, and when that is confirmed."""

import pytest

from scheduler.clusters.simulated.cluster import Fault
from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from tests.world import World


def ticks_while_leaving(w: World, job: JobId, seconds: float) -> int:
    """How many ticks the engine asks for in this time, which are all of a job that is cancelled."""
    w.ask_cancel(job)
    before, until = len(w.reported), w.clock.now() + seconds
    while w.clock.now() < until:
        report = w.tick()
        w.clock.set(max(report.next_tick_at, w.clock.now() + w.settings.engine.tick_gap_seconds))
    w.expect(job, JobState.STOPPING)
    return len(w.reported) - before


@pytest.mark.parametrize("reachable", [True, False])
def test_a_worker_that_leaves_while_it_is_launched_is_waited_for_without_haste(w: World, reachable: bool) -> None:
    node = w.node("a", slots=1)
    job = w.job("launching", behaviour=Behaviour(runtime=Runtime.ELASTIC, launch_seconds=1000.0, leave_seconds=20.0))
    w.advance(10)
    if not reachable:
        w.cluster.lose_node(node, remembered=True)
    assert ticks_while_leaving(w, job, seconds=10) <= 11


def test_one_that_may_have_been_started_is_waited_for_without_haste(w: World) -> None:
    w.node("a", slots=1)
    w.cluster.action_faults = [Fault.NOT_DONE] * 100
    job = w.job("refused")
    w.tick()
    assert ticks_while_leaving(w, job, seconds=10) <= 11


def test_one_that_was_never_started_is_confirmed_as_gone_at_once(w: World) -> None:
    w.node("a", slots=1)
    job = w.job("pauses", workers=(1, 2))
    w.tick()
    w.cluster.crash(w.get(job).workers[0].id)
    w.tick()
    assert w.get(job).workers[0].not_before > w.clock.now()
    w.ask_cancel(job)
    assert w.tick().next_tick_at == w.clock.now()
    w.tick()
    w.expect(job, JobState.CANCELLED)


def test_one_that_ran_and_is_gone_ends_its_job_although_the_call_that_stops_it_fails(w: World) -> None:
    node = w.node("a", slots=1)
    job = w.job("gone")
    w.advance(10)
    w.cluster.action_faults = [Fault.NOT_DONE] * 100
    w.ask_cancel(job)
    w.tick()
    w.cluster.return_node(node, rebooted=True)
    w.clock.advance(1.0)
    w.tick()
    w.expect(job, JobState.CANCELLED)
