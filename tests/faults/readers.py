"""Workers that read the data of their jobs in shards: they take some, do them, and sometimes fail on one."""

import random
from typing import TYPE_CHECKING

from scheduler.errors import StoreUnavailable, UserError
from scheduler.model.ids import JobId, WorkerId, ordinal_of
from scheduler.model.ranges import NOTHING, Ranges
from scheduler.model.shard_calls import ReaderKey, ShardCall
from scheduler.store.records import ShardsAsked
from tests.invariants.broken import hold

if TYPE_CHECKING:
    from tests.faults.run import Run

#: Between two calls of a reader.
CALL_SECONDS = 1.0
WANTED = 3


class Readers:
    """One reader in each worker that works; it calls the daemon that leads, unless nobody answers."""

    def __init__(self, run: "Run", randomness: random.Random) -> None:
        self._run = run
        self._randomness = randomness
        self._held: dict[WorkerId, Ranges] = {}
        self._calls: dict[WorkerId, int] = {}
        #: Positions that count as done, by job.
        self._done: dict[JobId, Ranges] = {}
        #: Jobs with data that had not ended when that was asked last.
        self._unended: list[JobId] = []
        self._next_at: float | None = None

    def next_at(self) -> float | None:
        """When they call next; None: nobody reads."""
        return self._next_at

    def submitted(self, job_id: JobId) -> None:
        """A job with data."""
        self._done[job_id] = NOTHING
        self._unended.append(job_id)
        self._next_at = self._run.clock.now() if self._next_at is None else self._next_at

    def read(self) -> None:
        """Make the calls that are due by now."""
        now, leader = self._run.clock.now(), self._run.leader
        if self._next_at is None or now < self._next_at:
            return
        working = self._working()
        self._next_at = now + CALL_SECONDS if working or self._anybody_left() else None
        asked = [] if leader.away else [self._ask(job_id, worker) for job_id, worker in working]
        if not asked:
            return
        try:
            exchanged = self._run.store.exchange_shards(asked, leader.clock.now(), leader.engine.heard_since)
        except StoreUnavailable:
            return
        for each, given in zip(asked, exchanged.outcomes, strict=True):
            if isinstance(given, UserError):
                self._held.pop(each.worker_id, None)
                continue
            self._held[each.worker_id] = given.answer.held
            self._count(each.job_id, each.call.done.minus(given.answer.refused))

    def _anybody_left(self) -> bool:
        while self._unended:
            if not self._run.ended(self._unended[-1]):
                return True
            self._unended.pop()
        return False

    def _working(self) -> list[tuple[JobId, WorkerId]]:
        alive = [start for _, start in self._run.cluster.alive() if start.job_id in self._done]
        processes = ((start, self._run.cluster.process(start.worker_id)) for start in alive)
        return [(start.job_id, start.worker_id) for start, process in processes if process and process.working]

    def _ask(self, job_id: JobId, worker_id: WorkerId) -> ShardsAsked:
        """It has done some of what it holds, and wants more."""
        held = self._held.get(worker_id, NOTHING)
        fails = bool(held) and self._randomness.random() < 0.1
        first = held.first(1) if fails else NOTHING
        done = held.minus(first).first(self._randomness.randint(0, WANTED))
        number = self._calls[worker_id] = self._calls.get(worker_id, 0) + 1
        key = ReaderKey(ordinal_of(worker_id), "reader")
        return ShardsAsked(job_id, worker_id, ShardCall(key, number, done=done, failed=first, want=WANTED))

    def _count(self, job_id: JobId, done: Ranges) -> None:
        twice = self._done[job_id].both(done)
        hold(not twice, "SHARDS", f"job {job_id}: {twice} counted as done twice")
        self._done[job_id] = self._done[job_id].plus(done)
