"""Shards that make workers fail: a few are set aside and cost their job no retry, a script that always fails ends."""

from collections.abc import Container

import pytest

from scheduler.model.data import DataSet
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId, worker_id
from scheduler.model.job_state import JobState
from scheduler.model.ranges import Ranges
from scheduler.model.worker import WorkerState
from tests.engine.test_data import Reader, job_with_data
from tests.world import World


class Script:
    """What a job's workers run: each holds up to three shards, and fails on the bad ones."""

    def __init__(self, world: World, job_id: JobId, data: DataSet, bad: Container[int], *, reports: bool) -> None:
        """`reports`: as an exception that leaves the loop does; else as a process that is killed."""
        self._world, self._job_id, self._data, self._bad, self._reports = world, job_id, data, bad, reports
        self.readers: dict[int, Reader] = {}
        self.failures = 0

    def run(self) -> None:
        """Until the job has ended."""
        for _ in range(1000):
            job = self._world.get(self._job_id)
            if job.state.terminal:
                return
            for worker in job.workers:
                if worker.state is WorkerState.READY and worker.wanted:
                    self._step(worker.ordinal)
            self._world.advance(2)
        raise AssertionError("the job does not end")

    def _step(self, ordinal: int) -> None:
        reader = self.readers.setdefault(ordinal, Reader(self._world, self._job_id, ordinal))
        answer = reader.call(want=3).answer
        worker = worker_id(self._job_id, ordinal)
        if answer.end:
            self._world.cluster.crash(worker, exit_code=0)
        elif answer.held:
            first = answer.held.first(1)
            if self._data.shard_at(next(iter(first)))[1] not in self._bad:
                reader.call(done=first)
                return
            self.failures += 1
            if self._reports:
                reader.call(failed=first, returned=answer.held.minus(first), detail="bad")
            self._world.cluster.crash(worker, exit_code=9)


@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("workers", [1, (1, 2)])
@pytest.mark.parametrize(
    ("data", "bad"),
    [
        (DataSet(8, epochs=2), {3}),
        (DataSet(8, max_attempts=1), {0, 6}),
        (DataSet(24, max_attempts=4), {3, 4, 11, 15, 20, 21}),
    ],
)
def test_a_few_bad_shards_are_set_aside_and_end_no_job(
    w: World, data: DataSet, bad: set[int], workers: int | tuple[int, int], *, reports: bool
) -> None:
    job_id = job_with_data(w, workers, data)
    Script(w, job_id, data, bad, reports=reports).run()
    job = w.expect(job_id, JobState.SUCCEEDED)
    aside = len(bad) * data.epochs
    assert job.detail == f"ended with {aside} of {data.total} shards set aside"
    assert {data.shard_at(each.position)[1] for each in w.store.list_set_aside(job_id)} == bad


@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("workers", [1, (1, 2)])
@pytest.mark.parametrize("good", [0, 500])
def test_a_script_that_fails_on_whatever_it_gets_ends_after_its_retries(
    w: World, workers: int | tuple[int, int], good: int, *, reports: bool
) -> None:
    data = DataSet(1000)
    job_id = job_with_data(w, workers, data)
    script = Script(w, job_id, data, range(1000), reports=reports)
    reader = script.readers[1] = Reader(w, job_id, 1)
    reader.call(want=good)
    reader.call(done=Ranges.of([(0, good)]))
    script.run()
    job = w.expect(job_id, JobState.FAILED)
    assert job.retries_used == job.spec.max_retries + 1
    assert script.failures <= 10


def test_who_fails_without_shards_uses_up_retries_as_ever(w: World) -> None:
    data = DataSet(100)
    job_id = job_with_data(w, (1, 2), data)
    good = Reader(w, job_id, 1)
    good.call(want=1)
    for ordinal in (2, 3, 4):
        good.call(done=good.call().answer.held, want=1)
        w.cluster.crash(worker_id(job_id, ordinal), exit_code=1)
        w.advance(30)
    assert w.get(job_id).retries_used == 3


def test_a_failure_that_costs_no_retry_says_so(w: World) -> None:
    data = DataSet(10)
    job_id = job_with_data(w, (1, 2), data)
    reader = Reader(w, job_id, 1)
    reader.call(want=3)
    reader.call(done=Ranges.of([(0, 1)]))
    w.cluster.crash(worker_id(job_id, 1), exit_code=9)
    w.advance(1)
    job = w.get(job_id)
    assert job.retries_used == 0
    assert job.detail == (
        f"worker {job_id}-1 on a: FAILED, exit code 9; "
        "no retry used: its shards may be the cause, and others have been completed"
    )
    assert len(w.events(EventKind.WORKER_REPLACED)) == 1
