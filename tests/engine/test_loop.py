"""The loop on a real thread and the machine's clock."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from scheduler.clock import SystemClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.config import EngineSettings, Settings
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.board import Board
from scheduler.engine.loop import BURST_PAUSE_SECONDS, ERROR_PAUSE_SECONDS, EngineLoop, pause_after
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Engine, TickReport
from scheduler.engine.timing.steady_clock import SteadyClock
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.observation import NodeObservation
from scheduler.store.sqlstore import SqlStore

WAIT_SECONDS = 120.0


class SetBack(SystemClock):
    """The machine's clock, which somebody sets back."""

    def __init__(self) -> None:
        self.behind_seconds = 0.0

    def now(self) -> float:
        return super().now() - self.behind_seconds


@contextmanager
def _running(
    tmp_path: Path,
    interval_seconds: float,
    machine: SystemClock | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator[tuple[EngineLoop, SqlStore, queue.Queue[TickReport]]]:
    """`meanwhile` happens between two ticks."""
    settings = Settings(state_dir=tmp_path, engine=EngineSettings(tick_interval_seconds=interval_seconds))
    store, board, box = SqlStore(f"sqlite:///{tmp_path / 'loop.db'}"), Board(), ReportBox()
    clock = SteadyClock(machine or SystemClock())
    store.upgrade()
    cluster = SimulatedCluster(clock, board, box)
    cluster.add_node(NodeObservation(NodeName("a"), "host-a", 2))
    launch = LaunchContext("http://127.0.0.1:1", lambda job: str(job.id), tmp_path)
    reports: queue.Queue[TickReport] = queue.Queue()
    engine = Engine(store, cluster, clock, settings, launch, board, box, "loop")

    def on_report(report: TickReport) -> None:
        meanwhile()
        reports.put(report)

    loop = EngineLoop(engine, settings.engine, clock, on_report)
    cluster.on_change(loop.wake)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield loop, store, reports
    finally:
        loop.stop()
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
        store.close()


def _wait_for(reports: queue.Queue[TickReport], kind: str) -> None:
    while True:
        report = reports.get(timeout=WAIT_SECONDS)
        if any(event.kind == kind for event in report.events):
            return


def test_a_wake_up_starts_a_tick_long_before_it_is_due(tmp_path: Path) -> None:
    with _running(tmp_path, interval_seconds=600.0) as (loop, store, reports):
        _wait_for(reports, "NODE_UP")
        store.submit([JobSpec("j", ("true",))], 1.0)
        loop.wake()
        _wait_for(reports, "JOB_STARTED")


def test_a_stopped_loop_gives_its_lease_back(tmp_path: Path) -> None:
    with _running(tmp_path, interval_seconds=600.0) as (_, store, reports):
        _wait_for(reports, "NODE_UP")
        assert store.acquire_lease("other", SystemClock().now(), 10.0) is None
    lease = store.acquire_lease("other", SystemClock().now(), 10.0)
    assert lease is not None
    store.close()


def test_an_engine_beside_the_leader_follows_and_leads_once_it_may(tmp_path: Path) -> None:
    other = SqlStore(f"sqlite:///{tmp_path / 'loop.db'}")
    other.upgrade()
    lease = other.acquire_lease("other", SystemClock().now(), 600.0)
    assert lease is not None
    with _running(tmp_path, interval_seconds=600.0) as (loop, _, reports):
        assert reports.get(timeout=WAIT_SECONDS).following
        other.release_lease(lease)
        loop.wake()
        _wait_for(reports, "NODE_UP")
    other.close()


def test_time_that_is_set_back_does_not_put_off_the_next_tick(tmp_path: Path) -> None:
    clock = SetBack()

    def set_back() -> None:
        clock.behind_seconds += 3600.0

    with _running(tmp_path, 0.1, clock, set_back) as (_, _, reports):
        for _ in range(3):
            reports.get(timeout=WAIT_SECONDS)


def _job(number: int, state: JobState) -> Job:
    return replace(Job(JobId(number), JobSpec("j", ("true",)), 0, 1, 1, 0.0, 0.0), state=state)


def test_ticks_that_only_queue_jobs_come_less_often_until_one_changes_anything_else() -> None:
    queued = TickReport(at=0.0, changed=(_job(1, JobState.QUEUED),))
    mixed = TickReport(at=0.0, changed=(_job(1, JobState.QUEUED), _job(2, JobState.STARTING)))
    pauses = [0.01]
    for _ in range(5):
        pauses.append(pause_after(queued, pauses[-1], 0.01))
    assert pauses == [0.01, 0.02, 0.04, 0.08, BURST_PAUSE_SECONDS, BURST_PAUSE_SECONDS]
    assert pause_after(mixed, BURST_PAUSE_SECONDS, 0.01) == 0.01
    assert pause_after(TickReport(at=0.0), BURST_PAUSE_SECONDS, 0.01) == 0.01


def test_a_pause_is_never_shorter_than_the_gap_and_errors_have_their_own() -> None:
    queued = TickReport(at=0.0, changed=(_job(1, JobState.QUEUED),))
    assert pause_after(queued, 0.0, 0.5) == 0.5
    assert pause_after(TickReport(at=0.0, error="away"), 0.01, 0.01) == ERROR_PAUSE_SECONDS
