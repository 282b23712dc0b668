"""What users ask of running and waiting jobs and of nodes."""

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.ids import NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, WaitReason
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


def test_requests_while_a_job_is_being_stopped(w: World) -> None:
    w.node("a", slots=3)
    slow = Behaviour(runtime=Runtime.ELASTIC, leave_seconds=5.0)
    cancelled, suspended, twice = (w.job(name, behaviour=slow) for name in ("cancelled", "suspended", "twice"))
    w.settle()
    for job_id in (cancelled, twice):
        w.ask(IntentKind.SUSPEND, job_id)
    w.ask_cancel(suspended)
    w.advance(1)
    w.ask_cancel(cancelled)
    w.ask(IntentKind.SUSPEND, suspended)
    w.ask(IntentKind.SUSPEND, twice)
    w.settle()
    w.expect(cancelled, JobState.CANCELLED)
    w.expect(suspended, JobState.CANCELLED)
    w.expect(twice, JobState.SUSPENDED)
    w.ask(IntentKind.SUSPEND, twice)
    w.ask_cancel(cancelled)
    w.tick()
    assert [e.detail for e in w.events(EventKind.REQUEST_REFUSED)][-2:] == [
        "it is already suspended",
        "the job has already ended",
    ]


def test_suspending_a_waiting_job_gives_up_its_reservation(w: World) -> None:
    w.node("a", slots=2)
    stubborn = Behaviour(runtime=Runtime.ELASTIC, leave_seconds=None)
    low = w.job("low", workers=(1, 2), behaviour=stubborn)
    w.settle()
    high = w.job("high", priority=5)
    w.tick()
    assert w.get(high).reservation
    w.ask(IntentKind.SUSPEND, high)
    w.settle()
    assert not w.expect(high, JobState.SUSPENDED).reservation
    w.expect(low, JobState.RUNNING, workers=2)


def test_a_preempted_job_that_is_suspended_on_its_way_out_stays_out(w: World) -> None:
    w.node("a", slots=2)
    low = w.job("low", workers=2, behaviour=Behaviour(runtime=Runtime.ELASTIC, leave_seconds=5.0))
    w.settle()
    w.job("high", priority=5)
    w.advance(1)
    w.expect(low, JobState.STOPPING)
    w.ask(IntentKind.SUSPEND, low)
    w.settle()
    w.expect(low, JobState.SUSPENDED)


def test_requests_for_nodes_that_do_not_exist_or_are_so_already(w: World) -> None:
    a = w.node("a", slots=1)
    w.tick()
    w.ask(IntentKind.CORDON, node=NodeName("nowhere"))
    w.ask(IntentKind.UNCORDON, node=a)
    w.tick()
    (refused,) = w.events(EventKind.REQUEST_REFUSED)
    assert (refused.node, refused.detail) == ("nowhere", "node not found")


def test_a_node_may_shrink_only_as_its_slots_come_free(w: World) -> None:
    a = w.node("a", slots=4)
    job_id = w.job("j", workers=4)
    w.settle()
    w.node("a", slots=2)  # the same name: its facts change
    w.tick()
    assert w.engine.world is not None
    assert w.engine.world.nodes[a].slots == 4
    w.ask_cancel(job_id)
    w.settle()
    assert w.engine.world.nodes[a].slots == 2


def test_slots_that_come_free_one_after_the_other_make_one_resize(w: World) -> None:
    w.node("a", slots=4)
    low = w.job("low", workers=(1, 4))
    pair = [w.job(f"short-{i}", priority=1, runtime=Runtime.COMMAND) for i in range(2)]
    w.settle()
    before = w.expect(low, JobState.RUNNING, workers=2)
    for job_id in pair:
        w.cluster.crash(w.get(job_id).workers[0].id, exit_code=0)
        w.advance(0.3)
    assert len(w.get(low).wanted_workers) == 4
    w.settle()
    assert w.expect(low, JobState.RUNNING, workers=4).generation == before.generation + 1
