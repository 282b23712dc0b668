"""Rows that could not be read for a while: all hear of it when they are mended, and nothing is removed meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.engine.board import Board, Known
from scheduler.engine.leadership.follower import Follower
from scheduler.engine.leadership.repairs import LOOK_SECONDS
from scheduler.engine.tick import Step
from scheduler.errors import StoreUnavailable
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.queue import Queue
from scheduler.store.sqlstore import SqlStore
from tests.engine.test_standby import Replica
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


def spoilt(site: Site, tmp_path: Path, job_id: JobId) -> str:
    """Make the job's row unreadable, let the daemon load all anew, and give what was there."""
    ((labels,),) = written(tmp_path, "SELECT labels FROM jobs WHERE id = ?", job_id)
    written(tmp_path, "UPDATE jobs SET labels = '[[' WHERE id = ?", job_id)
    site.engine.forget()
    assert tick(site).error is None
    return str(labels)


def mended(tmp_path: Path, job_id: JobId, labels: str) -> None:
    written(tmp_path, "UPDATE jobs SET labels = ? WHERE id = ?", labels, job_id)


def test_a_load_that_fails_after_a_row_was_mended_is_made_again(site: Site, tmp_path: Path) -> None:
    job_id = site.job("j", workers=1)
    site.advance(10)
    labels = spoilt(site, tmp_path, job_id)
    mended(tmp_path, job_id, labels)
    load = site.store.load_world

    def fails_once() -> Any:
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

    def counted() -> Any:
        nonlocal loads
        loads += 1
        return load()

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
    labels = spoilt(site, tmp_path, job_id)
    board, revision, now = Board(), site.store.read_lease().revision, site.clock.now()
    follower = Follower(replica.store, board)
    follower.follow(revision, now)
    assert board.known(job_id) is Known.UNREADABLE
    mended(tmp_path, job_id, labels)
    assert [job.id for job in follower.follow(revision, now + LOOK_SECONDS)] == [job_id]
    assert board.posting(job_id) is not None


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
    labels = spoilt(site, tmp_path, first)
    site.ask_cancel(on_slot_0)
    for _ in range(10):
        tick(site)
    second = site.job("second", **needs)
    for _ in range(10):
        tick(site)
    mended(tmp_path, first, labels)
    for _ in range(LOOKS):
        tick(site)
        assert [start.job_id for _, start in site.cluster.alive()] == [second]
    assert site.engine.world is not None
    assert list(site.engine.world.queued) == [first]


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
