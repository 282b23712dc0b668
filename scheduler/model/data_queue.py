"""Which shards of a job's data set are to do, who holds which, and what becomes of them. No I/O; time is passed in.

    fresh ──► held ──► done
               │ ▲
               │ └── returned   came back for no fault of theirs: given out first
               │ └── tried      came back after a failure: last in their epoch, one alone to a reader that holds nothing
               └───► set aside  failed too often

An epoch begins when all of the one before has been given out and nothing tried waits: what others still hold of that
keeps nobody idle. Fresh shards are those from the cursor on, and done is what is nowhere else: so a queue is as small
as what is held, however many shards it has.

A shard fails where its reader says so, or where it was all that was held by a worker that failed or a reader that fell
silent. Where more was held, nobody knows which one was at fault: all of it is tried alone, so that it shows.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduler.errors import Conflict
from scheduler.model.data import DataProgress, DataSet
from scheduler.model.ranges import NOTHING, Ranges

#: Shards that one reader may hold.
HELD_MAX = 10_000
#: Readers that one worker may have had.
READERS_MAX = 1_000
#: More spans than these are not kept waiting for the end of their epoch.
TRIED_SPANS_MAX = 1_000
DETAIL_MAX = 500


class ReaderKey(NamedTuple):
    """Who holds shards: a worker, by its ordinal in the job, may read with several processes."""

    ordinal: int
    name: str


@dataclass(frozen=True, slots=True)
class Reader:
    """What a reader holds, and what its newest call has led to, should it be repeated."""

    held: Ranges = NOTHING
    #: What it holds came back after a failure: it gets nothing beside.
    alone: bool = False
    #: Unless it is heard of by then, it loses what it holds; unix seconds.
    deadline: float = 0.0
    sequence: int = 0
    #: Reported as done by that call, but not held any more.
    refused: Ranges = NOTHING


@dataclass(frozen=True, slots=True)
class ShardCall:
    """All that a reader says at once. Calls are numbered; the same number again is a repeat and changes nothing."""

    reader: ReaderKey
    sequence: int
    done: Ranges = NOTHING
    failed: Ranges = NOTHING
    #: Given back untouched.
    returned: Ranges = NOTHING
    #: How many it wants to hold.
    want: int = 0
    #: Why it failed, in a line.
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ShardAnswer:
    """What a call has led to."""

    given: Ranges
    held: Ranges
    #: Reported as done but not held any more: another reader does it, or has done it.
    refused: Ranges
    #: Nothing is left to do or to wait for.
    end: bool


@dataclass(slots=True)
class News:
    """What happened that others have to know."""

    #: What was set aside, and why.
    set_aside: list[tuple[Ranges, str]] = field(default_factory=list)
    #: The last shard was done or set aside.
    ended: bool = False


@dataclass(slots=True)
class DataQueue:
    """The queue of one job. Not safe between threads; `news`, `changed` and `removed` are for whoever stores it."""

    data: DataSet
    #: Positions from here on were never given out.
    cursor: int = 0
    done: int = 0
    set_aside: int = 0
    returned: Ranges = NOTHING
    tried: Ranges = NOTHING
    #: Positions that are not over, by number of failures: those that failed once come first.
    failures: tuple[Ranges, ...] = ()
    readers: dict[ReaderKey, Reader] = field(default_factory=dict)
    news: News = field(default_factory=News)
    changed: set[ReaderKey] = field(default_factory=set)
    removed: set[ReaderKey] = field(default_factory=set)
    #: No deadline is earlier.
    soonest: float = 0.0

    @property
    def ended(self) -> bool:
        return self.done + self.set_aside == self.data.total

    def forget_changes(self) -> None:
        """They are stored."""
        self.news = News()
        self.changed.clear()
        self.removed.clear()

    def progress(self) -> DataProgress:
        total, over = self.data.total, self.done + self.set_aside
        held = self.cursor - over - self.returned.count - self.tried.count
        return DataProgress(
            total, self.done, held, self.set_aside, min(max(self.cursor - 1, 0), total - 1) // self.data.shards
        )

    def call(self, call: ShardCall, now: float, *, may_take: bool) -> ShardAnswer:
        """Take a reader's reports and give it what it wants; it keeps what it holds for another `lease_seconds`.

        Raises `Conflict` for a call that is older than the reader's newest one, and for one reader too many.
        """
        reader = self._reader_of(call)
        deadline = now + self.data.lease_seconds
        if call.sequence == reader.sequence:
            self._put(call.reader, replace(reader, deadline=deadline))
            return ShardAnswer(reader.held, reader.held, reader.refused, self.ended)
        held = self._settle(call, reader)
        alone = reader.alone and bool(held)
        given = NOTHING
        if may_take and not alone:
            given, alone = self._take(min(call.want, HELD_MAX) - held.count, free=not held)
            held = held.plus(given)
        refused = call.done.minus(reader.held)
        self._put(call.reader, Reader(held, alone, deadline, call.sequence, refused))
        return ShardAnswer(given, held, refused, self.ended)

    def expire(self, now: float, heard_since: float) -> None:
        """Take from readers that are silent for too long. Before `heard_since` nobody could be heard."""
        if now < max(self.soonest, heard_since + self.data.lease_seconds):
            return
        for key, reader in self.readers.items():
            if reader.held and reader.deadline <= now:
                detail = f"nothing was heard of its reader for {self.data.lease_seconds:g} s"
                self._lose(reader, failed=reader.held.count == 1, blamed=True, detail=detail)
                self._put(key, replace(reader, held=NOTHING, alone=False))
        self.soonest = min((reader.deadline for reader in self.readers.values() if reader.held), default=math.inf)

    def end_worker(self, ordinal: int, *, blamed: bool, detail: str) -> None:
        """The worker is gone; `blamed`: by a failure, for which what it held may be the reason."""
        keys = [key for key in self.readers if key.ordinal == ordinal]
        failed = blamed and sum(self.readers[key].held.count for key in keys) == 1
        for key in keys:
            self._lose(self.readers.pop(key), failed=failed, blamed=blamed, detail=detail)
            self.changed.discard(key)
            self.removed.add(key)

    def _reader_of(self, call: ShardCall) -> Reader:
        reader = self.readers.get(call.reader)
        if reader is None:
            if sum(key.ordinal == call.reader.ordinal for key in self.readers) >= READERS_MAX:
                raise Conflict(f"the worker has had {READERS_MAX} readers: let each of its processes keep one")
            return Reader()
        if call.sequence < reader.sequence:
            raise Conflict(f"call {call.sequence} comes after call {reader.sequence} of the same reader")
        return reader

    def _put(self, key: ReaderKey, reader: Reader) -> None:
        self.readers[key] = reader
        self.changed.add(key)
        self.soonest = min(self.soonest, reader.deadline)

    def _settle(self, call: ShardCall, reader: Reader) -> Ranges:
        """Take its reports; what it still holds."""
        done = call.done.both(reader.held)
        failed = call.failed.both(reader.held).minus(done)
        returned = call.returned.both(reader.held).minus(done).minus(failed)
        if done:
            self.done += done.count
            self.failures = tuple(level.minus(done) for level in self.failures)
        self._fail(failed, call.detail)
        self._lose(replace(reader, held=returned), failed=False, blamed=False, detail="")
        self.news.ended = self.news.ended or (self.ended and bool(done))
        return reader.held.minus(done).minus(failed).minus(returned)

    def _take(self, room: int, *, free: bool) -> tuple[Ranges, bool]:
        """At most so many positions, and whether they were tried before: `free` is a reader that holds nothing."""
        given = self.returned.first(room)
        self.returned = self.returned.minus(given)
        room -= given.count
        while room > 0 and self.cursor < self.data.total and not self._held_up():
            end = min(self.cursor + room, (self.cursor // self.data.shards + 1) * self.data.shards)
            given = given.plus(Ranges(((self.cursor, end),)))
            room -= end - self.cursor
            self.cursor = end
        if given or room <= 0 or not free:
            return given, False
        given = self.tried.first(1)
        self.tried = self.tried.minus(given)
        return given, bool(given)

    def _held_up(self) -> bool:
        """Whether what was tried has to be done before anything fresh."""
        return bool(self.tried) and (self.cursor % self.data.shards == 0 or len(self.tried.spans) > TRIED_SPANS_MAX)

    def _lose(self, reader: Reader, *, failed: bool, blamed: bool, detail: str) -> None:
        if failed:
            self._fail(reader.held, detail)
        elif blamed or reader.alone:
            self.tried = self.tried.plus(reader.held)
        else:
            self.returned = self.returned.plus(reader.held)

    def _fail(self, positions: Ranges, detail: str) -> None:
        """Count a failure of each; those that failed too often are set aside, the others are tried again."""
        if not positions:
            return
        levels = [*self.failures, *[NOTHING] * (self.data.max_attempts - 1 - len(self.failures))]
        left, fallen = positions, NOTHING
        for number in reversed(range(len(levels))):
            hit = levels[number].both(left)
            levels[number] = levels[number].minus(hit)
            left = left.minus(hit)
            if number + 1 < len(levels):
                levels[number + 1] = levels[number + 1].plus(hit)
            else:
                fallen = hit
        if levels:
            levels[0] = levels[0].plus(left)
        else:
            fallen = left
        self.failures = tuple(levels)
        self.tried = self.tried.plus(positions.minus(fallen))
        if fallen:
            self.set_aside += fallen.count
            self.news.set_aside.append((fallen, detail[:DETAIL_MAX]))
            self.news.ended = self.news.ended or self.ended


def broken_rules(queue: DataQueue) -> Iterable[str]:
    """What does not hold of a queue although it always must."""
    parts = [queue.returned, queue.tried, *(reader.held for reader in queue.readers.values())]
    together = Ranges.of(span for part in parts for span in part.spans)
    if together.count != sum(part.count for part in parts):
        yield "a shard is in two places"
    if together and together.spans[-1][1] > queue.cursor:
        yield "a shard came back that was never given out"
    if queue.done + queue.set_aside + together.count != queue.cursor:
        yield "a shard is nowhere, or counted twice"
    if any(level.minus(together) for level in queue.failures):
        yield "failures are kept of a shard that is over"
    if queue.cursor > queue.data.total:
        yield "more was given out than there is"
