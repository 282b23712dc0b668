"""A member that does not come to its group, although it reports, is killed and replaced once another says so."""

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId, WorkerId, worker_id
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.observation import Missed, WorkerReport
from tests.world import World

#: Says what a test has it say: a heartbeat of the simulator's own would replace that.
QUIET = Behaviour(runtime=Runtime.ELASTIC, heartbeat_seconds=None)


@pytest.fixture
def job_id(w: World) -> JobId:
    """A job of three that is settled: nothing but what is told changes it."""
    w.node("a", slots=3)
    job_id = w.job("j", workers=(1, 3), behaviour=QUIET)
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=3)
    return job_id


def tell(w: World, teller: WorkerId, *missed: int, generation: int | None = None) -> None:
    """A worker reports members that it has waited for too long; the engine takes the report at once."""
    job_id = JobId(int(teller.partition("-")[0]))
    of = w.get(job_id).generation if generation is None else generation
    told = Missed(of, tuple(worker_id(job_id, ordinal) for ordinal in missed), 60.0)
    report = WorkerReport(teller, job_id, w.clock.now(), generation=w.get(job_id).generation, ready=True, missed=told)
    assert w.reports.put(report), "it is urgent"
    w.settle()


def test_it_is_a_failure_and_the_others_are_the_next_generation(w: World, job_id: JobId) -> None:
    before = w.get(job_id)
    w.cluster.hang(worker_id(job_id, 2))
    tell(w, worker_id(job_id, 1), 2)
    job = w.expect(job_id, JobState.RUNNING, workers=3)
    assert {worker.id for worker in job.members} == {worker_id(job_id, ordinal) for ordinal in (1, 3, 4)}
    assert job.generation > before.generation
    assert job.retries_used == 1
    (end,) = w.events(EventKind.WORKER_ENDED)
    assert (end.worker_id, end.cause) == (worker_id(job_id, 2), "HUNG")
    assert end.detail == (
        f"it hangs: worker {job_id}-1 waited 60 s for it to rejoin the group of generation {before.generation}; "
        "if a step may take longer, set group_timeout_seconds of elastic.run()"
    )


def test_of_two_that_miss_each_other_one_is_killed(w: World, job_id: JobId) -> None:
    w.cluster.hang(worker_id(job_id, 1))
    tell(w, worker_id(job_id, 3), 1)
    tell(w, worker_id(job_id, 1), 3)
    assert [end.worker_id for end in w.events(EventKind.WORKER_ENDED)] == [worker_id(job_id, 1)]
    assert w.expect(job_id, JobState.RUNNING, workers=3).retries_used == 1


@pytest.mark.parametrize("generation", [1, 99])
def test_who_waits_for_another_generation_than_the_published_one_is_not_heard(
    w: World, job_id: JobId, generation: int
) -> None:
    w.cluster.crash(worker_id(job_id, 3))
    w.settle()
    ends = len(w.events(EventKind.WORKER_ENDED))
    tell(w, worker_id(job_id, 1), 2, generation=generation)
    assert len(w.events(EventKind.WORKER_ENDED)) == ends
    assert worker_id(job_id, 2) in {worker.id for worker in w.get(job_id).members}


def test_nobody_misses_itself_or_who_is_no_member(w: World, job_id: JobId) -> None:
    tell(w, worker_id(job_id, 1), 1, 7)
    assert w.events(EventKind.WORKER_ENDED) == []
