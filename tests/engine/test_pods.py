"""What an engine does with what only a cluster of pods tells: who is stuck, who is on a node out of reach."""

from scheduler.clusters.simulated_process import STUCK_DETAIL, Behaviour
from scheduler.engine.exits import EXIT_DONE
from scheduler.model.event import EventKind
from scheduler.model.job import JobState, Runtime
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
