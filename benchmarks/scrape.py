"""A scrape of /metrics while 10,000 jobs run and wait, in both formats that Prometheus asks for.

The real engine, store and metrics over the simulated cluster of `python -m benchmarks tick`; the durations are real.
Between two scrapes a job ends and a tick passes.
"""

import random
import tempfile
import time
from pathlib import Path

from benchmarks.figure import Figure, median
from benchmarks.site import SLOTS, Site
from benchmarks.tick import NODES
from scheduler.metrics import Metrics
from scheduler.model.job import JobSpec, Runtime

JOBS = 10_000
ROUNDS = 15
TARGET_MS = 100.0
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sched-bench-") as directory:
        site = Site(Path(directory), NODES)
        try:
            return _measure(site)
        finally:
            site.leader.store.close()


def _measure(site: Site) -> list[Figure]:
    site.submit([_spec(number) for number in range(JOBS)])
    for _ in range(5):
        site.tick()
    world, metrics = site.leader.world, site.leader.metrics
    note = f"{NODES:,} nodes × {SLOTS} slots, {len(world.active):,} jobs run, {len(world.queued):,} wait"
    text, _ = metrics.answer("")
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    return [
        _figure("scrape of 10,000 jobs, text", site, metrics, "", note),
        _figure("scrape of 10,000 jobs, OpenMetrics", site, metrics, OPENMETRICS, f"{series:,} series"),
    ]


def _figure(what: str, site: Site, metrics: Metrics, accept: str, note: str) -> Figure:
    durations, cpu, dice = [], [], random.Random(1)
    for _ in range(ROUNDS):
        site.end(dice.choice(site.running()))
        site.tick()
        began, cpu_began = time.perf_counter(), time.thread_time()
        metrics.answer(accept)
        durations.append((time.perf_counter() - began) * 1000)
        cpu.append((time.thread_time() - cpu_began) * 1000)
    return Figure(
        what, median(durations), "ms", at_most=TARGET_MS, note=f"{note}; of which {median(cpu):.0f} ms of its core"
    )


def _spec(number: int) -> JobSpec:
    return JobSpec(
        name="bench",
        command=("train",),
        runtime=Runtime.ELASTIC,
        priority=number % 10,
        min_workers=1 + number % 4,
        max_workers=8,
        user=f"user{number % 20}",
    )
