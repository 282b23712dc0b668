"""Queues of shards on both databases: durable, shared by replicas, given back in the commit that ends a worker."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.engine.ports import Lease
from scheduler.errors import Conflict, InvalidInput, NotFound, UserError
from scheduler.model.data import Charge, DataProgress, DataSet
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId, worker_id
from scheduler.model.job import Job
from scheduler.model.ranges import Ranges
from scheduler.model.shard_calls import ReaderKey, ShardCall
from scheduler.model.worker import Desired, ExitReason, LeaveReason, Worker, WorkerState
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.records import ShardsAsked, ShardsGiven
from scheduler.store.sql.request_tables import data_queues
from tests.store import garbage
from tests.store.conftest import OpenStore
from tests.store.desk import NOW, SPEC, admitted, finished, lead, started, stored

DATA = DataSet(shards=10, lease_seconds=60, max_attempts=2)


def running(store: SqlStore, data: DataSet = DATA, workers: int = 2) -> tuple[Job, Lease]:
    """A job with data whose workers 1, 2, ... live, and the lease of who leads."""
    lease = lead(store)
    [job] = admitted(store, lease, replace(SPEC, data=data))
    job = started(job, workers)
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)
    return stored(job)[0], lease


def ask(job_id: JobId, ordinal: int, sequence: int, **fields: object) -> ShardsAsked:
    call = ShardCall(ReaderKey(ordinal, "r"), sequence, **fields)  # type: ignore[arg-type]
    return ShardsAsked(job_id, worker_id(job_id, ordinal), call)


def exchange(store: SqlStore, *asked: ShardsAsked, now: float = NOW) -> list[list[int]]:
    """What each call was given."""
    return [list(outcome.answer.given) for outcome in outcomes(store, asked, now)]


def outcomes(store: SqlStore, asked: Sequence[ShardsAsked], now: float = NOW) -> list[ShardsGiven]:
    found = store.exchange_shards(asked, now, 0.0).outcomes
    assert all(isinstance(outcome, ShardsGiven) for outcome in found), found
    return [outcome for outcome in found if isinstance(outcome, ShardsGiven)]


def refusal(store: SqlStore, asked: ShardsAsked) -> UserError:
    [outcome] = store.exchange_shards([asked], NOW, 0.0).outcomes
    assert isinstance(outcome, UserError)
    return outcome


def spans(*numbers: int) -> Ranges:
    return Ranges.of((number, number + 1) for number in numbers)


def ended(worker: Worker, reason: ExitReason) -> Worker:
    return replace(worker, state=WorkerState.EXITED, ended_at=NOW, exit_reason=reason)


def end(store: SqlStore, lease: Lease, job: Job, worker: Worker, reason: ExitReason) -> Job:
    left = replace(job, workers=tuple(each for each in job.workers if each.id != worker.id))
    store.commit(Changes(jobs=(left,), workers=(ended(worker, reason),)), lease, NOW)
    return stored(left)[0]


def test_calls_of_one_group_are_made_in_their_order(store: SqlStore) -> None:
    job, _ = running(store)
    assert exchange(store, ask(job.id, 1, 1, want=3), ask(job.id, 2, 1, want=2), ask(job.id, 1, 2, want=4)) == [
        [0, 1, 2],
        [3, 4],
        [5],
    ]


def test_a_group_ends_where_it_took_too_long_and_the_rest_is_still_to_make(store: SqlStore) -> None:
    job, _ = running(store)
    asked = [ask(job.id, 1, 1, want=2), ask(job.id, 2, 1, want=2), ask(job.id, 1, 2, want=4)]
    first = store.exchange_shards(asked, NOW, 0.0, iter([True, False]).__next__).outcomes
    assert [isinstance(outcome, ShardsGiven) for outcome in first] == [True, True, False]
    assert first[2] is None
    assert exchange(store, asked[2]) == [[4, 5]]
    assert store.exchange_shards([asked[1]], NOW, 0.0, lambda: False).outcomes[0] is not None, "one call is always made"


def test_a_store_that_is_opened_later_goes_on_where_the_first_one_was(
    store: SqlStore, database_url: str, open_store: OpenStore
) -> None:
    job, _ = running(store)
    exchange(store, ask(job.id, 1, 1, want=3))
    exchange(store, ask(job.id, 1, 2, done=spans(0), failed=spans(1), detail="bad"))
    other = open_store(database_url)
    assert exchange(other, ask(job.id, 2, 1, want=4)) == [[3, 4, 5, 6]]
    progress = store.read_queues([job.id])[job.id].progress()
    assert progress == DataProgress(total=10, done=1, held=5, set_aside=0, epoch=0)
    assert exchange(store, ask(job.id, 1, 2, want=3)) == [[2]], "a repeat tells what is held"
    assert exchange(store, ask(job.id, 1, 3, done=spans(2), want=9)) == [[7, 8, 9]]


def test_replicas_take_turns_without_reading_more_than_the_mark(
    store: SqlStore, database_url: str, open_store: OpenStore
) -> None:
    job, _ = running(store, DataSet(shards=40))
    other = open_store(database_url)
    given = []
    for number in range(1, 11):
        given += exchange(store, ask(job.id, 1, number, want=2 * number))[0]
        given += exchange(other, ask(job.id, 2, number, want=2 * number))[0]
    assert given == list(range(40))


def test_what_a_worker_held_goes_back_with_its_end(store: SqlStore) -> None:
    job, lease = running(store)
    exchange(store, ask(job.id, 1, 1, want=2), ask(job.id, 2, 1, want=1))
    job = end(store, lease, job, job.workers[0], ExitReason.LOST)
    assert isinstance(refusal(store, ask(job.id, 1, 2, done=spans(0))), Conflict)
    assert exchange(store, ask(job.id, 2, 2, want=4)) == [[0, 1, 3]]


def test_a_failed_worker_is_a_failure_of_the_only_shard_that_it_held(store: SqlStore) -> None:
    job, lease = running(store, DataSet(shards=2, max_attempts=1))
    exchange(store, ask(job.id, 1, 1, want=1), ask(job.id, 2, 1, want=1))
    job = end(store, lease, job, job.workers[0], ExitReason.FAILED)
    [answer] = outcomes(store, [ask(job.id, 2, 2, done=spans(1), want=1)])
    assert answer.answer.end
    [aside] = store.list_set_aside(job.id)
    assert (aside.position, aside.at, aside.detail) == (0, NOW, f"worker {job.id}-1 ended: FAILED")
    told = [event for _, event in store.list_events(job_id=job.id)][-2:]
    assert [(event.kind, event.detail, event.amount) for event in told] == [
        (EventKind.SHARDS_SET_ASIDE, f"shard 0 of epoch 0: worker {job.id}-1 ended: FAILED", 1.0),
        (EventKind.DATA_ENDED, "done 1, set aside 1", None),
    ]


def test_what_was_forgiven_is_known_to_whoever_opens_the_store_later(
    store: SqlStore, database_url: str, open_store: OpenStore
) -> None:
    job, lease = running(store)
    exchange(
        store, ask(job.id, 1, 1, want=3), ask(job.id, 1, 2, done=spans(0), failed=spans(1)), ask(job.id, 2, 1, want=2)
    )
    job = end(store, lease, job, job.workers[1], ExitReason.FAILED)
    [queue] = open_store(database_url).read_queues([job.id]).values()
    assert (queue.forgiven_at, queue.charge(1)) == (1, Charge.RETRY)
    assert [list(reader.failed) for reader in queue.readers.values()] == [[1]]


def test_who_was_asked_to_leave_is_told_so_and_gets_nothing(store: SqlStore) -> None:
    job, lease = running(store)
    exchange(store, ask(job.id, 1, 1, want=1))
    leaver = replace(job.workers[0], desired=Desired.STOP, leave_reason=LeaveReason.PREEMPTED)
    left = replace(job, workers=(leaver, job.workers[1]))
    store.commit(Changes(jobs=(left,), workers=(leaver,)), lease, NOW)
    [given] = outcomes(store, [ask(job.id, 1, 2, done=spans(0), want=5)])
    assert (given.leave, list(given.answer.given)) == (True, [])
    assert store.read_queues([job.id])[job.id].progress() == DataProgress(10, 1, 0, 0, 0)


def test_who_is_no_reader_of_the_job_is_refused_and_the_others_of_the_group_are_not(store: SqlStore) -> None:
    job, lease = running(store)
    [plain] = admitted(store, lease)
    found = store.exchange_shards(
        [ask(JobId(99), 1, 1), ask(plain.id, 1, 1), ask(job.id, 9, 1), ask(job.id, 1, 1, want=1)], NOW, 0.0
    ).outcomes
    assert [type(outcome) for outcome in found] == [NotFound, NotFound, Conflict, ShardsGiven]
    assert [str(outcome) for outcome in found[:3]] == [
        "job 99 not found",
        f"job {plain.id} has not declared data",
        f"worker {job.id}-9 is fenced: it does not belong to job {job.id} (any more)",
    ]
    assert store.read_queues([job.id, plain.id]).keys() == {job.id}


def test_a_silent_reader_loses_what_it_holds(store: SqlStore) -> None:
    job, _ = running(store, DataSet(shards=1, lease_seconds=60))
    exchange(store, ask(job.id, 1, 1, want=1))
    assert exchange(store, ask(job.id, 2, 1, want=1), now=NOW + 59) == [[]]
    assert exchange(store, ask(job.id, 2, 2, want=1), now=NOW + 60) == [[0]]
    [late] = outcomes(store, [ask(job.id, 1, 2, done=spans(0))], now=NOW + 61)
    assert list(late.answer.refused) == [0]
    [event] = expired(store, job.id)
    assert (event.at, event.worker_id, event.amount) == (NOW + 60, f"{job.id}-1", 1.0)
    said = f"no report for 60 s (lease 60 s); shards held: {job.id}-1 1; dealt again: 1"
    assert event.detail == said


def expired(store: SqlStore, job_id: JobId) -> list[Event]:
    events = [event for _, event in store.list_events(job_id=job_id, limit=1000)]
    return [event for event in events if event.kind is EventKind.SHARD_LEASE_EXPIRED]


def test_leases_of_many_readers_that_end_together_are_one_event_of_bounded_length(store: SqlStore) -> None:
    job, _ = running(store, DataSet(shards=1000, lease_seconds=60), workers=40)
    exchange(store, *(ask(job.id, ordinal, 1, want=ordinal) for ordinal in range(1, 40)))
    exchange(store, ask(job.id, 40, 1, want=1), now=NOW + 75)
    [event] = expired(store, job.id)
    assert (event.worker_id, event.amount) == (None, sum(range(1, 40)))
    assert event.detail.startswith(f"no report for 75 s (lease 60 s); shards held: {job.id}-39 39, {job.id}-38 38, ")
    assert event.detail.endswith(" and 29 more workers; dealt again: 780")
    assert len(event.detail) < 300


def test_a_shard_that_is_set_aside_as_its_lease_ends_is_not_said_to_be_dealt_again(store: SqlStore) -> None:
    job, _ = running(store, DataSet(shards=2, lease_seconds=60, max_attempts=1))
    exchange(store, ask(job.id, 1, 1, want=1))
    exchange(store, ask(job.id, 2, 1), now=NOW + 60)
    [event] = expired(store, job.id)
    assert event.detail.endswith("dealt again: 0; set aside: 1")


def test_a_reader_whose_worker_ends_lets_no_lease_expire(store: SqlStore) -> None:
    job, lease = running(store)
    exchange(store, ask(job.id, 1, 1, want=2))
    job = end(store, lease, job, job.workers[0], ExitReason.LOST)
    exchange(store, ask(job.id, 2, 1), now=NOW + 100)
    assert not expired(store, job.id)


def test_a_transaction_that_fails_leaves_no_trace_in_memory(store: SqlStore) -> None:
    job, _ = running(store)
    exchange(store, ask(job.id, 1, 1, want=2))
    unstorable = ShardsAsked(job.id, worker_id(job.id, 2), ShardCall(ReaderKey(2, "\ud800"), 1, want=1))
    with pytest.raises(InvalidInput):
        store.exchange_shards([ask(job.id, 1, 2, want=4), unstorable], NOW, 0.0)
    assert exchange(store, ask(job.id, 1, 2, want=4)) == [[2, 3]]


def test_shares_are_told_of_active_jobs_only(store: SqlStore) -> None:
    job, lease = running(store)
    admitted(store, lease, replace(SPEC, data=DATA))
    exchange(store, ask(job.id, 1, 1, want=4))
    exchange(store, ask(job.id, 1, 2, done=spans(0, 1, 3)))
    assert store.data_shares_done() == {job.id: 0.3}


def test_a_job_that_was_accepted_with_more_shards_than_may_be_by_now_goes_on(store: SqlStore) -> None:
    job, _ = running(store, DataSet(shards=10**9, epochs=10**6))
    assert exchange(store, ask(job.id, 1, 1, want=2)) == [[0, 1]]
    assert store.read_queues([job.id])[job.id].progress().total == 10**15
    assert not store.unreadable


def test_a_total_that_is_not_that_of_the_jobs_data_is_told(
    database_url: str, store: SqlStore, open_store: OpenStore
) -> None:
    job, _ = running(store)
    with garbage.connected(database_url) as session:
        assert garbage.corrupt(session, data_queues, data_queues.columns["total"], 10**15)
    other = open_store(database_url)
    assert not other.read_queues([job.id])
    [row] = other.unreadable
    assert (row.table, row.reason) == ("data_queues", f"total: must be 10, as the job's data says, not {10**15}")


def test_the_queue_goes_with_its_job(store: SqlStore) -> None:
    job, lease = running(store)
    exchange(store, ask(job.id, 1, 1, want=1))
    done = tuple(ended(worker, ExitReason.DONE) for worker in job.workers)
    over, _ = finished(job)
    store.commit(Changes(jobs=(over,), workers=done), lease, NOW)
    assert store.purge(NOW + 100, 0.0).jobs == 1
    assert not store.read_queues([job.id])
