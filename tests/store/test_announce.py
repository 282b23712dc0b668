"""LISTEN and NOTIFY between replicas on PostgreSQL: heard at once, also after the connection was lost."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from structlog.testing import capture_logs

from scheduler.model.intent import IntentKind
from scheduler.model.job import JobSpec
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from tests.eventually import SECONDS_MAX
from tests.postgres import PostgresServer
from tests.store.conftest import OpenStore
from tests.store.desk import NOW, SPEC, lead

QUIET_SECONDS = 0.3

pytestmark = pytest.mark.postgres


class Ear:
    """What one replica has heard, in order."""

    def __init__(self) -> None:
        self.heard: queue.Queue[str] = queue.Queue()

    def next(self) -> str:
        return self.heard.get(timeout=SECONDS_MAX)

    def hears_nothing(self) -> bool:
        try:
            self.heard.get(timeout=QUIET_SECONDS)
        except queue.Empty:
            return True
        return False


@contextmanager
def _listening(store: SqlStore) -> Iterator[Ear]:
    ear = Ear()
    listener = store.listen(lambda: ear.heard.put("asked"), lambda: ear.heard.put("led"))
    assert listener is not None
    assert {ear.next(), ear.next()} == {"asked", "led"}, "what was missed before may be anything"
    try:
        yield ear
    finally:
        listener.close()


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    url = postgres_server.new_database()
    yield url
    postgres_server.drop_database(url)


def test_requests_and_commits_of_others_are_heard(url: str, open_store: OpenStore) -> None:
    mine, other = open_store(url), open_store(url)
    with _listening(mine) as ear:
        [job] = other.submit([SPEC], NOW)
        assert ear.next() == "asked"
        other.add_intent(IntentKind.CANCEL, NOW, job_id=job.id)
        assert ear.next() == "asked"
        lease = lead(other)
        assert ear.next() == "led"
        other.renew_lease(lease, NOW, 1.0)
        assert ear.next() == "led"
        other.commit(Changes(), lease, NOW)
        assert ear.next() == "led"
        other.release_lease(lease)
        assert ear.next() == "led"


def test_what_this_process_does_or_what_is_refused_is_not_heard(url: str, open_store: OpenStore) -> None:
    mine, other = open_store(url), open_store(url)
    with _listening(mine) as ear:
        mine.submit([SPEC], NOW)
        mine.commit(Changes(), lead(mine), NOW)
        assert other.acquire_lease("other", NOW, 1.0) is None
        with psycopg.connect(url) as session:
            session.execute("SELECT pg_notify('sched', 'a word of a later version')")
        assert ear.hears_nothing()


def test_a_lost_connection_is_made_again(url: str, open_store: OpenStore) -> None:
    mine, other = open_store(url), open_store(url)
    with _listening(mine) as ear, capture_logs() as logs:
        with psycopg.connect(url, autocommit=True) as session:
            session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert {ear.next(), ear.next()} == {"asked", "led"}
        other.submit([JobSpec("j", ("true",))], NOW)
        assert ear.next() == "asked"
    assert [line["event"] for line in logs] == ["listening to other replicas again"]
