"""What an engine does with what only a cluster of pods tells: who is stuck, who is on a node out of reach."""

from dataclasses import replace

import pytest

from scheduler.clusters.simulated.cluster import Fault
from scheduler.clusters.simulated.process import STUCK_DETAIL, Behaviour
from scheduler.engine.absorb.exits import EXIT_DONE
from scheduler.model.event import EventKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.node import NodeIntent
from scheduler.model.observation import EndCause
from scheduler.model.worker import ExitReason, LeaveReason
from tests.world import World

STUCK = Behaviour(launch_seconds=10_000.0, stuck_seconds=20.0)


def test_a_worker_that_does_not_come_to_run_is_given_up_and_says_why(w: World) -> None:
    w.node("a", slots=2)
    stuck = w.job("stuck", workers=2, runtime=Runtime.COMMAND, behaviour=STUCK, max_retries=0)
    w.advance(19.0)
    w.expect(stuck, JobState.STARTING, workers=2)
    other = w.job("other", workers=2)
    w.settle()
    w.expect(stuck, JobState.FAILED)
    w.expect(other, JobState.RUNNING, workers=2)
    ends = [event for event in w.events(EventKind.WORKER_ENDED) if event.job_id == stuck]
    assert ExitReason.LAUNCH_FAILED in {event.cause for event in ends}
    assert STUCK_DETAIL in w.get(stuck).detail


@pytest.mark.parametrize(("cause", "state"), [(None, JobState.FAILED), (EndCause.NOT_ADMITTED, JobState.STARTING)])
def test_who_is_given_up_and_then_gone_with_a_reboot_does_not_stay_for_ever(
    w: World, cause: EndCause | None, state: JobState
) -> None:
    a = w.node("a", slots=1)
    behaviour = replace(STUCK, stuck_cause=cause)
    stuck = w.job("stuck", runtime=Runtime.COMMAND, behaviour=behaviour, max_retries=0)
    w.advance(19.0)
    w.cluster.action_faults = [Fault.NOT_DONE] * 100
    w.advance(2.0)
    assert [worker.condemned for worker in w.get(stuck).workers] == [True]
    w.cluster.action_faults.clear()
    w.cluster.lose_node(a)
    w.cluster.return_node(a, rebooted=True)
    w.advance(5.0)
    w.expect(stuck, state)
    assert w.get(stuck).attempt == (1 if cause is None else 2)


@pytest.mark.parametrize("runtime", [Runtime.COMMAND, Runtime.ELASTIC])
def test_a_worker_that_the_cluster_does_not_let_run_costs_no_retry_and_its_slots_are_free_for_others(
    w: World, runtime: Runtime
) -> None:
    w.node("a", slots=2)
    blameless = replace(STUCK, runtime=runtime, stuck_cause=EndCause.NOT_ADMITTED)
    stuck = w.job("stuck", workers=2, runtime=runtime, behaviour=blameless, max_retries=0)
    w.advance(19.0)
    w.expect(stuck, JobState.STARTING, workers=2)
    other = w.job("other", workers=2)
    w.advance(30.0)
    w.expect(stuck, JobState.QUEUED)
    w.expect(other, JobState.RUNNING, workers=2)
    ends = [event for event in w.events(EventKind.WORKER_ENDED) if event.job_id == stuck]
    assert ExitReason.NOT_ADMITTED in {event.cause for event in ends}
    assert w.get(stuck).retries_used == 0
    (stopping, *_) = [event for event in w.events(EventKind.JOB_STOPPING) if event.job_id == stuck]
    assert stopping.cause == StopReason.BELOW_MINIMUM


def test_a_node_that_gets_no_workers_of_several_jobs_to_run_is_quarantined_though_no_retry_is_used(w: World) -> None:
    a, b = w.node("a", slots=4), w.node("b", slots=1)
    blameless = replace(STUCK, stuck_cause=EndCause.NOT_ADMITTED)
    jobs = [w.job(f"j{i}", workers=2, runtime=Runtime.COMMAND, behaviour=blameless) for i in range(2)]
    w.advance(30.0)
    assert w.engine.world is not None
    assert w.engine.world.nodes[a].intent is NodeIntent.QUARANTINED
    assert w.engine.world.nodes[b].intent is NodeIntent.ACTIVE
    assert [w.get(job).retries_used for job in jobs] == [0, 0]


def test_an_elastic_job_goes_on_without_a_worker_that_is_out_of_reach_and_its_slots_stay_taken(w: World) -> None:
    a, b = w.node("a", slots=2), w.node("b", slots=2)
    job_id = w.job("j", workers=(1, 4))
    w.settle()
    w.cluster.lose_node(b, remembered=True)
    w.advance(5.0)
    job = w.get(job_id)
    assert {worker.node for worker in job.members} == {a}
    assert {worker.leave_reason for worker in job.leaving} == {LeaveReason.UNREACHABLE}
    assert {worker.node for worker in job.leaving} == {b}
    assert not [event for event in w.events(EventKind.WORKER_ENDED) if event.cause == ExitReason.LOST]
    w.cluster.return_node(b, rebooted=False)
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=4)
    assert w.get(job_id).retries_used == 0


def test_silence_of_a_node_out_of_reach_is_no_hang_and_work_that_was_done_there_counts(w: World) -> None:
    a = w.node("a", slots=2)
    job_id = w.job("j", workers=2, heartbeat_seconds=10.0, behaviour=Behaviour(Runtime.ELASTIC, work_seconds=40.0))
    w.advance(5.0)
    w.expect(job_id, JobState.RUNNING, workers=2)
    w.cluster.lose_node(a, remembered=True)
    w.advance(60.0)
    w.cluster.return_node(a, rebooted=False)
    w.settle()
    assert w.get(job_id).state is JobState.SUCCEEDED
    assert w.get(job_id).retries_used == 0


def test_a_gang_waits_for_its_node(w: World) -> None:
    w.node("a", slots=1)
    b = w.node("b", slots=1)
    job_id = w.job("gang", workers=2, runtime=Runtime.COMMAND)
    w.settle()
    before = w.get(job_id).workers
    w.cluster.lose_node(b, remembered=True)
    w.advance(60.0)
    assert w.get(job_id).workers == before
    w.cluster.return_node(b, rebooted=False)
    w.settle()
    assert w.get(job_id).workers == before


def test_whoever_ends_on_a_node_out_of_reach_is_seen_when_it_returns(w: World) -> None:
    a, b = w.node("a", slots=1), w.node("b", slots=1)
    job_id = w.job("j", workers=(1, 2), behaviour=Behaviour(runtime=Runtime.ELASTIC, leave_seconds=None))
    w.settle()
    (there,) = [worker for worker in w.get(job_id).workers if worker.node == b]
    w.cluster.lose_node(b, remembered=True)
    w.advance(2.0)
    w.cluster.crash(there.id, EXIT_DONE)
    w.advance(2.0)
    assert w.get(job_id).worker(there.id) is not None
    w.cluster.return_node(b, rebooted=False)
    w.settle()
    ends = [event for event in w.events(EventKind.WORKER_ENDED) if event.worker_id == there.id]
    assert [event.cause for event in ends] == [ExitReason.ASKED]
    assert a in {worker.node for worker in w.get(job_id).members}
