"""What stands between a daemon and the outside, where things go wrong: its store, its cluster, its workers' mail."""

import heapq
import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.engine.ports import (
    ActionFailure,
    Anchor,
    ClusterAction,
    Inbox,
    Lease,
    SeenLease,
    StoredNews,
    StoredWorld,
)
from scheduler.engine.timing.steady_clock import SteadyClock
from scheduler.errors import ClusterError, StaleWrite, StoreUnavailable
from scheduler.model.budget import MonthSoFar
from scheduler.model.data_queue import DataQueue
from scheduler.model.ids import JobId
from scheduler.model.observation import Observation, WorkerReport
from scheduler.model.unreadable import Unreadable
from scheduler.model.world import Changes
from scheduler.store.queries.unreadable_rows import Met
from scheduler.store.sqlstore import SqlStore
from tests.faults.kinds import FailStore
from tests.invariants.broken import hold

_T = TypeVar("_T")


class Line:
    """The way to the store that all daemons share: calls fail as told, and a deposed leader must get nothing done."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        #: The newest term that was given out.
        self.term = 0
        #: How many commits there were.
        self.commits = 0
        self.faults: list[FailStore] = []

    def anchor(self) -> Anchor | None:
        """What a daemon that starts goes on from."""
        return self._store.read_lease().anchor

    def open(self) -> "OpenStore":
        """The store for a process that starts: on the connections of all, it has met no rows that cannot be read."""
        mine = copy(self._store)
        mine._met = Met()
        return OpenStore(self, mine)

    def call(self, method: str, call: Callable[[], _T]) -> _T:
        fault = next((fault for fault in self.faults if fault.method == method), None)
        if fault is None:
            return call()
        position = self.faults.index(fault)
        self.faults[position : position + 1] = [replace(fault, count=fault.count - 1)] if fault.count > 1 else []
        if fault.written:
            call()
        raise StoreUnavailable(f"{method} fails{', but was carried out' if fault.written else ''}")


class OpenStore:
    """What one process asks of the store."""

    def __init__(self, line: Line, store: SqlStore) -> None:
        self._line = line
        self._store = store

    def read_lease(self) -> SeenLease:
        return self._line.call("read_lease", self._store.read_lease)

    def acquire_lease(self, holder: str, now: float, ttl_seconds: float, **others: Any) -> Lease | None:
        def acquire() -> Lease | None:
            return self._note(self._store.acquire_lease(holder, now, ttl_seconds, **others))

        return self._line.call("acquire_lease", acquire)

    def renew_lease(self, lease: Lease, now: float, ttl_seconds: float, **others: Any) -> Lease:
        return self._line.call("renew_lease", lambda: self._store.renew_lease(lease, now, ttl_seconds, **others))

    def release_lease(self, lease: Lease, **others: Any) -> None:
        self._store.release_lease(lease, **others)

    def load_world(self, went_on: Callable[[], None]) -> StoredWorld:
        return self._line.call("load_world", lambda: self._store.load_world(went_on))

    def load_news(self, since: int) -> StoredNews:
        return self._line.call("load_news", lambda: self._store.load_news(since))

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        return self._store.unreadable

    def look_again(self) -> Sequence[Unreadable]:
        return self._line.call("look_again", self._store.look_again)

    def take_inbox(self, limit: int) -> Inbox:
        return self._line.call("take_inbox", lambda: self._store.take_inbox(limit))

    def read_queues(self, job_ids: Sequence[JobId]) -> Mapping[JobId, DataQueue]:
        return self._line.call("read_queues", lambda: self._store.read_queues(job_ids))

    def month_so_far(self, first_hour: int) -> MonthSoFar:
        return self._line.call("month_so_far", lambda: self._store.month_so_far(first_hour))

    def data_shares_done(self) -> Mapping[JobId, float]:
        return self._line.call("data_shares_done", self._store.data_shares_done)

    def commit(self, changes: Changes, lease: Lease, now: float) -> None:
        self._line.call("commit", lambda: self._commit(changes, lease, now))

    def rehearse(self, changes: Changes, lease: Lease, now: float) -> None:
        self._line.call("rehearse", lambda: self._store.rehearse(changes, lease, now))

    def _commit(self, changes: Changes, lease: Lease, now: float) -> None:
        deposed = lease.term != self._line.term
        try:
            self._store.commit(changes, lease, now)
        except StaleWrite as error:
            what = f"{lease.holder} was stopped in term {lease.term} of {self._line.term} by: {error}"
            hold(not deposed, "LEASE", what)
            raise
        self._line.commits += 1
        hold(not deposed, "LEASE", f"{lease.holder} commits in term {lease.term} of {self._line.term}")

    def _note(self, lease: Lease | None) -> Lease | None:
        if lease is not None:
            self._line.term = lease.term
        return lease


class Reach:
    """One daemon's way to the cluster: only who leads may act."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        true: VirtualClock,
        clock: SteadyClock,
        leads: Callable[[], bool],
        cut_off: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._true = true
        self._clock = clock
        self._leads = leads
        self._cut_off = cut_off

    def observe(self) -> Observation:
        if self._cut_off():
            raise ClusterError("the cluster cannot be reached from here")
        return self._cluster.observe()

    def apply(self, actions: Sequence[ClusterAction], until: float = math.inf) -> Sequence[ActionFailure]:
        hold(self._leads(), "LEASE", f"a daemon that does not lead acts: {actions}")
        if self._cut_off():
            return [ActionFailure(action, "the cluster cannot be reached from here") for action in actions]
        return self._cluster.apply(actions, self._true.now() + until - self._clock.now())

    def on_change(self, wake: Callable[[], None]) -> None:
        self._cluster.on_change(wake)


class Mail:
    """Workers' reports on their way to the daemon that they can reach, if any: late, and some of them twice."""

    def __init__(self, clock: VirtualClock, randomness: random.Random) -> None:
        self._clock = clock
        self._randomness = randomness
        self._under_way: list[tuple[float, int, WorkerReport]] = []
        self._numbers = itertools.count()
        #: Where reports arrive; None: nobody answers, and they are lost.
        self.receive: Callable[[WorkerReport], bool] | None = None
        self.late_seconds = 0.0
        self.twice = 0.0

    def put(self, report: WorkerReport) -> bool:
        """Send it; whether it arrives at once and is urgent."""
        if self.late_seconds:
            self._send(report, self._randomness.uniform(0.0, self.late_seconds))
            return False
        if self.twice and self._randomness.random() < self.twice:
            self._send(report, self._randomness.uniform(0.0, 2.0))
        return self._arrive(report)

    def next_at(self) -> float | None:
        return self._under_way[0][0] if self._under_way else None

    def deliver(self) -> bool:
        """Let arrive what is due; whether any of it is urgent."""
        urgent = False
        while self._under_way and self._under_way[0][0] <= self._clock.now():
            urgent |= self._arrive(heapq.heappop(self._under_way)[2])
        return urgent

    def _send(self, report: WorkerReport, seconds: float) -> None:
        heapq.heappush(self._under_way, (self._clock.now() + seconds, next(self._numbers), report))

    def _arrive(self, report: WorkerReport) -> bool:
        return self.receive is not None and self.receive(report)
