"""The whole engine at scale: steady traffic, a wave of important jobs, lost nodes, a restart and a failover.

The real engine and store over the simulated cluster of N nodes × 8 slots; only the clock is virtual, and the durations
are real: a second passes between two ticks, however long these take. About 2 jobs a node run and 8 wait; half of them
are elastic. At 12,500 nodes and more, 200 jobs come and 200 end in a second, and workers send 2,000 reports; on a
smaller cluster in proportion, and of the jobs that end one in 50 does so by the failure of a worker.
"""

import random
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figure import Figure, percentile
from benchmarks.kept_memory import kept_mib
from benchmarks.site import SLOTS, Replica, Site, Tick, some_job
from benchmarks.trouble import Skipped
from scheduler.model.event import EventKind
from scheduler.model.job import JobSpec, Runtime
from tests.postgres import missing_reason, running_server

NODES = "1000"
JOBS_PER_NODE = 10
TRAFFIC_SECONDS = 300
#: At `FULL_NODES` nodes and more, in a second.
FULL_NODES = 12_500
COMING = ENDING = 200
REPORTS = 2_000
FAILING_SHARE = 0.02
WAVE_SHARE, WAVE_PRIORITY, WAVE_WORKERS = 0.1, 100, 4
LOST_SHARE = 0.05
#: What tells that a job has slots now, or will have those that others leave.
_DECIDED = frozenset({EventKind.JOB_STARTED, EventKind.JOB_RESERVED})
_BATCH = 5_000
_TICKS_MAX = 500


def run(nodes: str = NODES, postgres: bool = False, seconds: int = TRAFFIC_SECONDS) -> list[Figure]:
    """`nodes`: sizes with commas between; `postgres`: on a server of its own instead of SQLite."""
    sizes = [int(size) for size in nodes.split(",")]
    return [figure for size in sizes for figure in _at(size, seconds, postgres=postgres)]


def _at(nodes: int, seconds: int, *, postgres: bool) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sched-bench-") as directory, _database(postgres=postgres) as url:
        cluster = Cluster(Path(directory), nodes, url)
        try:
            return cluster.measure(seconds)
        finally:
            cluster.site.leader.store.close()


@contextmanager
def _database(*, postgres: bool) -> Iterator[str | None]:
    """The URL of an empty PostgreSQL database; None: SQLite."""
    if not postgres:
        yield None
        return
    if reason := missing_reason():
        raise Skipped(reason)
    with running_server() as server:
        yield server.url("postgres")


class Cluster:
    """A cluster of one size, and all that happens to it."""

    def __init__(self, directory: Path, nodes: int, url: str | None) -> None:
        self.site = Site(directory, nodes, url)
        self._dice = random.Random(1)
        self._nodes = nodes
        share = min(nodes / FULL_NODES, 1.0)
        self._coming, self._ending = COMING * share, ENDING * share
        #: Half of the slots have a worker that reports.
        self._heartbeat_seconds = nodes * SLOTS / 2 / (REPORTS * share)

    def measure(self, seconds: int) -> list[Figure]:
        """One thing after the other; between them, the cluster comes to rest."""
        figures = [*self._load(), *self._traffic(seconds)]
        kept = kept_mib(self.site.leader, without=(self.site.cluster, self.site.clock))
        figures.append(self._figure("what the daemon keeps in memory after it, beside its program", kept, "MiB"))
        self.site.settle()
        figures += self._wave()
        self.site.settle()
        figures += self._loss()
        figures += [*self._restart(), *self._failover()]
        memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return [*figures, self._figure("memory at most, with the simulated cluster and the standby", memory_mib, "MiB")]

    def _load(self) -> list[Figure]:
        for first in range(0, self._nodes * JOBS_PER_NODE, _BATCH):
            self._submit(min(_BATCH, self._nodes * JOBS_PER_NODE - first))
        ticks = self.site.settle()
        world = self.site.leader.world
        there = f"{len(world.active):,} running, {len(world.queued):,} waiting"
        return self._settled("all jobs at once", ticks, there)

    def _traffic(self, seconds: int) -> list[Figure]:
        ticks, came, ended = [], 0, 0
        for second in range(1, seconds + 1):
            coming, ending = int(second * self._coming) - came, int(second * self._ending) - ended
            self._submit(coming)
            self._end(ending)
            came, ended = came + coming, ended + ending
            ticks.append(self.site.tick())
        what = "a tick in steady traffic"
        durations = [tick.ms for tick in ticks]
        events = f"{sum(tick.events for tick in ticks):,} events"
        note = (
            f"{seconds} ticks: {came:,} jobs came, {ended:,} ended, {events}; this one: {_at_share(ticks, 0.5).said()}"
        )
        return [
            self._figure(f"{what}, p50", percentile(durations, 0.5), "ms", note),
            self._figure(f"{what}, p99", percentile(durations, 0.99), "ms", _at_share(ticks, 0.99).said()),
            self._figure(f"{what}, worst", max(durations), "ms", _at_share(ticks, 1.0).said()),
        ]

    def _wave(self) -> list[Figure]:
        jobs = max(int(self._nodes * SLOTS * WAVE_SHARE) // WAVE_WORKERS, 1)
        shape = JobSpec("wave", ("train",), priority=WAVE_PRIORITY, min_workers=WAVE_WORKERS, max_workers=WAVE_WORKERS)
        wave = set(self.site.submit([shape] * jobs, self._heartbeat_seconds))
        ticks: list[Tick] = []
        deciding = 0
        while not wave <= {job.id for job in self.site.running()}:
            ticks.append(self._bounded(ticks))
            events = self.site.leader.engine.report.events
            deciding += any(event.kind in _DECIDED and event.job_id in wave for event in events)
        note = f"{deciding} of them gave slots to jobs of the wave, or had them freed"
        return self._settled(f"a wave of {len(wave):,} important jobs until they run", ticks, note)

    def _loss(self) -> list[Figure]:
        lost = self._dice.sample(self.site.nodes, max(int(self._nodes * LOST_SHARE), 1))
        workers = sum(self.site.cluster.crash_node(name) for name in lost)
        ticks = [self.site.tick(), *self.site.settle()]
        return self._settled(f"{len(lost):,} nodes with {workers:,} workers lost", ticks)

    def _restart(self) -> list[Figure]:
        """The daemon ends in order and begins anew, with nothing but its database."""
        site = self.site
        site.leader.engine.release()
        site.leader.store.close()
        site.leader = site.replica("bench")
        site.cluster.follow(site.leader.board, site.leader.reports)
        return self._settled("a restart of the daemon", site.settle())

    def _failover(self) -> list[Figure]:
        """Another daemon, which followed the commits of the leader, takes over once the leader is silent."""
        site, standby = self.site, self.site.replica("standby")
        behind = [self._followed(standby) for _ in range(3)]
        before, dead_at = site.leader, site.clock.now()
        site.leader = standby
        site.cluster.follow(standby.board, standby.reports)
        ticks = [site.tick()]
        while standby.engine.lease is None:
            ticks.append(self._bounded(ticks))
        took_over_seconds = site.clock.now() - dead_at
        before.store.close()
        note = f"first tick of the standby, which loads all, {behind[0].ms:,.0f} ms; the next {behind[-1].ms:,.0f} ms"
        figures = self._settled("a failover", [ticks[-1], *site.settle()], note)
        return [*figures, self._figure("silence of the leader until another led", took_over_seconds, "s")]

    def _followed(self, standby: Replica) -> Tick:
        """The standby's tick after one of the leader in which jobs came and ended."""
        self._submit(int(self._coming))
        self._end(int(self._ending))
        self.site.tick()
        return standby.tick()

    def _submit(self, count: int) -> None:
        for runtime, part in ((Runtime.COMMAND, count - count // 2), (Runtime.ELASTIC, count // 2)):
            self.site.submit([some_job(self._dice, runtime) for _ in range(part)], self._heartbeat_seconds)

    def _end(self, count: int) -> None:
        """This many running jobs end, or fail by one of their workers."""
        running = self.site.running()
        for job in self._dice.sample(running, min(count, len(running))):
            if self._dice.random() < FAILING_SHARE:
                self.site.cluster.crash(job.workers[0].id, exit_code=1)
            else:
                self.site.end(job)

    def _bounded(self, ticks: list[Tick]) -> Tick:
        if len(ticks) >= _TICKS_MAX:
            raise RuntimeError(f"not done after {_TICKS_MAX} ticks")
        return self.site.tick()

    def _settled(self, what: str, ticks: list[Tick], note: str = "") -> list[Figure]:
        """How many ticks it took, how long these were together, and the longest."""
        worst = max(ticks, key=lambda tick: tick.ms)
        events = f"{sum(tick.events for tick in ticks):,} events"
        return [
            self._figure(f"{what}: ticks", float(len(ticks)), "", "; ".join(filter(None, [note, events]))),
            self._figure(
                f"{what}: all of them",
                sum(tick.ms for tick in ticks) / 1000,
                "s",
                f"of which {sum(tick.cpu_ms for tick in ticks) / 1000:.3g} s of its core",
            ),
            self._figure(f"{what}: the longest", worst.ms, "ms", worst.said()),
        ]

    def _figure(self, what: str, value: float | None, unit: str, note: str = "") -> Figure:
        return Figure(f"{self._nodes:,} nodes: {what}", value, unit, note=note)


def _at_share(ticks: list[Tick], share: float) -> Tick:
    """The tick that this share of all does not exceed."""
    ordered = sorted(ticks, key=lambda tick: tick.ms)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
