"""Whatever value the model can hold comes back from the database field by field."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.ports import Lease
from scheduler.model.booking import Booking, BookingState
from scheduler.model.event import Event
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobSpec, Progress
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.queue import Queue
from scheduler.model.speed import SizeSpeed
from scheduler.model.worker import WorkerState
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.codec.progress_text import progress_from_text
from tests import postgres
from tests.store.conftest import BOTH
from tests.store.strategies import KNOWN_NODES, KNOWN_QUEUE, bookings, developments, events, nodes, specs, times


@pytest.fixture(scope="module", params=BOTH)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SqlStore, Lease]]:
    """One store for all examples, as examples do not disturb each other."""
    path: Path = tmp_path_factory.mktemp("roundtrip") / "sched.db"
    url = f"sqlite:///{path}"
    if request.param == "postgres":
        server: postgres.PostgresServer = request.getfixturevalue("postgres_server")
        url = server.new_database(empty=True)
    store = SqlStore(url, durable=False)
    store.upgrade()
    lease = store.acquire_lease("engine", 0.0, 1e12)
    assert lease is not None
    store.set_queue(KNOWN_QUEUE, lambda _: Queue(KNOWN_QUEUE, 0.0), 0.0)
    done = (store.take_inbox(1).intents[0].id,)
    store.commit(Changes(nodes=tuple(Node(name, name, 1) for name in KNOWN_NODES), intents_done=done), lease, 0.0)
    yield store, lease
    store.close()


def of_fresh_load(store: SqlStore, job_id: JobId) -> list[Job]:
    return [job for job in store.load_world().jobs if job.id == job_id]


@settings(max_examples=60)
@given(data=st.data())
def test_jobs_with_their_workers_come_back_equal(shared: tuple[SqlStore, Lease], data: st.DataObject) -> None:
    store, lease = shared
    spec, submitted_at = data.draw(specs), data.draw(times)
    job_id = JobId(store.load_world().highest_job_id + 1)
    fresh = Job(job_id, spec, spec.priority, spec.min_workers, spec.max_workers, submitted_at, submitted_at)
    job, gone = data.draw(developments(fresh))
    # Nothing is drawn from here on: an example that ends early would leave rows behind.
    assert store.submit([spec], submitted_at)[0].id == job_id
    inbox = store.take_inbox(10)
    (admitted,) = inbox.jobs
    assert admitted == replace(fresh, nonce=admitted.nonce)
    assert re.fullmatch("[0-9a-f]{10}", admitted.nonce)
    job = replace(job, nonce=admitted.nonce)
    done = tuple(intent.id for intent in inbox.intents)
    store.commit(Changes(jobs=(job,), workers=(*job.all_workers, *gone), intents_done=done), lease, 0.0)
    expected = replace(job, version=1)
    assert store.get_job(job_id) == expected
    assert of_fresh_load(store, job_id) == ([] if job.state.terminal else [expected])
    assert store.list_workers(job_id) == [*sorted(job.all_workers, key=lambda w: w.ordinal), *gone]
    # Out of the way of the next example's load.
    ended = replace(expected, state=JobState.CANCELLED, held_from=None, finished_at=0.0, published_size=0)
    over = replace(ended, workers=(), fixed_workers=())
    left = tuple(replace(w, state=WorkerState.LOST, ended_at=0.0) for w in job.all_workers)
    store.commit(Changes(jobs=(over,), workers=left), lease, 0.0)


@settings(max_examples=60)
@given(node=nodes, event=events)
def test_nodes_and_events_come_back_equal(shared: tuple[SqlStore, Lease], node: Node, event: Event) -> None:
    store, lease = shared
    before = {stored.name: stored for stored in store.list_nodes()}.get(node.name)
    node = replace(node, version=before.version if before else 0)
    store.commit(Changes(nodes=(node,), events=(event,)), lease, 0.0)
    found = {stored.name: stored for stored in store.load_world().nodes}
    assert found[node.name] == replace(node, version=node.version + 1)
    assert [stored for _, stored in store.list_events(limit=1, descending=True)] == [event]


@settings(max_examples=60)
@given(booking=bookings, state=st.sampled_from([BookingState.PLANNED, BookingState.OPEN]))
def test_bookings_come_back_equal(shared: tuple[SqlStore, Lease], booking: Booking, state: BookingState) -> None:
    store, lease = shared
    intent_id = store.add_booking(booking)
    assert store.get_booking(booking.name) == booking
    promised = replace(booking, state=state)
    store.commit(Changes(bookings=(promised,), intents_done=(intent_id,)), lease, 0.0)
    assert list(store.load_world().bookings) == store.list_bookings() == [promised]
    store.commit(Changes(bookings=(replace(booking, state=BookingState.OVER),)), lease, 0.0)
    assert store.get_booking(booking.name) is None


def test_progress_that_is_not_a_number_counts_as_not_reported(shared: tuple[SqlStore, Lease]) -> None:
    store, lease = shared
    job_id = store.submit([JobSpec("j", ("true",))], 0.0)[0].id
    job = store.get_job(job_id)
    assert job is not None
    diverged = Progress(step=1, metrics=(("loss", float("nan")), ("lr", float("inf"))))
    store.commit(Changes(jobs=(replace(job, progress=diverged),)), lease, 0.0)
    after = store.get_job(job_id)
    assert after is not None
    assert after.progress == Progress(step=1)


def test_progress_of_an_earlier_version_is_read_without_what_it_did_not_have() -> None:
    written = '{"step":1,"last_commit_at":5.0,"throughput":[[2,10.0],[4,15.0]]}'
    speeds = (SizeSpeed(2, 10.0), SizeSpeed(4, 15.0))
    assert progress_from_text(written) == Progress(step=1, last_commit_at=5.0, speeds=speeds)
