"""Faults of a simulated run: workers that fail, nodes that are lost and come back, the daemon killed.

When what fails follows from the seed and the nodes alone, and not from what is decided: policies that are compared meet
the same faults at the same moments.
"""

import heapq
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.engine.tick import TickReport
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import NodeName
from scheduler.model.job_state import StopReason
from scheduler.model.observation import NodeObservation
from scheduler.model.worker import ExitReason

_FAULTY_ENDS = frozenset({ExitReason.FAILED, ExitReason.LOST})
_FAULTY_STOPS = frozenset({StopReason.GANG_RESTART, StopReason.BELOW_MINIMUM})


@dataclass(frozen=True, slots=True)
class Faults:
    """What a user asks for. Mean times are those of exponential distributions, in seconds; None: never."""

    seed: int = 0
    #: Between two failures of a worker of one slot; one of four slots fails four times as often.
    worker_seconds: float | None = None
    #: From the return of a node to its next loss.
    node_seconds: float | None = None
    #: How long a lost node is away; it comes back without its workers.
    node_away_seconds: float = 600.0
    #: From the start of the daemon to its next death.
    daemon_seconds: float | None = None
    #: How long it is away.
    daemon_away_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class FaultCounts:
    """How many of each happened, and what they cost."""

    seed: int
    worker_failures: int = 0
    node_losses: int = 0
    #: Workers that were lost with their nodes.
    workers_lost: int = 0
    daemon_deaths: int = 0
    #: How often jobs went back to the queue because workers failed or were lost.
    restarts: int = 0
    #: Jobs that failed, since workers of theirs failed more often than they may.
    jobs_failed: int = 0
    #: Work of workers that failed or were lost since the last commit of their job, times slots.
    lost_slot_hours: float = 0.0
    #: Slots of lost nodes, times how long these were away.
    away_slot_hours: float = 0.0
    daemon_away_hours: float = 0.0


class Kind(Enum):
    """What happens."""

    WORKER_FAILS = auto()
    NODE_LOST = auto()
    NODE_RETURNS = auto()
    DAEMON_DIES = auto()
    DAEMON_STARTS = auto()


@dataclass(frozen=True, slots=True)
class _Source:
    """Draws the faults of one kind, of one node or of the daemon."""

    kind: Kind
    randomness: random.Random
    mean_seconds: float
    node: NodeObservation | None = None


class FaultInjector:
    """Makes faults happen on the cluster, and counts them. Whoever runs the daemon ends and starts it as told."""

    def __init__(
        self, faults: Faults, nodes: Sequence[NodeObservation], cluster: SimulatedCluster, start: float
    ) -> None:
        self._faults = faults
        self._cluster = cluster
        self._coming: list[tuple[float, int, Kind, _Source]] = []
        self._numbers = itertools.count()
        #: Since when which nodes are away, and the daemon is; None: it runs.
        self._lost: dict[NodeName, tuple[float, int]] = {}
        self._dead_since: float | None = None
        self._counts = FaultCounts(faults.seed)
        for source in _sources(faults, nodes):
            self._draw(source, start)

    @property
    def daemon_runs(self) -> bool:
        return self._dead_since is None

    @property
    def something_returns(self) -> bool:
        """Whether a node or the daemon is away, and comes back."""
        return bool(self._lost) or not self.daemon_runs

    def next_at(self) -> float:
        """When something happens next."""
        return self._coming[0][0] if self._coming else math.inf

    def inject(self, now: float) -> list[Kind]:
        """Let everything happen that is due; what did, where it hit anything."""
        happened = []
        while self.next_at() <= now:
            at, _, kind, source = heapq.heappop(self._coming)
            if self._happen(kind, source, at):
                happened.append(kind)
        return happened

    def ticked(self, report: TickReport) -> None:
        """Count what became of faults, as the scheduler tells it."""
        for event in report.events:
            self._counts = _with_event(self._counts, event)

    def counts(self, now: float) -> FaultCounts:
        """Until now; what is away counts to now."""
        away = sum((now - since) * slots for since, slots in self._lost.values())
        dead_seconds = 0.0 if self._dead_since is None else now - self._dead_since
        return replace(
            self._counts,
            away_slot_hours=self._counts.away_slot_hours + away / 3600.0,
            daemon_away_hours=self._counts.daemon_away_hours + dead_seconds / 3600.0,
        )

    def _happen(self, kind: Kind, source: _Source, at: float) -> bool:
        match kind:
            case Kind.WORKER_FAILS:
                self._draw(source, at)
                return self._fail_worker(source)
            case Kind.NODE_LOST:
                self._plan(at + self._faults.node_away_seconds, Kind.NODE_RETURNS, source)
                self._lose_node(source, at)
            case Kind.NODE_RETURNS:
                self._draw(source, at)
                self._return_node(source, at)
            case Kind.DAEMON_DIES:
                self._plan(at + self._faults.daemon_away_seconds, Kind.DAEMON_STARTS, source)
                self._dead_since = at
                self._counts = replace(self._counts, daemon_deaths=self._counts.daemon_deaths + 1)
            case Kind.DAEMON_STARTS:
                self._draw(source, at)
                self._start_daemon(at)
        return True

    def _draw(self, source: _Source, now: float) -> None:
        self._plan(now + source.randomness.expovariate(1.0 / source.mean_seconds), source.kind, source)

    def _plan(self, at: float, kind: Kind, source: _Source) -> None:
        heapq.heappush(self._coming, (at, next(self._numbers), kind, source))

    def _fail_worker(self, source: _Source) -> bool:
        """Whoever has the slot that was drawn fails; False: nobody has."""
        assert source.node is not None
        slot = source.randomness.randrange(source.node.slots)
        worker_id = self._cluster.worker_on(source.node.name, slot)
        if worker_id is None or source.node.name in self._lost:
            return False
        self._cluster.crash(worker_id)
        self._counts = replace(self._counts, worker_failures=self._counts.worker_failures + 1)
        return True

    def _lose_node(self, source: _Source, at: float) -> None:
        assert source.node is not None
        name = source.node.name
        workers = self._cluster.crash_node(name)
        self._lost[name] = (at, source.node.slots)
        losses, lost = self._counts.node_losses + 1, self._counts.workers_lost + workers
        self._counts = replace(self._counts, node_losses=losses, workers_lost=lost)

    def _return_node(self, source: _Source, at: float) -> None:
        assert source.node is not None
        name = source.node.name
        self._cluster.return_node(name, rebooted=True)
        since, slots = self._lost.pop(name)
        away = self._counts.away_slot_hours + (at - since) * slots / 3600.0
        self._counts = replace(self._counts, away_slot_hours=away)

    def _start_daemon(self, at: float) -> None:
        assert self._dead_since is not None
        away = self._counts.daemon_away_hours + (at - self._dead_since) / 3600.0
        self._counts, self._dead_since = replace(self._counts, daemon_away_hours=away), None


def _sources(faults: Faults, nodes: Sequence[NodeObservation]) -> Iterator[_Source]:
    for node in nodes:
        if faults.worker_seconds is not None and node.slots:
            randomness = random.Random(f"{faults.seed} workers of {node.name}")
            yield _Source(Kind.WORKER_FAILS, randomness, faults.worker_seconds / node.slots, node)
        if faults.node_seconds is not None:
            yield _Source(Kind.NODE_LOST, random.Random(f"{faults.seed} node {node.name}"), faults.node_seconds, node)
    if faults.daemon_seconds is not None:
        yield _Source(Kind.DAEMON_DIES, random.Random(f"{faults.seed} daemon"), faults.daemon_seconds)


def _with_event(counts: FaultCounts, event: Event) -> FaultCounts:
    match event.kind:
        case EventKind.WORKER_ENDED if event.cause in _FAULTY_ENDS:
            return replace(counts, lost_slot_hours=counts.lost_slot_hours + (event.amount or 0.0) / 3600.0)
        case EventKind.JOB_REQUEUED if event.cause in _FAULTY_STOPS:
            return replace(counts, restarts=counts.restarts + 1)
        case EventKind.JOB_FAILED if event.cause == StopReason.RETRIES_EXHAUSTED:
            return replace(counts, jobs_failed=counts.jobs_failed + 1)
        case _:
            return counts
