"""One tick over 1,000 nodes × 8 slots with 2,000 running and 10,000 waiting jobs, on SQLite.

The real engine and store over the simulated cluster; only the clock is virtual, the durations are real. A tick is
everything: observe, take requests, absorb, plan, check, commit (durably), post, apply, count.
"""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.figure import Figure, median
from benchmarks.site import Site, Tick, some_job
from scheduler.model.job import Runtime

NODES = 1_000
RUNNING, WAITING = 2_000, 10_000
ROUNDS = 15
TARGET_MS = 100.0


def run() -> list[Figure]:
    dice = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="sched-bench-") as directory:
        site = Site(Path(directory), NODES)
        try:
            return _measure(site, dice)
        finally:
            site.leader.store.close()


def _measure(site: Site, dice: random.Random) -> list[Figure]:
    for runtime in (Runtime.COMMAND, Runtime.ELASTIC):
        site.submit([some_job(dice, runtime) for _ in range((RUNNING + WAITING) // 2)])
    first = site.tick().ms
    site.settle()
    world = site.leader.world
    running, waiting = len(world.active), len(world.queued)
    idle = [site.tick() for _ in range(ROUNDS)]
    arrival = _rounds(site, lambda: site.submit([some_job(dice, Runtime.COMMAND, priority=0)]))
    urgent = _rounds(site, lambda: site.submit([some_job(dice, Runtime.COMMAND, priority=100)]))
    ended = _rounds(site, lambda: site.end(dice.choice(site.running())))
    there = f"{running:,} running, {waiting:,} waiting"
    return [
        _figure("idle tick", idle, there),
        _figure("tick that takes one arrival", arrival),
        _figure("tick that takes one arrival of top priority (preempts)", urgent),
        _figure("tick that takes the end of one job", ended),
        Figure("first tick, which takes 10,000 jobs and starts what fits", first, "ms"),
    ]


def _rounds(site: Site, happen: Callable[[], object]) -> list[Tick]:
    """Let something happen and take the tick that sees it; then let the world come to rest."""
    taken = []
    for _ in range(ROUNDS):
        happen()
        taken.append(site.tick())
        site.settle()
    return taken


def _figure(what: str, ticks: list[Tick], note: str = "") -> Figure:
    middle = sorted(ticks, key=lambda tick: tick.ms)[len(ticks) // 2]
    value, cpu = median([tick.ms for tick in ticks]), median([tick.cpu_ms for tick in ticks])
    text = f"{note + '; ' if note else ''}of which {cpu:.0f} ms of its core; {middle.steps()}"
    return Figure(what, value, "ms", at_most=TARGET_MS, note=text)
