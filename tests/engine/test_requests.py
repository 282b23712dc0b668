"""What users ask of running and waiting jobs and of nodes."""

from scheduler.clusters.simulated_process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobState, Runtime, WaitReason
from scheduler.model.node import NodeIntent
from tests.world import World


def test_a_job_ends_when_its_workers_are_done(w: World) -> None:
    w.node("a", slots=2)
    plain = w.job("plain", workers=2, runtime=Runtime.COMMAND, behaviour=Behaviour(work_seconds=4.0))
    w.settle()
    job = w.expect(plain, JobState.SUCCEEDED, workers=0)
    assert job.exit_code == 0
    assert job.finished_at is not None


def test_cancelling_a_waiting_and_a_running_job(w: World) -> None:
    w.node("a", slots=1)
    running, waiting = w.job("running"), w.job("waiting")
    w.settle()
    w.ask_cancel(running)
    w.ask_cancel(waiting)
    w.settle()
    w.expect(running, JobState.CANCELLED, workers=0)
    w.expect(waiting, JobState.CANCELLED, workers=0)


def test_suspend_and_resume_keep_the_job(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j")
    w.settle()
    w.ask(IntentKind.SUSPEND, job_id)
    w.settle()
    w.expect(job_id, JobState.SUSPENDED, workers=0)
    w.ask(IntentKind.RESUME, job_id)
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=1)


def test_resuming_while_still_stopping_runs_the_job_again(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j", behaviour=Behaviour(runtime=Runtime.ELASTIC, leave_seconds=5.0))
    w.settle()
    w.ask(IntentKind.SUSPEND, job_id)
    w.advance(1)
    w.expect(job_id, JobState.STOPPING)
    w.ask(IntentKind.RESUME, job_id)
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=1)


def test_scaling_down_and_up(w: World) -> None:
    w.node("a", slots=4)
    job_id = w.job("j", workers=(1, 4))
    w.settle()
    w.ask(IntentKind.SCALE, job_id, max_workers=2)
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=2)
    w.ask(IntentKind.SCALE, job_id, max_workers=3)
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=3)


def test_a_time_limit_ends_the_attempt(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j", time_limit_seconds=30.0)
    w.settle()
    job = w.expect(job_id, JobState.FAILED)
    assert "30 s" in job.detail


def test_an_impossible_job_is_explained_at_once_and_blocks_nobody(w: World) -> None:
    w.node("a", slots=2)
    huge = w.job("huge", workers=3, priority=9)
    odd = w.job("odd", selector={"zone": "moon"}, priority=9)
    fine = w.job("fine")
    w.settle()
    assert w.get(huge).wait_reason is WaitReason.EXCEEDS_CLUSTER
    assert w.get(odd).wait_reason is WaitReason.NO_MATCHING_NODE
    w.expect(fine, JobState.RUNNING, workers=1)


def test_draining_moves_workers_off_and_uncordon_brings_the_node_back(w: World) -> None:
    a, b = w.node("a", slots=2), w.node("b", slots=2)
    job_id = w.job("j", workers=(1, 2))
    w.settle()
    (node,) = {worker.node for worker in w.get(job_id).workers}
    w.ask(IntentKind.DRAIN, node=node)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert {worker.node for worker in job.workers} == {b if node == a else a}
    assert job.retries_used == 0
    w.ask(IntentKind.UNCORDON, node=node)
    w.settle()
    assert w.engine.world is not None
    assert w.engine.world.nodes[node].intent is NodeIntent.ACTIVE


def test_a_cordoned_node_gets_no_new_workers(w: World) -> None:
    a = w.node("a", slots=2)
    w.tick()
    w.ask(IntentKind.CORDON, node=a)
    w.tick()
    job_id = w.job("j")
    w.settle()
    assert w.get(job_id).wait_reason is WaitReason.NODES_UNAVAILABLE


def test_a_request_that_cannot_be_done_leaves_an_event(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j")
    w.settle()
    w.ask(IntentKind.RESUME, job_id)
    w.ask(IntentKind.SCALE, job_id, min_workers=5)
    w.tick()
    refused = w.events(EventKind.REQUEST_REFUSED)
    assert [e.cause for e in refused] == ["RESUME", "SCALE"]
    assert all(e.detail for e in refused)
