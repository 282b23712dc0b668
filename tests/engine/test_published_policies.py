"""Jobs under policies of published schedulers: they start, shrink, stop and go on through the real engine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import Settings
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, WaitReason
from tests.world import World

LINEAR = ((1, 1.0), (4, 4.0))
Under = Callable[..., World]


@pytest.fixture
def under(tmp_path: Path) -> Iterator[Under]:
    """A world under the named policy, with these settings of it."""
    worlds: list[World] = []

    def make(name: str, **policy: object) -> World:
        settings = Settings.model_validate({"state_dir": tmp_path, "policy": {"name": name, **policy}})
        worlds.append(World(tmp_path, settings=settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def working(seconds: float) -> Behaviour:
    return Behaviour(runtime=Runtime.ELASTIC, work_seconds=seconds, tells_fraction=True)


def causes(w: World, kind: EventKind, job: JobId) -> list[tuple[str, JobId | None]]:
    return [(event.cause, event.for_job) for event in w.events(kind) if event.job_id == job]


def test_tiresias_stops_who_has_had_much_for_an_equal_and_lets_it_go_on(under: Under) -> None:
    w = under("tiresias", tiresias_slot_seconds=100.0)
    w.node("a", slots=2)
    first = w.job("first", workers=2, behaviour=working(400.0))
    w.advance(10)
    second = w.job("second", workers=2, behaviour=working(60.0))
    w.advance(30)
    w.expect(first, JobState.RUNNING, workers=2)
    w.expect(second, JobState.QUEUED)
    w.advance(30)  # two slots for 50 seconds are 100 slot-seconds
    w.expect(second, JobState.RUNNING, workers=2)
    stopped = w.expect(first, JobState.QUEUED)
    assert (stopped.retries_used, stopped.wait_reason) == (0, WaitReason.INSUFFICIENT_SLOTS)
    assert causes(w, EventKind.JOB_STOPPING, first) == [("REBALANCED", second)]
    w.advance(600)
    assert w.expect(first, JobState.SUCCEEDED).attempt == 2
    w.expect(second, JobState.SUCCEEDED)


def test_tiresias_lets_nobody_stop_for_a_job_that_fell_as_far(under: Under) -> None:
    w = under("tiresias", tiresias_slot_seconds=10.0)
    w.node("a", slots=2)
    jobs = [w.job(name, workers=2) for name in ("first", "second")]
    w.advance(300)
    assert [w.get(job).state for job in jobs] == [JobState.RUNNING, JobState.QUEUED]
    assert [w.get(job).attempt for job in jobs] == [2, 1], "each was stopped for the other at most once"


def test_shortest_stops_a_longer_job_of_the_same_priority_but_none_of_a_higher_one(under: Under) -> None:
    w = under("shortest")
    w.node("a", slots=2)
    long = w.job("long", workers=2, expected_seconds=1000.0, behaviour=working(2000.0))
    w.advance(10)
    short = w.job("short", workers=2, expected_seconds=100.0, behaviour=working(200.0))
    w.advance(10)
    w.expect(short, JobState.RUNNING, workers=2)
    high = w.job("high", priority=1, workers=2, expected_seconds=5000.0, behaviour=working(200.0))
    w.advance(10)
    w.expect(high, JobState.RUNNING, workers=2)
    assert causes(w, EventKind.JOB_STOPPING, short) == [("PREEMPTED", high)]
    w.advance(2000)
    ended = [event.job_id for event in w.events(EventKind.JOB_SUCCEEDED)]
    assert ended == [high, short, long]


def test_what_a_job_told_of_itself_before_it_was_stopped_still_counts_while_it_waits(under: Under) -> None:
    w = under("shortest")
    w.node("a", slots=1)
    long = w.job("long", runtime=Runtime.ELASTIC, behaviour=working(4000.0))
    w.advance(400)
    short = w.job("short", expected_seconds=1000.0, behaviour=working(1000.0))
    w.advance(600)
    w.expect(short, JobState.RUNNING)
    assert w.expect(long, JobState.QUEUED).attempt == 1, "it still needs 3,600 seconds, though it has had only 400"
    w.advance(5000)
    ended = [event.job_id for event in w.events(EventKind.JOB_SUCCEEDED)]
    assert ended == [short, long]


@pytest.mark.parametrize(("tells", "within_seconds"), [(False, 130.0), (True, 70.0)])
def test_shortest_stops_a_job_that_turns_out_to_need_longer_than_it_declared(
    under: Under, tells: bool, within_seconds: float
) -> None:
    """Once it has run for longer; or at once, where it tells the share that it has done."""
    w = under("shortest")
    w.node("a", slots=1)
    behaviour = Behaviour(runtime=Runtime.ELASTIC, work_seconds=10_000.0, tells_fraction=tells)
    long = w.job("long", expected_seconds=100.0, behaviour=behaviour)
    w.advance(20)
    short = w.job("short", expected_seconds=90.0)
    w.advance(10)
    w.expect(long, JobState.RUNNING)
    w.advance(within_seconds)
    w.expect(short, JobState.RUNNING)
    assert causes(w, EventKind.JOB_STOPPING, long) == [("REBALANCED", short)]


def test_afs_moves_workers_to_the_shorter_job_and_back_when_it_has_ended(under: Under) -> None:
    w = under("afs", rebalance_seconds=5.0)
    w.node("a", slots=4)
    facts = {"workers": (1, 4), "preferred_workers": 1, "speedup": LINEAR}
    long = w.job("long", expected_seconds=4000.0, behaviour=working(4000.0), **facts)
    w.advance(20)
    w.expect(long, JobState.RUNNING, workers=4)
    short = w.job("short", expected_seconds=300.0, behaviour=working(300.0), **facts)
    w.advance(30)
    w.expect(short, JobState.RUNNING, workers=3)
    w.expect(long, JobState.RUNNING, workers=1)
    shrunk = [event for event in w.events(EventKind.JOB_SHRANK) if event.job_id == long]
    assert {(event.cause, event.for_job) for event in shrunk} == {("REBALANCED", short)}
    w.advance(120)
    w.expect(short, JobState.SUCCEEDED)
    assert w.expect(long, JobState.RUNNING, workers=4).attempt == 1, "it was never stopped"


@pytest.mark.parametrize("name", ["elastic-fifo", "edl"])
def test_elastic_policies_let_everybody_in_at_the_minimum_and_share_the_rest(under: Under, name: str) -> None:
    w = under(name, rebalance_seconds=5.0)
    w.node("a", slots=4)
    w.node("b", slots=2)
    jobs = []
    for k in range(3):
        jobs.append(w.job(f"job-{k}", workers=(1, 6)))
        w.advance(20)
    w.settle()
    assert [len(w.get(job).wanted_workers) for job in jobs] == [2, 2, 2]
    w.ask_cancel(jobs[1])
    w.settle()
    assert [len(w.get(job).wanted_workers) for job in jobs] == [3, 0, 3]


@pytest.mark.parametrize("name", ["fifo", "easy", "conservative"])
def test_fixed_sizes_jobs_neither_grow_nor_shrink_for_equals(under: Under, name: str) -> None:
    w = under(name)
    w.node("a", slots=4)
    first = w.job("first", workers=(1, 4), preferred_workers=3, behaviour=working(90.0))
    second = w.job("second", workers=(1, 4), preferred_workers=2)
    w.advance(10)
    w.expect(first, JobState.RUNNING, workers=3)
    w.expect(second, JobState.QUEUED)
    w.settle()
    w.expect(second, JobState.RUNNING, workers=2)
    assert not w.events(EventKind.JOB_GREW, EventKind.JOB_SHRANK)


def test_a_job_whose_preferred_size_no_cluster_holds_starts_as_large_as_there_is_room(under: Under) -> None:
    w = under("fifo")
    w.node("a", slots=4)
    wide = w.job("wide", workers=(1, 64))
    w.settle()
    w.expect(wide, JobState.RUNNING, workers=4)
