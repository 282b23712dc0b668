"""Which shards of a job's data set are to do, who holds which, and what becomes of them. No I/O; time is passed in.

    fresh ──► held ──► done
               │ ▲
               │ └── returned   came back for no fault of theirs: given out first
               │ └── tried      came back after a failure: last in their epoch, one alone to a reader that holds nothing
               └───► set aside  failed too often

An epoch begins when all of the one before has been given out and nothing tried waits: what others still hold of that
keeps nobody idle. Fresh shards are those from the cursor on, and done is what is nowhere else: so a queue is as small
as what is held, however many shards it has. Its size is its number of spans. Where these are too many, what was tried
comes before anything fresh, nobody gets shards beside others, and a call that would add spans is refused.

A shard fails where its reader says so, or where it was all that was held by a worker that failed or a reader that fell
silent. Where more was held, nobody knows which one was at fault: all of it is tried alone, so that it shows.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scheduler.errors import Conflict, InvalidInput
from scheduler.model.attempts import failed_again
from scheduler.model.data import Charge, DataProgress, DataSet, ShardHolder
from scheduler.model.ranges import NOTHING, Ranges
from scheduler.model.shard_calls import Moved, ReaderKey, ShardAnswer, ShardCall

#: Shards that one reader may hold.
HELD_MAX = 10_000
#: Readers that one worker may have had.
READERS_MAX = 1_000
#: Runs of consecutive shards of a queue, and those that each reader adds: with more, nothing may break up more of them.
SPANS_MAX = 2_000
SPANS_OF_READER = 4
DETAIL_MAX = 500


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
    #: What it failed on since it last got or did any: so it said, or it fell silent with it.
    failed: Ranges = NOTHING


@dataclass(frozen=True, slots=True)
class Lapse:
    """A reader was silent for longer than its lease, and lost what it held."""

    #: Of its worker.
    ordinal: int
    lost: Ranges
    #: Since its last call.
    silent_seconds: float


@dataclass(slots=True)
class News:
    """What happened that others have to know."""

    lapses: list[Lapse] = field(default_factory=list)
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
    #: How many were done when the failure of a worker was last forgiven.
    forgiven_at: int = 0
    news: News = field(default_factory=News)
    changed: set[ReaderKey] = field(default_factory=set)
    removed: set[ReaderKey] = field(default_factory=set)
    #: No deadline is earlier.
    soonest: float = 0.0
    #: Of all readers together.
    spans_held: int = 0

    @property
    def ended(self) -> bool:
        return self.done + self.set_aside == self.data.total

    @property
    def crowded(self) -> bool:
        """Whether it has more spans than a call can handle at once."""
        loose = sum(len(part.spans) for part in (self.returned, self.tried, *self.failures))
        return self.spans_held + loose > SPANS_MAX + SPANS_OF_READER * len(self.readers)

    def add(self, key: ReaderKey, reader: Reader) -> None:
        """One of its readers, as it is stored."""
        self.spans_held += len(reader.held.spans) - len(self.readers.get(key, Reader()).held.spans)
        self.readers[key] = reader

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

    def heard(self) -> dict[int, float]:
        """When each worker last called, by its ordinal."""
        heard: dict[int, float] = {}
        for key, reader in self.readers.items():
            called_at = reader.deadline - self.data.lease_seconds
            heard[key.ordinal] = max(called_at, heard.get(key.ordinal, called_at))
        return heard

    def holders(self) -> list[ShardHolder]:
        """Workers that hold shards, those that are silent for longest first."""
        holders: dict[int, ShardHolder] = {}
        for key, reader in self.readers.items():
            if reader.held:
                called_at = reader.deadline - self.data.lease_seconds
                known = holders.get(key.ordinal, ShardHolder(key.ordinal, 0, called_at))
                held = known.held + reader.held.count
                holders[key.ordinal] = ShardHolder(key.ordinal, held, min(known.heard_at, called_at))
        return sorted(holders.values(), key=lambda holder: (holder.heard_at, holder.ordinal))

    def call(self, call: ShardCall, now: float, *, may_take: bool) -> ShardAnswer:
        """Take a reader's reports and give it what it wants; it keeps what it holds for another `lease_seconds`.

        Raises `Conflict` for a call that is older than the reader's newest one, and for one reader too many;
        `InvalidInput` where it names a position that the job does not have, or breaks up what is crowded.
        """
        call.check_positions(self.data.total)
        reader = self._reader_of(call)
        deadline = now + self.data.lease_seconds
        if call.sequence == reader.sequence:
            self._put(call.reader, replace(reader, deadline=deadline))
            return ShardAnswer(reader.held, reader.held, reader.refused, self.ended)
        held, moved = self._settle(call, reader)
        alone = reader.alone and bool(held)
        given = NOTHING
        if may_take and not alone:
            room = min(call.want, HELD_MAX) - held.count if not (held and self.crowded) else 0
            given, alone = self._take(room, free=not held)
            held = held.plus(given)
        refused = call.done.minus(reader.held)
        failed = call.failed.both(reader.held)
        if not failed and not given and not call.done:
            failed = reader.failed
        self._put(call.reader, Reader(held, alone, deadline, call.sequence, refused, failed))
        return ShardAnswer(given, held, refused, self.ended, moved._replace(given=given.count))

    def expire(self, now: float, heard_since: float) -> None:
        """Take from readers that are silent for too long. Before `heard_since` nobody could be heard."""
        if now < max(self.soonest, heard_since + self.data.lease_seconds):
            return
        for key, reader in self.readers.items():
            if reader.held and reader.deadline <= now:
                detail = f"its reader did not report for {self.data.lease_seconds:g} s"
                self._lose(reader, failed=reader.held.count == 1, blamed=True, detail=detail)
                self._put(key, replace(reader, held=NOTHING, alone=False, failed=reader.held))
                silent_seconds = now - reader.deadline + self.data.lease_seconds
                self.news.lapses.append(Lapse(key.ordinal, reader.held, silent_seconds))
        self.soonest = min((reader.deadline for reader in self.readers.values() if reader.held), default=math.inf)

    def end_worker(self, ordinal: int, *, blamed: bool, detail: str) -> None:
        """The worker is gone; `blamed`: by a failure, for which what it held may be the reason."""
        if blamed and self.charge(ordinal) is Charge.FORGIVEN:
            self.forgiven_at = self.done
        keys = [key for key in self.readers if key.ordinal == ordinal]
        failed = blamed and sum(self.readers[key].held.count for key in keys) == 1
        for key in keys:
            reader = self.readers.pop(key)
            self.spans_held -= len(reader.held.spans)
            self._lose(reader, failed=failed, blamed=blamed, detail=detail)
            self.changed.discard(key)
            self.removed.add(key)

    def charge(self, ordinal: int) -> Charge:
        """What it costs the job if this worker has failed now.

        A retry, if it had nothing to do with shards, if none was done since shards were suspected last, or if more were
        set aside than done: so a script that fails on whatever it gets comes to its end, and a few bad shards among
        good ones do not end their job.
        """
        readers = [reader for key, reader in self.readers.items() if key.ordinal == ordinal]
        suspects = Ranges.of(span for reader in readers for span in (*reader.held.spans, *reader.failed.spans))
        if any(reader.alone for reader in readers):
            fallen = failed_again(self.failures, suspects, self.data.max_attempts)[1]
            return Charge.SHARD if self.set_aside + fallen.count <= self.done else Charge.RETRY
        if suspects.count == 1 and self._failed_before(suspects) and not any(reader.held for reader in readers):
            return Charge.SHARD if self.set_aside <= self.done else Charge.RETRY
        return Charge.FORGIVEN if suspects and self.done > self.forgiven_at else Charge.RETRY

    def _failed_before(self, given_up: Ranges) -> bool:
        """Whether its last failure was not its first one."""
        return self.data.max_attempts > 1 and not any(level.both(given_up) for level in self.failures[:1])

    def _reader_of(self, call: ShardCall) -> Reader:
        reader = self.readers.get(call.reader)
        if reader is None:
            if sum(key.ordinal == call.reader.ordinal for key in self.readers) >= READERS_MAX:
                raise Conflict(
                    f"the worker has used {READERS_MAX} readers, the maximum: each of its processes should reuse one"
                )
            return Reader()
        if call.sequence < reader.sequence:
            raise Conflict(f"call {call.sequence} of the reader is older than call {reader.sequence}")
        return reader

    def _put(self, key: ReaderKey, reader: Reader) -> None:
        self.add(key, reader)
        self.changed.add(key)
        self.soonest = min(self.soonest, reader.deadline)

    def _settle(self, call: ShardCall, reader: Reader) -> tuple[Ranges, Moved]:
        """Take its reports; what it still holds, and what was new."""
        done = call.done.both(reader.held)
        failed = call.failed.both(reader.held).minus(done)
        returned = call.returned.both(reader.held).minus(done).minus(failed)
        held = reader.held.minus(done).minus(failed).minus(returned)
        added = sum(len(part.spans) for part in (held, failed, returned)) - len(reader.held.spans)
        if added > 0 and self.crowded:
            raise InvalidInput(
                "done" if done else "returned" if returned else "failed",
                f"readers of the job hold or gave back too many separate runs of shards (more than {SPANS_MAX:,} and "
                f"{SPANS_OF_READER} for each reader): report shards in the order in which they were given",
            )
        if done:
            self.done += done.count
            self.failures = tuple(level.minus(done) for level in self.failures)
        self._fail(failed, call.detail)
        self._lose(replace(reader, held=returned), failed=False, blamed=False, detail="")
        self.news.ended = self.news.ended or (self.ended and bool(done))
        moved = Moved(done=done.count, failed=failed.count, returned=returned.count)
        return held, moved

    def _take(self, room: int, *, free: bool) -> tuple[Ranges, bool]:
        """At most `room` positions, and whether they were tried before; `free` is a reader that holds nothing."""
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
        return bool(self.tried) and (self.cursor % self.data.shards == 0 or self.crowded)

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
        self.failures, fallen = failed_again(self.failures, positions, self.data.max_attempts)
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
    if queue.forgiven_at > queue.done:
        yield "a failure was forgiven for shards that are not done"
    if queue.spans_held != sum(len(reader.held.spans) for reader in queue.readers.values()):
        yield "the spans that are held are counted wrong"
    if queue.cursor > queue.data.total:
        yield "more was given out than there is"
