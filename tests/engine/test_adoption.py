"""What workers agreed on while no scheduler answered is adopted, once, and the job grows again."""

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId, WorkerId, worker_id
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.observation import Agreed, WorkerReport
from scheduler.model.worker import LeaveReason
from tests.world import World

#: Says what a test has it say: a heartbeat of the simulator's own would replace that.
QUIET = Behaviour(runtime=Runtime.ELASTIC, heartbeat_seconds=None)


@pytest.fixture
def job_id(w: World) -> JobId:
    """A job of three."""
    w.node("a", slots=3)
    job_id = w.job("j", workers=(1, 3), behaviour=QUIET)
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=3)
    return job_id


def tell(w: World, job_id: JobId, *lost: int, sub: int = 1, **fields: object) -> None:
    """The first worker reports that the others are left out; the engine hears it at once."""
    job = w.get(job_id)
    agreed = Agreed(job.generation, sub, tuple(worker_id(job_id, ordinal) for ordinal in lost))
    fields = {"generation": job.generation, "ready": True, **fields}
    report = WorkerReport(job.members[0].id, job_id, w.clock.now(), agreed=agreed, **fields)  # type: ignore[arg-type]
    assert w.reports.put(report), "it is urgent"
    w.tick()


def adoptions(w: World, job_id: JobId) -> list[str]:
    return [event.detail for event in w.events(EventKind.SUBGENERATION_ADOPTED) if event.job_id == job_id]


def ids(job_id: JobId, *ordinals: int) -> set[WorkerId]:
    return {worker_id(job_id, ordinal) for ordinal in ordinals}


def test_a_member_that_was_left_out_alive_has_to_leave_and_the_others_are_the_next_generation(
    w: World, job_id: JobId
) -> None:
    before = w.get(job_id)
    tell(w, job_id, 3)
    job = w.get(job_id)
    assert job.generation == before.generation + 1
    assert {worker.id for worker in job.members} == ids(job_id, 1, 2)
    (leaving,) = job.leaving
    assert (leaving.id, leaving.leave_reason) == (worker_id(job_id, 3), LeaveReason.LEFT_OUT)
    without = f"its workers continued without {job_id}-3 while the scheduler was unreachable"
    named = f"generation {before.generation}.1: {without}"
    assert adoptions(w, job_id) == [named]
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=3)
    assert {worker.id for worker in job.members} == ids(job_id, 1, 2, 4)
    assert job.retries_used == 0


def test_the_same_agreement_is_adopted_once_also_by_an_engine_that_starts_anew(w: World, job_id: JobId) -> None:
    generation = w.get(job_id).generation
    agreed = Agreed(generation, 1, (worker_id(job_id, 3),))
    tell(w, job_id, 3)
    w.kill_engine()
    w.settle()
    job = w.get(job_id)
    report = WorkerReport(
        job.members[0].id, job_id, w.clock.now(), generation=job.generation, ready=True, agreed=agreed
    )
    w.reports.put(report)
    w.settle()
    assert len(adoptions(w, job_id)) == 1
    assert w.get(job_id).generation == job.generation
    tell(w, job_id, 2, sub=1)
    assert len(adoptions(w, job_id)) == 2


def test_an_agreement_about_workers_that_were_found_dead_meanwhile_is_history_only(w: World, job_id: JobId) -> None:
    before = w.get(job_id)
    w.cluster.crash(worker_id(job_id, 3))
    w.settle()
    after = w.expect(job_id, JobState.RUNNING, workers=3)
    assert after.generation > before.generation
    agreed = Agreed(before.generation, 1, (worker_id(job_id, 3),))
    w.reports.put(WorkerReport(after.members[0].id, job_id, w.clock.now(), after.generation, True, agreed=agreed))
    w.settle()
    assert len(adoptions(w, job_id)) == 1
    assert w.get(job_id).generation == after.generation
    assert {worker.id for worker in w.get(job_id).members} == {worker.id for worker in after.members}


def test_a_later_agreement_of_the_same_generation_is_adopted_with_all_that_it_lost(w: World) -> None:
    w.node("a", slots=5)
    job_id = w.job("j", workers=(1, 5), behaviour=QUIET)
    w.settle()
    tell(w, job_id, 4, 5, sub=2)
    assert {worker.id for worker in w.get(job_id).members} == ids(job_id, 1, 2, 3)
    assert ".2: its workers continued without 1-4, 1-5 while" in adoptions(w, job_id)[0]


def test_the_speed_of_those_who_went_on_is_not_taken_for_that_of_all(w: World, job_id: JobId) -> None:
    w.advance(60.0)
    tell(w, job_id, 3, samples_per_second=12345.0)
    progress = w.get(job_id).progress
    assert progress.samples_per_second == 12345.0
    assert 12345.0 not in dict(progress.throughput).values()


def test_an_agreement_without_the_first_rank_is_adopted_at_once(w: World, job_id: JobId) -> None:
    """No report of rank 0 comes any more, by which a settled job is looked at else."""
    job = w.get(job_id)
    (lost,) = (worker for worker in job.members if worker.rank == 0)
    w.cluster.hang(lost.id)
    agreed = Agreed(job.generation, 1, (lost.id,))
    for worker in job.members:
        if worker.id != lost.id:
            report = WorkerReport(
                worker.id, job_id, w.clock.now(), generation=job.generation, ready=True, agreed=agreed
            )
            w.reports.put(report)
    w.tick()
    assert len(adoptions(w, job_id)) == 1
    w.settle()
    assert w.expect(job_id, JobState.RUNNING, workers=3).retries_used == 0
