"""One tick over 1,000 nodes × 8 slots with 2,000 running and 10,000 waiting jobs, on SQLite.

The real engine and store over the simulated cluster; only the clock is virtual, the durations are real. A tick is
everything: observe, take requests, absorb, plan, check, commit (durably), post, apply.
"""

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figure import Figure, median
from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import Settings
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.board import Board
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Engine
from scheduler.engine.timing import gc_pauses
from scheduler.model.ids import NodeName
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.observation import NodeObservation
from scheduler.store.sqlstore import SqlStore

NODES, SLOTS = 1_000, 8
RUNNING, WAITING = 2_000, 10_000
ROUNDS = 15
TARGET_MS = 100.0
_SETTLE_TICKS_MAX = 200


class Site:
    """The cluster, its jobs and the engine."""

    def __init__(self, directory: Path) -> None:
        self.clock = VirtualClock(1_000_000.0)
        self.store = SqlStore(f"sqlite:///{directory / 'bench.db'}")
        self.store.upgrade()
        self.board, reports = Board(), ReportBox()
        self.cluster = SimulatedCluster(self.clock, self.board, reports)
        for number in range(NODES):
            name = NodeName(f"n{number:04d}")
            self.cluster.add_node(NodeObservation(name, f"10.0.{number // 250}.{number % 250}", SLOTS, cpus=64.0))
        launch = LaunchContext("http://127.0.0.1:1", lambda job: f"token-{job.id}", directory / "jobs")
        settings = Settings(state_dir=directory)
        self.engine = Engine(self.store, self.cluster, self.clock, settings, launch, self.board, reports, "bench")

    def submit(self, specs: list[JobSpec]) -> None:
        for submitted in self.store.submit(specs, self.clock.now()):
            runtime = specs[0].runtime
            self.cluster.behave(submitted.id, Behaviour(runtime=runtime))

    def tick(self) -> dict[str, float]:
        """Durations of the steps and of all together, in milliseconds."""
        self.clock.advance(1.0)
        self.cluster.advance()  # what workers do and report between two ticks is no part of one
        durations = {}
        began = last = time.perf_counter()
        cpu = time.thread_time()
        with gc_pauses.paused():  # as `Engine.tick` does
            for step in self.engine.steps():
                now = time.perf_counter()
                durations[step.name] = (now - last) * 1000
                last = now
        durations["ALL"] = (time.perf_counter() - began) * 1000
        durations["CPU"] = (time.thread_time() - cpu) * 1000
        if self.engine.report.error is not None:
            raise RuntimeError(f"the tick decided nothing: {self.engine.report.error}")
        return durations

    def settle(self) -> None:
        for _ in range(_SETTLE_TICKS_MAX):
            self.tick()
            if not self.engine.report.events:
                return

    def end_a_job(self, dice: random.Random) -> None:
        """All workers of one running job end with success."""
        assert self.engine.world is not None
        job = dice.choice(list(self.engine.world.active.values()))
        for worker in job.workers:
            self.cluster.crash(worker.id, exit_code=0)


def run() -> list[Figure]:
    dice = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="sched-bench-") as directory:
        site = Site(Path(directory))
        try:
            return _measure(site, dice)
        finally:
            site.store.close()


def _measure(site: Site, dice: random.Random) -> list[Figure]:
    for runtime, count in (
        (Runtime.COMMAND, RUNNING // 2 + WAITING // 2),
        (Runtime.ELASTIC, RUNNING // 2 + WAITING // 2),
    ):
        site.submit([_spec(dice, runtime) for _ in range(count)])
    first = site.tick()["ALL"]
    site.settle()
    assert site.engine.world is not None
    running, waiting = len(site.engine.world.active), len(site.engine.world.queued)
    idle = [site.tick() for _ in range(ROUNDS)]
    arrival = _rounds(site, lambda: site.submit([_spec(dice, Runtime.COMMAND, priority=0)]))
    urgent = _rounds(site, lambda: site.submit([_spec(dice, Runtime.COMMAND, priority=100)]))
    ended = _rounds(site, lambda: site.end_a_job(dice))
    there = f"{running:,} running, {waiting:,} waiting"
    return [
        _figure("idle tick", idle, there),
        _figure("tick that takes one arrival", arrival),
        _figure("tick that takes one arrival of top priority (preempts)", urgent),
        _figure("tick that takes the end of one job", ended),
        Figure("first tick, which takes 10,000 jobs and starts what fits", first, "ms"),
    ]


def _rounds(site: Site, happen: Callable[[], None]) -> list[dict[str, float]]:
    """Let something happen and take the tick that sees it; then let the world come to rest."""
    taken = []
    for _ in range(ROUNDS):
        happen()
        taken.append(site.tick())
        site.settle()
    return taken


def _figure(what: str, ticks: list[dict[str, float]], note: str = "") -> Figure:
    middle = sorted(ticks, key=lambda tick: tick["ALL"])[len(ticks) // 2]
    steps = ", ".join(
        f"{name.lower()} {ms:.0f}" for name, ms in middle.items() if name not in ("ALL", "CPU") and ms >= 1
    )
    value, cpu = median([tick["ALL"] for tick in ticks]), median([tick["CPU"] for tick in ticks])
    text = f"{note + '; ' if note else ''}of which {cpu:.0f} ms of its core; {steps}"
    return Figure(what, value, "ms", at_most=TARGET_MS, note=text)


def _spec(dice: random.Random, runtime: Runtime, priority: int | None = None) -> JobSpec:
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
