"""Daemons without HTTP over the simulated cluster under a virtual clock: what a tick takes is real time.

A tick is everything: observe, take requests, absorb, plan, check, commit (durably), post, apply, count.
"""

import random
import time
from dataclasses import dataclass
from pathlib import Path

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import Settings
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.board import Board
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Engine
from scheduler.engine.timing import gc_pauses
from scheduler.metrics import Metrics
from scheduler.model.ids import NodeName
from scheduler.model.job import Job, JobSpec, Runtime
from scheduler.model.job_state import JobState
from scheduler.model.observation import NodeObservation
from scheduler.model.world import World
from scheduler.store.sqlstore import SqlStore

SLOTS = 8
_SETTLE_TICKS_MAX = 500


class SiteClock(VirtualClock):
    """The virtual clock, on which durations also have what ticks really take: those that take long end early by it."""

    def monotonic(self) -> float:
        return self.now() + time.perf_counter()


@dataclass(frozen=True, slots=True)
class Tick:
    """The duration of a tick, as a whole, on its core, and by step."""

    ms: float
    cpu_ms: float
    steps_ms: dict[str, float]
    events: int

    def steps(self) -> str:
        """For people: the steps that count."""
        return ", ".join(f"{name.lower()} {ms:,.0f}" for name, ms in self.steps_ms.items() if ms >= 1)

    def said(self) -> str:
        """For people: what it did, and what it took."""
        return f"{self.events:,} events; {self.cpu_ms:,.0f} ms of its core; {self.steps()}"


class Replica:
    """What one daemon has besides HTTP: engine, store, board and metrics."""

    def __init__(self, name: str, url: str, clock: VirtualClock, cluster: SimulatedCluster, directory: Path) -> None:
        self.store = SqlStore(url)
        self.store.upgrade()
        self.board, self.reports = Board(), ReportBox()
        self.metrics = Metrics(self.board, (), clock)
        launch = LaunchContext("http://127.0.0.1:1", lambda job: f"token-{job.id}", directory / "jobs")
        settings = Settings(state_dir=directory)
        self.engine = Engine(self.store, cluster, clock, settings, launch, self.board, self.reports, name)

    @property
    def world(self) -> World:
        """The world of an engine that leads."""
        assert self.engine.world is not None
        return self.engine.world

    def tick(self) -> Tick:
        """One tick of the engine; raises RuntimeError where it decides nothing."""
        steps_ms = {}
        began = last = time.perf_counter()
        cpu = time.thread_time()
        with gc_pauses.paused():  # as `Engine.tick` does
            for step in self.engine.steps():
                now = time.perf_counter()
                steps_ms[step.name] = (now - last) * 1000
                last = now
                self.engine.keep_lease()  # as a thread of the daemon does
        report = self.engine.report
        self.metrics.observe(report)
        ended = time.perf_counter()
        steps_ms["COUNTED"] = (ended - last) * 1000
        if report.error is not None:
            raise RuntimeError(f"the tick decided nothing: {report.error}")
        return Tick((ended - began) * 1000, (time.thread_time() - cpu) * 1000, steps_ms, len(report.events))


class Site:
    """A cluster, its jobs, and the daemon that leads."""

    def __init__(self, directory: Path, nodes: int, url: str | None = None) -> None:
        """`url`: the database; None: SQLite in the directory."""
        self._directory = directory
        self._url = url or f"sqlite:///{directory / 'bench.db'}"
        self.clock = SiteClock(1_000_000.0)
        self.cluster = SimulatedCluster(self.clock, Board(), ReportBox())
        self.nodes = [NodeName(f"n{number:05d}") for number in range(nodes)]
        for number, name in enumerate(self.nodes):
            host = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"
            self.cluster.add_node(NodeObservation(name, host, SLOTS, cpus=64.0))
        self.leader = self.replica("bench")
        self.cluster.follow(self.leader.board, self.leader.reports)

    def replica(self, name: str) -> Replica:
        """One more daemon with the same database and cluster."""
        return Replica(name, self._url, self.clock, self.cluster, self._directory)

    def submit(self, specs: list[JobSpec], heartbeat_seconds: float = 1.0) -> list[int]:
        """Their workers report so often; returns the numbers of the jobs."""
        stored = self.leader.store.submit(specs, self.clock.now())
        for submitted, spec in zip(stored, specs, strict=True):
            self.cluster.behave(submitted.id, Behaviour(runtime=spec.runtime, heartbeat_seconds=heartbeat_seconds))
        return [submitted.id for submitted in stored]

    def tick(self) -> Tick:
        """The leader's tick, a second after the last one."""
        self.clock.advance(1.0)
        self.cluster.advance()  # what workers do and report between two ticks is no part of one
        return self.leader.tick()

    def settle(self) -> list[Tick]:
        """The ticks until one after which nothing has happened; raises RuntimeError if there is no end."""
        ticks = []
        for _ in range(_SETTLE_TICKS_MAX):
            ticks.append(self.tick())
            if not ticks[-1].events:
                return ticks
        raise RuntimeError(f"not settled after {_SETTLE_TICKS_MAX} ticks")

    def running(self) -> list[Job]:
        """Jobs that run with all of their workers."""
        return [job for job in self.leader.world.active.values() if job.state is JobState.RUNNING]

    def end(self, job: Job, exit_code: int = 0) -> None:
        """All workers of the job end."""
        for worker in job.workers:
            self.cluster.crash(worker.id, exit_code=exit_code)


def some_job(dice: random.Random, runtime: Runtime, priority: int | None = None) -> JobSpec:
    """Four slots on average at its minimum; elastic ones can double."""
    workers = dice.choice((1, 2, 4, 4, 4, 6, 7))
    elastic = runtime is Runtime.ELASTIC
    return JobSpec(
        name="bench",
        command=("train",),
        runtime=runtime,
        priority=dice.randrange(10) if priority is None else priority,
        min_workers=workers,
        max_workers=workers * 2 if elastic else workers,
        user=f"user{dice.randrange(20)}",
    )
