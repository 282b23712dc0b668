"""What the engine makes of a job's data: workers that end give back, and the end comes nearer as shards are done."""

import pytest

from scheduler.model.data import DataSet
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.ranges import Ranges
from scheduler.model.shard_calls import ReaderKey, ShardCall
from scheduler.policy.estimate.work_left import EndBasis, work_left
from scheduler.store.records import ShardsAsked, ShardsGiven
from tests.world import World

HUNDRED = DataSet(100)


class Reader:
    """One worker's reader, which numbers its calls."""

    def __init__(self, world: World, job_id: JobId, ordinal: int) -> None:
        self._world, self._job_id, self._ordinal, self._sequence = world, job_id, ordinal, 0

    def call(self, **fields: object) -> ShardsGiven:
        self._sequence += 1
        call = ShardCall(ReaderKey(self._ordinal, "r"), self._sequence, **fields)  # type: ignore[arg-type]
        asked = ShardsAsked(self._job_id, WorkerId(f"{self._job_id}-{self._ordinal}"), call)
        now = self._world.clock.now()
        [outcome] = self._world.store.exchange_shards([asked], now, self._world.engine.heard_since).outcomes
        assert isinstance(outcome, ShardsGiven), outcome
        return outcome


def job_with_data(world: World, workers: int | tuple[int, int] = 2, data: DataSet = HUNDRED, **spec: object) -> JobId:
    world.node("a", slots=4)
    job_id = world.job("j", workers=workers, runtime=Runtime.COMMAND, data=data, **spec)
    world.settle()
    return job_id


def test_the_share_that_is_done_is_the_jobs_fraction(w: World) -> None:
    job_id = job_with_data(w)
    reader = Reader(w, job_id, 1)
    reader.call(want=50)
    reader.call(done=Ranges(((0, 20),)))
    w.advance(10)
    job = w.get(job_id)
    assert job.progress.fraction == pytest.approx(0.2)
    left = work_left(job, w.clock.now())
    assert left is not None
    assert left[1] is EndBasis.REPORTED
    had = job.progress.slot_seconds
    assert job.progress.whole_slot_seconds == pytest.approx(had / 0.2), "what all of it takes is known"
    version = job.version
    w.advance(30)
    assert w.get(job_id).version == version, "nothing new is nothing to write"


def test_a_killed_worker_gives_back_and_its_successor_goes_on(w: World) -> None:
    job_id = job_with_data(w, workers=(1, 2))
    first, second = Reader(w, job_id, 1), Reader(w, job_id, 2)
    first.call(want=10)
    second.call(want=10)
    first.call(done=Ranges(((0, 4),)))
    w.cluster.crash(WorkerId(f"{job_id}-1"), exit_code=137)
    w.advance(5)
    progress = w.store.read_queues([job_id])[job_id].progress()
    assert (progress.done, progress.held) == (4, 10)
    third = Reader(w, job_id, 3)
    given = [list(third.call(want=1).answer.given)]
    assert given == [[20]], "what its predecessor held comes last, one by one: it may be why that one died"


def test_a_preempted_job_keeps_what_is_done_and_blames_no_shard(w: World) -> None:
    job_id = job_with_data(w, workers=2)
    reader = Reader(w, job_id, 1)
    reader.call(want=10)
    reader.call(done=Ranges(((0, 5),)))
    urgent = w.job("urgent", priority=9, workers=4)
    w.settle()
    w.expect(urgent, JobState.RUNNING, workers=4)
    w.expect(job_id, JobState.QUEUED)
    progress = w.store.read_queues([job_id])[job_id].progress()
    assert (progress.done, progress.held, progress.set_aside) == (5, 0, 0)
    w.ask_cancel(urgent)
    w.settle()
    assert list(Reader(w, job_id, 3).call(want=6).answer.given) == [5, 6, 7, 8, 9, 10]


def test_the_end_of_the_data_is_told(w: World) -> None:
    job_id = job_with_data(w)
    reader = Reader(w, job_id, 1)
    reader.call(want=100)
    assert reader.call(done=Ranges(((0, 100),))).answer.end
    told = [event for _, event in w.store.list_events(job_id=job_id) if event.kind is EventKind.DATA_ENDED]
    assert [event.detail for event in told] == ["done 100, set aside 0"]


def test_who_calls_about_its_shards_does_not_hang(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j", runtime=Runtime.COMMAND, data=HUNDRED, heartbeat_seconds=10.0)
    w.advance(1)
    reader = Reader(w, job_id, 1)
    for _ in range(10):
        reader.call(want=1)
        w.advance(9)
    assert not w.events(EventKind.WORKER_ENDED)
    w.cluster.hang(WorkerId(f"{job_id}-1"))
    w.advance(5)
    assert [(e.cause, e.detail) for e in w.events(EventKind.WORKER_ENDED)][:1] == [
        ("HUNG", "it sent no report for 10 s")
    ]


@pytest.mark.parametrize(
    ("done", "failed", "told"),
    [
        (0, 0, "ended with 100 of 100 shards not done"),
        (99, 0, "ended with 1 of 100 shards not done"),
        (90, 4, "ended with 10 of 100 shards not done, 4 of them set aside"),
        (96, 4, "ended with 4 of 100 shards set aside"),
        (100, 0, ""),
    ],
)
def test_a_job_that_ends_well_says_what_it_left_undone(w: World, done: int, failed: int, told: str) -> None:
    job_id = job_with_data(w, workers=1, data=DataSet(100, max_attempts=1))
    reader = Reader(w, job_id, 1)
    reader.call(want=100)
    reader.call(done=Ranges.of([(0, done)]), failed=Ranges.of([(done, done + failed)]))
    w.cluster.crash(WorkerId(f"{job_id}-1"), exit_code=0)
    w.settle()
    assert w.expect(job_id, JobState.SUCCEEDED).detail == told
    assert [event.detail for event in w.events(EventKind.JOB_SUCCEEDED)] == [told]
