"""Rows that could not be read for a while: all hear of it when they are mended, and nothing is removed meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.engine.board import Board, Known
from scheduler.engine.leadership.follower import Follower
from scheduler.engine.leadership.repairs import LOOK_SECONDS
from scheduler.engine.tick import Step
from scheduler.errors import StoreUnavailable
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId, NodeName, worker_id
from scheduler.model.intent import IntentKind
from scheduler.model.job_state import JobState
from scheduler.model.observation import WorkerReport
from scheduler.model.queue import Queue
from scheduler.store.sqlstore import SqlStore
from tests.engine.replica import Replica
from tests.http.site import Site
from tests.store import garbage
from tests.store.test_unreadable import tick

#: Ticks from one look at unreadable rows to the next, and a few more.
LOOKS = 40


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with capture_logs(), site.served():
        site.node("a", slots=2)
        yield site
    site.close()


@pytest.fixture
def replica(site: Site, tmp_path: Path) -> Iterator[Replica]:
    store = SqlStore(f"sqlite:///{tmp_path / 'world.db'}", durable=False)
    yield Replica(site, store=store)
    store.close()


def written(tmp_path: Path, statement: str, *values: Any) -> Any:
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        return session.execute(statement, values).fetchall()


@contextmanager
def unreadable(site: Site, tmp_path: Path, job_id: JobId) -> Iterator[None]:
    """The daemon has loaded all anew, and the job's row cannot be read until somebody mends it at the end."""
    with garbage.unreadable_job(f"sqlite:///{tmp_path / 'world.db'}", job_id):
        site.engine.forget()
        assert tick(site).error is None
        yield


def test_a_load_that_fails_after_a_row_was_mended_is_made_again(site: Site, tmp_path: Path) -> None:
    job_id = site.job("j", workers=1)
    site.advance(10)
    with unreadable(site, tmp_path, job_id):
        pass
    load = site.store.load_world

    def fails_once(_: Callable[[], None]) -> Any:
        site.store.load_world = load  # type: ignore[method-assign]
        raise StoreUnavailable("it is locked")

    site.store.load_world = fails_once  # type: ignore[method-assign]
    for _ in range(LOOKS):
        tick(site)
    assert site.board.posting(job_id) is not None
    assert site.engine.world is not None
    assert job_id in site.engine.world.active


def test_a_standby_follows_commit_by_commit_though_a_row_of_a_queue_cannot_be_read(
    site: Site, replica: Replica, tmp_path: Path
) -> None:
    site.store.set_queue("lab", lambda _: Queue("lab", site.clock.now()), site.clock.now())
    tick(site)
    assert written(tmp_path, "SELECT path FROM queues") == [("lab",)]
    written(tmp_path, "UPDATE queues SET guarantee = '{'")
    site.engine.forget()
    tick(site)
    replica.engine.tick()
    loads = 0
    load = replica.store.load_world

    def counted(went_on: Callable[[], None]) -> Any:
        nonlocal loads
        loads += 1
        return load(went_on)

    replica.store.load_world = counted  # type: ignore[method-assign]
    jobs = []
    for n in range(5):
        jobs.append(site.job(f"j{n}", workers=1, priority=n))
        tick(site)
        assert replica.engine.tick().following
    assert loads == 0
    assert [replica.board.known(job_id) is not Known.UNKNOWN for job_id in jobs] == [True] * 5


def test_a_standby_serves_a_job_again_whose_row_was_mended(site: Site, replica: Replica, tmp_path: Path) -> None:
    """No commit tells of it."""
    job_id = site.job("j", workers=1)
    site.advance(10)
    with unreadable(site, tmp_path, job_id):
        board, revision, now = Board(), site.store.read_lease().revision, site.clock.now()
        follower = Follower(replica.store, board, lambda: None)
        follower.follow(revision, now)
        assert board.known(job_id) is Known.UNREADABLE
    assert [job.id for job in follower.follow(revision, now + LOOK_SECONDS)] == [job_id]
    assert board.posting(job_id) is not None


@pytest.mark.parametrize("ended", ["with the node", "by itself"])
def test_slots_of_a_job_that_cannot_be_read_are_not_held_twice_when_it_is_repaired(
    site: Site, tmp_path: Path, ended: str
) -> None:
    """Its processes end meanwhile, and another job is given their slots."""
    site.node("a", slots=3)
    job = site.submit(workers=2)
    site.advance(10)
    with unreadable(site, tmp_path, job):
        if ended == "with the node":
            site.cluster.lose_node(NodeName("a"))
            site.cluster.return_node(NodeName("a"), rebooted=True)
        else:
            site.cluster.repeat_forgotten = True
            for _, start in site.cluster.alive():
                site.cluster.crash(start.worker_id, 1)
        other = site.submit(workers=2)
        for _ in range(5):
            assert tick(site).error is None
        assert {start.job_id: start.slot_ids for _, start in site.cluster.alive()}[other] in ((0,), (1,))
    for _ in range(LOOKS):
        assert tick(site).error is None
    third = site.submit(priority=5)
    for _ in range(10):
        assert tick(site).error is None
    slots = {start.slot_ids: start.job_id for _, start in site.cluster.alive()}
    assert slots == {(0,): other, (1,): other, (2,): third}
    assert site.client.get(f"/v1/jobs/{job}").json()["state"] == "QUEUED"


class Refusing:
    """Takes reports of workers as HTTP does: not of jobs that nobody knows."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def put(self, report: WorkerReport) -> bool:
        return self._site.board.posting(report.job_id) is not None and self._site.reports.put(report)


def test_workers_of_a_job_that_could_not_be_read_for_long_have_time_to_report_again(site: Site, tmp_path: Path) -> None:
    """Meanwhile their reports are refused, as nobody knows their job."""
    job = site.job("j", workers=2, heartbeat_seconds=60.0)
    site.advance(10)
    with unreadable(site, tmp_path, job):
        site.cluster.follow(site.board, Refusing(site))
        for _ in range(100):
            assert tick(site).error is None
    for _ in range(LOOKS):
        assert tick(site).error is None
    assert site.get(job).retries_used == 0
    assert not site.events(EventKind.WORKER_ENDED)


@pytest.mark.parametrize("needs", [{"cpus": 1.5}, {"memory_mib": 400}], ids=["CPUs", "memory"])
def test_a_worker_that_ended_meanwhile_is_not_replaced_on_a_node_that_shrank(
    site: Site, tmp_path: Path, needs: dict[str, Any]
) -> None:
    site.node("b", slots=4, cpus=4.0, memory_mib=1000)
    job_id = site.job("j", workers=(1, 2), **needs)
    site.advance(10)
    with unreadable(site, tmp_path, job_id):
        site.cluster.repeat_forgotten = True
        site.cluster.crash(worker_id(job_id, 2))
        for _ in range(3):
            assert tick(site).error is None
        site.node("b", slots=4, cpus=2.0, memory_mib=500)
        for _ in range(3):
            assert tick(site).error is None
    for _ in range(LOOKS):
        assert tick(site).error is None
        assert [start.worker_id for _, start in site.cluster.alive()] == [worker_id(job_id, 1)]
    site.expect(job_id, JobState.RUNNING, workers=1)
    assert not site.events(EventKind.WORKER_REPLACED)


@pytest.mark.parametrize("needs", [{"cpus": 3.0}, {"memory_mib": 800}], ids=["CPUs", "memory"])
def test_cpus_and_memory_of_a_job_whose_row_is_mended_are_not_given_twice(
    site: Site, tmp_path: Path, needs: dict[str, Any]
) -> None:
    """It had been placed and not started when its row became unreadable, and another job was given its room."""
    site.node("b", slots=4, cpus=4.0, memory_mib=1000)
    on_slot_0 = site.job("small", memory_mib=1)
    site.advance(10)
    first = site.job("first", **needs)
    for step in site.engine.steps():
        if step is Step.COMMITTED:
            break
    with unreadable(site, tmp_path, first):
        site.ask_cancel(on_slot_0)
        for _ in range(10):
            tick(site)
        second = site.job("second", **needs)
        for _ in range(10):
            tick(site)
    for _ in range(LOOKS):
        tick(site)
        assert [start.job_id for _, start in site.cluster.alive()] == [second]
    assert site.engine.world is not None
    assert list(site.engine.world.queued) == [first]


def test_a_standby_hears_of_a_job_that_was_unreadable_when_it_came(
    site: Site, replica: Replica, tmp_path: Path
) -> None:
    """It takes the lead after the row was mended, and has never read it."""
    assert tick(site).error is None
    assert replica.engine.tick().following
    job_id = site.job("j", workers=1)
    with garbage.unreadable_job(f"sqlite:///{tmp_path / 'world.db'}", job_id):
        assert tick(site).error is None
        assert replica.engine.tick().following
        assert replica.board.known(job_id) is Known.UNREADABLE
    site.engine.release()
    for _ in range(LOOKS):
        site.clock.advance(1.0)
        assert replica.engine.tick().leading
    assert replica.board.posting(job_id) is not None


def test_a_request_that_cannot_be_read_makes_no_job_unreadable(site: Site, tmp_path: Path) -> None:
    job_id = site.job("j", workers=1)
    site.advance(10)
    site.ask(IntentKind.PRIORITY, job_id, priority=1)
    written(tmp_path, "UPDATE intents SET kind = 'NONSENSE'")
    tick(site)
    site.ask_cancel(job_id)
    for _ in range(LOOKS):
        tick(site)
    assert site.board.known(job_id) is Known.ENDED


def test_a_job_whose_row_says_that_it_ended_long_ago_is_not_removed_while_it_runs(site: Site, tmp_path: Path) -> None:
    job_id = site.job("j", workers=1)
    site.advance(10)
    written(tmp_path, "UPDATE jobs SET finished_at = 1.0")
    assert site.store.purge(site.clock.now(), 0.0).jobs == 0
    assert written(tmp_path, "SELECT id FROM jobs") == [(job_id,)]
