"""A restored backup gives ids again: what is left of the former jobs is not taken for the new ones'."""

import shutil
from pathlib import Path

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.ports import StartWorker
from scheduler.model.ids import JobId, WorkerId, worker_id
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.stray import Stray
from scheduler.model.worker import WorkerState
from scheduler.store.sqlstore import SqlStore
from tests.invariants.checker import InvariantChecker
from tests.world import World


class Restored(World):
    """A world whose database goes back to an earlier state while its cluster goes on."""

    def back_up(self) -> None:
        self.store.close()
        shutil.copy(self.directory / "world.db", self.directory / "backup.db")
        self._open()

    def restore(self) -> None:
        self.store.close()
        for path in self.directory.glob("world.db*"):
            path.unlink()
        shutil.copy(self.directory / "backup.db", self.directory / "world.db")
        self.submitted.clear()
        self.cluster.started.clear()
        self._open()

    def _open(self) -> None:
        self.board.clear()
        self.store = SqlStore(f"sqlite:///{self.directory / 'world.db'}", durable=False)
        self.engine = self._new_engine("engine-1")
        self.checker = InvariantChecker(self)

    def strays(self) -> list[Stray]:
        assert self.board.world is not None
        return list(self.board.world.strays.values())

    def start_of(self, worker: WorkerId) -> StartWorker:
        """How its process was started."""
        process = self.cluster.process(worker)
        assert process is not None
        return process.start


@pytest.fixture
def restored(tmp_path: Path) -> Restored:
    world = Restored(tmp_path)
    world.node("a", slots=2)
    world.tick()
    return world


def test_a_leftover_worker_is_ended_and_never_taken_for_that_of_the_new_job(restored: Restored) -> None:
    w = restored
    w.back_up()
    former = w.job("former", runtime=Runtime.COMMAND, behaviour=Behaviour(leave_seconds=None))
    w.settle()
    w.expect(former, JobState.RUNNING, workers=1)
    worker = worker_id(former, 1)
    left = w.start_of(worker)
    w.restore()
    new = w.job("new", runtime=Runtime.COMMAND)
    assert new == former, "the restored database gives the id again"
    w.settle()
    job = w.expect(new, JobState.RUNNING, workers=1)
    started = w.start_of(worker)
    assert started.nonce == job.nonce != left.nonce
    for name in ("SCHED_CHECKPOINT_DIR", "SCHED_JOB_NONCE"):
        assert dict(started.env)[name] != dict(left.env)[name], name
    assert w.get(new).retries_used == 0
    w.close()


def test_until_it_is_gone_the_slots_of_a_leftover_worker_are_taken(restored: Restored) -> None:
    w = restored
    w.back_up()
    w.job("former", runtime=Runtime.COMMAND, slots_per_worker=2, behaviour=Behaviour(leave_seconds=None))
    w.settle()
    w.restore()
    w.tick()
    assert [stray.id for stray in w.strays()] == [worker_id(JobId(1), 1)]
    new = w.job("new", runtime=Runtime.COMMAND, slots_per_worker=2)
    w.settle()
    w.expect(new, JobState.RUNNING, workers=1)
    assert not w.strays()
    w.ask_cancel(new)
    w.settle()
    w.expect(new, JobState.CANCELLED)
    assert w.cluster.process(worker_id(new, 1)) is None, "that the leftover was told to stop counts for it alone"
    w.close()


def test_an_ended_leftover_is_not_the_end_of_the_new_worker(restored: Restored) -> None:
    w = restored
    w.back_up()
    behaviour = Behaviour(crash_after_seconds=0.0, crash_code=0)
    former = w.job("former", runtime=Runtime.COMMAND, behaviour=behaviour)
    w.tick()
    w.clock.advance(5.0)  # it ends, and nobody looks
    w.restore()
    w.cluster.behave(former, Behaviour())
    new = w.job("new", runtime=Runtime.COMMAND)
    w.settle()
    job = w.expect(new, JobState.RUNNING, workers=1)
    assert job.workers[0].state is WorkerState.READY
    assert w.start_of(job.workers[0].id).nonce == job.nonce
    w.close()
