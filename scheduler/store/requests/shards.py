"""Queues of shards in the database: each is changed by whoever holds its row's lock until the commit.

Any replica may change one. What a process has read or written itself it need not read again as long as the row still
has the mark that it knows: a job with thousands of readers then costs one row to read and a few to write.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select

from scheduler.engine.absorb.exits import FAILURES
from scheduler.errors import Conflict, NotFound, UserError
from scheduler.model.data import DataSet, ShardSetAside
from scheduler.model.data_queue import DataQueue
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId, WorkerId, worker_id
from scheduler.model.ranges import Ranges
from scheduler.model.unreadable import Unreadable
from scheduler.model.worker import Desired, Worker
from scheduler.store.codec.reading import SetAside, unreadable
from scheduler.store.codec.rows import event_values
from scheduler.store.codec.shard_rows import (
    READER_COLUMNS,
    data_queue_from_row,
    queue_values,
    reader_from_row,
    reader_values,
    set_aside_from_row,
    set_aside_values,
)
from scheduler.store.records import Exchanged, ShardsAsked, ShardsGiven
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.engine_tables import jobs, workers
from scheduler.store.sql.request_tables import data_queues, shard_readers, shards_set_aside
from scheduler.store.sql.sequences import take_ids

#: Shards, or workers, that an event names; it counts them all.
NAMED_MAX = 10
#: Queues that are remembered, so that a store that outlives many jobs does not grow.
QUEUES_KEPT = 1000

_QUEUE = select(data_queues, jobs.c.data).join(jobs, jobs.c.id == data_queues.c.job_id)
_THIS = _QUEUE.where(data_queues.c.job_id == bindparam("job"))
_LOCKED = _THIS.with_for_update(of=data_queues)
_READERS = select(*READER_COLUMNS).where(shard_readers.c.job_id == bindparam("job"))
_LIVE = (
    select(workers.c.ordinal, workers.c.desired, jobs.c.nonce)
    .join(jobs, jobs.c.id == workers.c.job_id)
    .where(
        workers.c.job_id == bindparam("job"),
        workers.c.live.is_not(None),
        workers.c.ordinal.in_(bindparam("ordinals", expanding=True)),
    )
)
_DESIRED = {desired.value: desired for desired in Desired}
_OVER = (data_queues.c.done + data_queues.c.set_aside).label("over")
_SHARES = (
    select(data_queues.c.job_id, _OVER, data_queues.c.total)
    .join(jobs, jobs.c.id == data_queues.c.job_id)
    .where(jobs.c.active)
)


class DataQueues:
    """The queues of one database, as one process changes them."""

    def __init__(self, statements: Statements, name: str) -> None:
        """`name` is this process's alone: no other one writes its marks."""
        self._statements = statements
        self._marks = (f"{name}-{number}" for number in itertools.count(1))
        self._known: dict[JobId, tuple[str, DataQueue]] = {}

    def exchange(
        self,
        connection: Connection,
        asked: Sequence[ShardsAsked],
        now: float,
        heard_since: float,
        goes_on: Callable[[], bool],
    ) -> Exchanged:
        """Make the calls of readers, those of a job in their order: the first one, and others while it goes on.

        Silence counts from `heard_since` on only: before, nobody here listened.
        """
        by_job: dict[JobId, list[tuple[int, ShardsAsked]]] = {}
        for number, each in enumerate(asked):
            by_job.setdefault(each.job_id, []).append((number, each))
        outcomes: dict[int, ShardsGiven | UserError] = {}
        events: list[Event] = []
        for job_id, calls in sorted(by_job.items()):
            if outcomes and not goes_on():
                break
            with self._changed(connection, job_id, now, events) as queue:
                if not isinstance(queue, DataQueue):
                    outcomes.update((number, queue) for number, _ in calls)
                    continue
                live = _live_workers(connection, job_id, [each.call.reader.ordinal for _, each in calls])
                queue.expire(now, heard_since)
                for number, each in calls:
                    if outcomes and not goes_on():
                        break
                    outcomes[number] = _call(queue, each, live, now)
        self._write_events(connection, events)
        told = frozenset(event.job_id for event in events if event.job_id is not None)
        return Exchanged([outcomes.get(number) for number in range(len(asked))], told)

    def end_workers(self, connection: Connection, ended: Iterable[Worker], now: float) -> list[Event]:
        """What these workers held goes back, in the transaction that stores their end; the events that are to be."""
        by_job: dict[JobId, list[Worker]] = {}
        for worker in ended:
            by_job.setdefault(worker.job_id, []).append(worker)
        events: list[Event] = []
        for job_id, gone in sorted(by_job.items()):
            with self._changed(connection, job_id, now, events) as queue:
                if not isinstance(queue, DataQueue):
                    continue
                for worker in gone:
                    detail = f"worker {worker.id} ended: {worker.exit_reason}"
                    queue.end_worker(worker.ordinal, blamed=worker.exit_reason in FAILURES, detail=detail)
        return events

    @contextmanager
    def _changed(
        self, connection: Connection, job_id: JobId, now: float, events: list[Event]
    ) -> Iterator[DataQueue | UserError]:
        """The queue under its lock, written at the end of the block; an error where there is none that can be read.

        What there is to tell is added to `events`, which are written last: their ids are what all writers wait for, so
        nobody may wait for a queue while holding them.
        """
        row = connection.execute(_LOCKED, {"job": job_id}).one_or_none()
        if row is None:
            yield _no_queue(connection, job_id)
            return
        # Taken out until it is written: a transaction that fails leaves nothing behind.
        mark, queue = self._known.pop(job_id, ("", None))
        if queue is None or mark != row.mark or not mark:
            aside = SetAside()
            queue = _whole([row], connection.execute(_READERS, {"job": job_id}), aside).get(job_id)
            if queue is None:
                yield unreadable(aside.rows[0])
                return
        yield queue
        events += _events(job_id, queue, now)
        self._write(connection, job_id, queue, now)

    def _write(self, connection: Connection, job_id: JobId, queue: DataQueue, now: float) -> None:
        mark = next(self._marks)
        write = self._statements
        write.update_data_queues.run(connection, [{**queue_values(job_id, queue, mark), "of_job": job_id}])
        write.upsert_shard_readers.run(
            connection, [reader_values(job_id, key, queue.readers[key]) for key in sorted(queue.changed)]
        )
        write.delete_shard_readers.run(
            connection, [{"of_job": job_id, "of_worker": k.ordinal, "of_name": k.name} for k in sorted(queue.removed)]
        )
        for positions, detail in queue.news.set_aside:
            write.insert_shards_set_aside.run(connection, set_aside_values(job_id, positions, now, detail))
        queue.forget_changes()
        if len(self._known) >= QUEUES_KEPT:
            self._known.clear()
        self._known[job_id] = (mark, queue)

    def _write_events(self, connection: Connection, events: Sequence[Event]) -> None:
        if events:
            first = take_ids(connection, events=len(events)).event
            rows = [event_values(first + n, event) for n, event in enumerate(events)]
            self._statements.insert_events.run(connection, rows)


def read(connection: Connection, job_ids: Sequence[JobId], aside: SetAside) -> Mapping[JobId, DataQueue]:
    """Copies of these queues, to be read only."""
    found = connection.execute(_QUEUE.where(data_queues.c.job_id.in_(job_ids)))
    readers = connection.execute(
        select(*READER_COLUMNS).where(shard_readers.c.job_id.in_(job_ids)).order_by(shard_readers.c.job_id)
    )
    return _whole(found, readers, aside)


def _whole(queues: Iterable[Row[Any]], readers: Iterable[Row[Any]], aside: SetAside) -> dict[JobId, DataQueue]:
    """Queues with their readers. One of which a reader cannot be read cannot be either."""
    found = dict(aside.read(data_queues, queues, lambda row: (JobId(row.job_id), data_queue_from_row(row))))
    for job_id, (key, reader) in aside.read(
        shard_readers, readers, lambda row: (JobId(row.job_id), reader_from_row(row))
    ):
        if job_id in found:
            found[job_id].add(key, reader)
    for row in aside.rows:
        if row.table == shard_readers.name and row.job_id is not None:
            found.pop(row.job_id, None)
    return found


def shares_done(connection: Connection) -> Mapping[JobId, float]:
    """The share of its data that each active job is done with, where that can be read."""
    shares = {}
    for job_id, over, total in connection.execute(_SHARES):
        if type(job_id) is int and type(over) is int and type(total) is int and 0 <= over <= total and total > 0:
            shares[JobId(job_id)] = over / total
    return shares


def list_set_aside(connection: Connection, job_id: JobId, limit: int, aside: SetAside) -> list[ShardSetAside]:
    """Shards that failed too often, in the order of the epochs."""
    query = select(shards_set_aside).where(shards_set_aside.c.job_id == job_id)
    rows = connection.execute(query.order_by(shards_set_aside.c.position).limit(limit))
    return list(aside.read(shards_set_aside, rows, set_aside_from_row))


def _live_workers(
    connection: Connection, job_id: JobId, ordinals: Sequence[int]
) -> dict[int, tuple[Desired | UserError, str]]:
    """What is desired of those that live, and the nonce of their job.

    Under the queue's lock: an end that is stored later sees what they got.
    """
    rows = connection.execute(_LIVE, {"job": job_id, "ordinals": sorted(set(ordinals))})
    return {row.ordinal: (_DESIRED.get(row.desired) or _unknown(job_id, row.ordinal), row.nonce or "") for row in rows}


def _unknown(job_id: JobId, ordinal: int) -> UserError:
    return unreadable(Unreadable(workers.name, f"{job_id}/{ordinal}", "desired: must be RUN or STOP", job_id))


def _call(
    queue: DataQueue, asked: ShardsAsked, live: Mapping[int, tuple[Desired | UserError, str]], now: float
) -> ShardsGiven | UserError:
    desired, nonce = live.get(asked.call.reader.ordinal, (None, ""))
    if isinstance(desired, UserError):
        return desired
    if desired is None or asked.nonce not in (nonce, None):
        return Conflict(f"worker {asked.worker_id} is fenced: it does not belong to job {asked.job_id} (any more)")
    stays = desired is Desired.RUN
    try:
        answer = queue.call(asked.call, now, may_take=stays)
    except UserError as refusal:
        return refusal
    return ShardsGiven(queue.data, answer, leave=not stays)


def _no_queue(connection: Connection, job_id: JobId) -> UserError:
    known = connection.execute(select(func.count()).where(jobs.c.id == job_id)).scalar_one()
    return NotFound(f"job {job_id} has not declared data" if known else f"job {job_id} not found")


def _events(job_id: JobId, queue: DataQueue, now: float) -> Iterator[Event]:
    if queue.news.lapses:
        yield _lapsed(job_id, queue, now)
    for positions, detail in queue.news.set_aside:
        named = _named(queue.data, positions)
        yield Event(now, EventKind.SHARDS_SET_ASIDE, job_id, detail=f"{named}: {detail}", amount=float(positions.count))
    if queue.news.ended:
        yield Event(now, EventKind.DATA_ENDED, job_id, detail=f"done {queue.done:,}, set aside {queue.set_aside:,}")


def _lapsed(job_id: JobId, queue: DataQueue, now: float) -> Event:
    """One event of all readers that have lost their shards in this transaction."""
    lapses = queue.news.lapses
    lost = Ranges.of(span for lapse in lapses for span in lapse.lost.spans)
    aside = Ranges.of(span for positions, _ in queue.news.set_aside for span in positions.spans).both(lost)
    held: Counter[WorkerId] = Counter()
    for lapse in lapses:
        held[worker_id(job_id, lapse.ordinal)] += lapse.lost.count
    named = ", ".join(f"{worker} {count:,}" for worker, count in held.most_common(NAMED_MAX))
    others = f" and {len(held) - NAMED_MAX} more workers" if len(held) > NAMED_MAX else ""
    silent_seconds = max(lapse.silent_seconds for lapse in lapses)
    return Event(
        now,
        EventKind.SHARD_LEASE_EXPIRED,
        job_id,
        worker_id=next(iter(held)) if len(held) == 1 else None,
        detail=f"no report for {silent_seconds:.0f} s (lease {queue.data.lease_seconds:g} s); shards held: "
        f"{named}{others}; dealt again: {lost.count - aside.count:,}"
        + (f"; set aside: {aside.count:,}" if aside else ""),
        amount=float(lost.count),
    )


def _named(data: DataSet, positions: Ranges) -> str:
    """Shards for people: `epoch 0: shards 3, 7`."""
    named = [data.shard_at(position) for position in positions.first(NAMED_MAX)]
    texts = [f"shard {shard} of epoch {epoch}" for epoch, shard in named]
    more = f" and {positions.count - len(named)} more" if positions.count > len(named) else ""
    return ", ".join(texts) + more
