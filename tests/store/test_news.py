"""What a replica reads that follows: numbered commits, and what each has changed."""

from dataclasses import replace

import pytest

from scheduler.model.booking import Booking, BookingState
from scheduler.model.ids import NodeName
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from tests.faults.batch import fresh
from tests.faults.draw import draw
from tests.faults.run import play, verdict
from tests.postgres import PostgresServer
from tests.store.desk import NOW, SPEC, finished, lead, started, stored

#: Fresh seeds of the fault simulation with more than one daemon: a few for every run, further ones for slow ones.
REPLICATED = [*range(3), *(pytest.param(number, marks=pytest.mark.slow) for number in range(3, 6))]


def test_commits_are_numbered_in_their_order(store: SqlStore) -> None:
    lease = lead(store)
    assert store.read_lease().revision == store.load_world().revision == 0
    for number in (1, 2, 3):
        store.commit(Changes(), lease, NOW)
        assert store.read_lease().revision == store.load_world().revision == number


def test_news_are_what_later_commits_changed(store: SqlStore) -> None:
    lease = lead(store)
    store.submit([SPEC] * 3, NOW)
    inbox = store.take_inbox(10)
    assert store.load_news(0).jobs == (), "what no tick has taken is no news"
    first, second, third = inbox.jobs
    store.commit(Changes(jobs=(first, second, third), intents_done=tuple(i.id for i in inbox.intents)), lease, NOW)
    first, second, third = stored(first, second, third)
    running = started(second)
    node = Node(NodeName("a"), "10.0.0.1", 4)
    store.commit(Changes(jobs=(running,), workers=running.workers, nodes=(node,)), lease, NOW)
    running = stored(running)[0]
    news = store.load_news(1)
    assert (list(news.jobs), [n.name for n in news.nodes], news.revision) == ([running], ["a"], 2)
    done, workers = finished(running)
    store.commit(Changes(jobs=(done,), workers=workers), lease, NOW)
    assert list(store.load_news(2).jobs) == stored(done), "ends are told too"
    assert list(store.load_news(2).nodes) == []
    assert [job.id for job in store.load_news(0).jobs] == [first.id, second.id, third.id]
    store.submit([SPEC], NOW)
    assert store.load_news(3) == replace(store.load_news(3), jobs=(), nodes=(), highest_job_id=4, revision=3)
    assert store.load_world().admitted_job_id == 3


def test_news_name_all_bookings_that_the_engine_has_decided_on(store: SqlStore) -> None:
    lease = lead(store)
    booking = Booking("b", NOW + 10, NOW + 20, 1, WorkerShape(), NOW)
    store.add_booking(booking)
    assert store.load_news(0).bookings == ()
    planned = replace(booking, state=BookingState.PLANNED)
    store.commit(Changes(bookings=(planned,)), lease, NOW)
    assert store.load_news(0).bookings == store.load_news(1).bookings == (planned,)
    store.commit(Changes(bookings=(replace(planned, state=BookingState.OVER),)), lease, NOW)
    assert store.load_news(0).bookings == ()


@pytest.mark.postgres
@pytest.mark.parametrize("number", REPLICATED)
def test_replicas_on_postgresql_keep_every_invariant_whatever_goes_wrong(
    postgres_server: PostgresServer, number: int
) -> None:
    scenario = next(scenario for scenario in map(draw, fresh(1000)) if scenario.replicas > 1)
    print(f"run {number}: seed {scenario.seed}")
    url = postgres_server.new_database()
    store = SqlStore(url)
    outcome = play(scenario, store)
    store.close()
    postgres_server.drop_database(url)
    assert outcome.broken is None, verdict(outcome)
