"""Workers that fail or vanish, nodes that do, and what that costs their jobs."""

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import EngineSettings, Settings
from scheduler.model.event import EventKind
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.slot import ClosedSlot, SlotClosure
from tests.world import World

ELASTIC = Runtime.ELASTIC


def test_a_failed_worker_of_an_elastic_job_is_replaced_while_the_others_go_on(w: World) -> None:
    w.node("a", slots=3)
    job_id = w.job("j", workers=(1, 3))
    w.settle()
    before = w.get(job_id)
    w.cluster.crash(before.workers[1].id)
    w.advance(0.5)
    assert len(w.get(job_id).members) == 2
    w.settle()
    after = w.expect(job_id, JobState.RUNNING, workers=3)
    assert (after.attempt, after.retries_used) == (1, 1)
    assert before.workers[1].id not in {m.id for m in after.members}
    assert [m.id for m in after.members][:2] == [before.workers[0].id, before.workers[2].id]


def test_one_that_had_trained_is_replaced_at_once_and_after_the_next_failures_with_growing_pauses(w: World) -> None:
    w.node("a", slots=3)
    job_id = w.job("j", workers=(1, 3), max_retries=3)
    w.settle()
    pauses = []
    for _ in range(3):
        w.cluster.crash(w.get(job_id).members[0].id)
        w.settle()
        ended, replaced = w.events(EventKind.WORKER_ENDED)[-1], w.events(EventKind.WORKER_REPLACED)[-1]
        started = w.events(EventKind.WORKER_STARTED)[-1]
        assert replaced.worker_id == started.worker_id
        pauses.append(started.at - ended.at)
    once = w.settings.engine.backoff_seconds
    tick = w.settings.engine.tick_interval_seconds
    assert pauses[0] <= tick < 2 * once <= pauses[1] <= 2 * once + tick
    assert 4 * once <= pauses[2] <= 4 * once + tick
    assert [e.detail.split(" be ")[1] for e in w.events(EventKind.WORKER_REPLACED)] == [
        "replaced at once",
        "replaced in 2 s",
        "replaced in 4 s",
    ]


@pytest.mark.parametrize("closed", ["cordoned", "slot taken"])
def test_a_replacement_starts_nowhere_that_was_closed_during_its_pause(tmp_path: Path, closed: str) -> None:
    w = World(tmp_path, settings=Settings(state_dir=tmp_path, engine=EngineSettings(backoff_seconds=60.0)))
    w.node("a", slots=1)
    b = w.node("b", slots=1)
    job_id = w.job("j", workers=(1, 2))
    w.settle()
    for _ in range(2):
        (there,) = (worker for worker in w.get(job_id).workers if worker.node == b)
        w.cluster.crash(there.id)
        w.advance(5)
    if closed == "cordoned":
        w.ask(IntentKind.CORDON, node=b)
    else:
        taken = ClosedSlot(0, SlotClosure.FOREIGN, "pid 7 of somebody")
        w.cluster.add_node(replace(w.cluster.facts(b), closed_slots=(taken,)))
    w.advance(200)
    job = w.expect(job_id, JobState.RUNNING, workers=1)
    assert (job.workers[0].node, job.retries_used) == ("a", 2)
    w.node("c", slots=1)
    w.settle()
    assert {worker.node for worker in w.expect(job_id, JobState.RUNNING, workers=2).workers} == {"a", "c"}
    w.close()


def test_one_that_never_trained_is_replaced_after_a_pause(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=(1, 2), behaviour=Behaviour(runtime=ELASTIC, ready_seconds=None))
    w.advance(0.1)
    w.cluster.crash(w.get(job_id).workers[1].id)
    w.tick()
    (replaced,) = w.events(EventKind.WORKER_REPLACED)
    assert replaced.detail.endswith(f"replaced in {w.settings.engine.backoff_seconds:g} s")


def test_a_rigid_job_restarts_as_a_gang_after_a_pause(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2, runtime=Runtime.COMMAND)
    w.settle()
    w.cluster.crash(w.get(job_id).workers[0].id, exit_code=3)
    w.tick()
    assert w.get(job_id).state is JobState.STOPPING
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert (job.attempt, job.retries_used) == (2, 1)
    failed, restarted = w.events(EventKind.WORKER_ENDED)[0], w.events(EventKind.JOB_STARTED)[1]
    assert restarted.at - failed.at >= w.settings.engine.backoff_seconds


@pytest.mark.parametrize("workers", [1, (1, 2)])
def test_a_job_fails_when_its_retries_are_used_up_with_growing_pauses(w: World, workers: int) -> None:
    w.node("a", slots=2)
    crashing = Behaviour(runtime=ELASTIC, crash_after_seconds=2.0, crash_code=7)
    job_id = w.job("j", workers=workers, max_retries=2, behaviour=crashing)
    w.settle()
    job = w.expect(job_id, JobState.FAILED, workers=0)
    assert (job.retries_used, job.exit_code) == (3, 7)
    assert "exit code 7" in job.detail


def test_preemption_and_node_loss_consume_no_retry(w: World) -> None:
    a, _b = w.node("a", slots=2), w.node("b", slots=2)
    job_id = w.job("j", workers=(1, 4), max_retries=0)
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=4)
    w.cluster.lose_node(a)
    w.settle()
    w.job("high", priority=5, workers=1)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=1)
    assert (job.retries_used, job.attempt) == (0, 1)


def test_a_rigid_job_whose_node_is_lost_starts_again_elsewhere(w: World) -> None:
    a, _b = w.node("a", slots=2), w.node("b", slots=2)
    job_id = w.job("j", workers=2, max_retries=0)
    w.settle()
    (node,) = {worker.node for worker in w.get(job_id).workers}
    w.cluster.lose_node(node)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert {worker.node for worker in job.workers} == {"b" if node == a else "a"}
    assert job.retries_used == 0


def test_workers_of_a_lost_node_that_return_are_fenced_before_their_slots_are_used(w: World) -> None:
    a = w.node("a", slots=4)
    stubborn = Behaviour(runtime=ELASTIC, leave_seconds=None)
    job_id = w.job("j", workers=4, behaviour=stubborn)
    w.settle()
    old = {worker.id for worker in w.get(job_id).workers}
    w.cluster.lose_node(a)
    w.settle()
    w.expect(job_id, JobState.QUEUED, workers=0)
    w.cluster.return_node(a, rebooted=False)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=4)
    assert not old & {worker.id for worker in job.workers}
    assert not old & {start.worker_id for _, start in w.cluster.alive()}


def test_a_worker_that_is_done_before_there_was_a_group_ends_the_job(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=(1, 2))
    w.advance(0.5)
    first = w.expect(job_id, JobState.STARTING, workers=2).workers[0]
    w.cluster.crash(first.id, exit_code=0)
    w.settle()
    w.expect(job_id, JobState.SUCCEEDED)
    assert not w.cluster.alive(), "nobody waits for a group that will never be"


def test_exit_65_is_replaced_without_a_retry_and_64_leaves_in_order(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=(1, 2), max_retries=0)
    w.settle()
    w.cluster.crash(w.get(job_id).workers[1].id, exit_code=65)
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=2)
    w.cluster.crash(w.get(job_id).workers[1].id, exit_code=64)
    w.settle()
    assert w.expect(job_id, JobState.RUNNING, workers=2).retries_used == 0


def test_the_loss_of_all_workers_of_an_elastic_job_restarts_it(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=(1, 2))
    w.settle()
    for worker in w.get(job_id).workers:
        w.cluster.crash(worker.id)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert job.retries_used == 1


def test_a_plain_gang_that_loses_a_worker_starts_again_as_a_whole(w: World) -> None:
    a, b = w.node("a", slots=1), w.node("b", slots=1)
    job_id = w.job("j", workers=2, max_retries=0, runtime=Runtime.COMMAND)
    w.settle()
    before = {worker.id for worker in w.get(job_id).workers}
    w.cluster.lose_node(b)
    w.advance(5)
    w.expect(job_id, JobState.QUEUED, workers=0)
    w.cluster.return_node(b, rebooted=True)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert not before & {worker.id for worker in job.workers}
    assert {worker.node for worker in job.workers} == {a, b}
    w.cluster.crash(job.workers[0].id, exit_code=65)
    w.settle()
    assert w.expect(job_id, JobState.RUNNING, workers=2).retries_used == 0


def test_those_that_go_on_when_one_is_done_early_get_a_list_without_it(w: World) -> None:
    w.node("a", slots=3)
    job_id = w.job("j", workers=(3, 4))
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=3)
    left = [worker.id for worker in sorted(job.workers, key=lambda each: each.rank or 0)][1:]
    w.cluster.crash(next(worker.id for worker in job.workers if worker.rank == 0), exit_code=0)
    w.settle()
    after = w.expect(job_id, JobState.RUNNING, workers=2)
    assert after.finishing
    assert after.generation == job.generation + 1
    assert [worker.id for worker in after.members] == left
    assert {worker.reported_generation for worker in after.members} == {after.generation}


def test_who_was_done_first_is_told_while_the_others_go_on_and_where_they_fail_then(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2, max_retries=0, runtime=Runtime.COMMAND)
    w.settle()
    first, second = w.get(job_id).workers
    w.cluster.crash(first.id, exit_code=0)
    w.settle()
    early = f"worker {first.id} on a ended with exit code 0 before the others: all ranks of a group must end together"
    job = w.expect(job_id, JobState.RUNNING, workers=1)
    assert (job.finishing, job.detail) == (True, early)
    w.cluster.crash(second.id, exit_code=1)
    w.settle()
    told = f"worker {second.id} on a: FAILED, exit code 1; {early}"
    assert w.expect(job_id, JobState.FAILED).detail == told


def test_nothing_is_told_of_who_was_done_first_once_all_are_done(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2, runtime=Runtime.COMMAND)
    w.settle()
    for worker in w.get(job_id).workers:
        w.cluster.crash(worker.id, exit_code=0)
        w.tick()
    assert w.expect(job_id, JobState.SUCCEEDED).detail == ""
