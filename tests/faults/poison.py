"""I11: one job that the scheduler fails at delays nobody else by more than 10 s, and nobody else is held for it.

A poisoned seed has one such job: wherever a function handles it, an error is raised, or the daemon dies of it; or its
numbers are at the edges of floats.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler import bounds
from scheduler.engine import deciding
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.store.engine_side import commit
from tests.faults.features.parts import Of
from tests.faults.plan import Arrival, Scenario
from tests.invariants.broken import hold
from tests.poison import POINTS, Killed, Poison, poisoned

if TYPE_CHECKING:
    from tests.faults.daemon import Daemon
    from tests.faults.run import Run

DELAY_SECONDS_MAX = 10.0
#: At the edges of what is taken.
SPEEDS = (bounds.SPEED.low, 1e-6, 1e12, bounds.SPEED.high)
SECONDS = (bounds.DURATION.low, 1e-3, 1e8, bounds.DURATION.high)


@dataclass(frozen=True, slots=True)
class Poisoning:
    """Which job it is, by its name, and what happens to whoever handles it at this point of the code."""

    name: str
    point: int
    deadly: bool


def poison(of: Of, scenario: Scenario) -> Scenario:
    """One of the jobs is poison."""
    r = of("poison")
    number, point = r.randrange(len(scenario.arrivals)), r.randrange(len(POINTS))
    # The world is loaded and rows are written by the daemon's own process, also for a rehearsal.
    apart = POINTS[point][0] not in (commit, deciding)
    arrivals = list(scenario.arrivals)
    arrivals[number] = _at_the_edges(r, arrivals[number])
    poisoning = Poisoning(arrivals[number].spec.name, point, deadly=apart and r.random() < 0.3)
    return replace(scenario, arrivals=tuple(arrivals), poison=poisoning)


def _at_the_edges(r: random.Random, arrival: Arrival) -> Arrival:
    """Declared speeds and an expected end that no job has."""
    speedup = tuple((workers, r.choice(SPEEDS)) for workers in sorted(r.sample(range(1, 300), r.randint(1, 3))))
    spec = arrival.spec if arrival.spec.speedup else replace(arrival.spec, speedup=speedup)
    return replace(arrival, spec=replace(spec, expected_seconds=r.choice((None, *SECONDS))))


class PoisonWatch:
    """Lets the poison work in a run, and sees to it that nobody else suffers."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._poison = run.scenario.poison
        #: Since when every tick of who leads has failed; None: the last one did not.
        self._failing_since: float | None = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Poison, where the seed has any."""
        if self._poison is None:
            yield
            return

        def harm() -> None:
            raise Killed if self._poison is not None and self._poison.deadly else Poison("poison")

        with poisoned(self._is_poison, POINTS[self._poison.point], harm):
            yield

    def end(self) -> None:
        """Users cancel what is poison, which always works."""
        for job_id in filter(self._is_poison, self._run.submitted):
            self._run.ask(IntentKind.CANCEL, job_id=job_id)

    def after_tick(self, daemon: "Daemon", *, disturbed: bool) -> None:
        """`disturbed`: something else befell the daemon, which may take its time."""
        if self._poison is None:
            return
        now, world = self._run.clock.now(), daemon.engine.world
        for job_id in world.held if world is not None else ():
            hold(self._is_poison(job_id), "I11", f"job {job_id} is held for nothing")
        if disturbed or not daemon.harmed:
            self._failing_since = None
            return
        since = self._failing_since = now if self._failing_since is None else self._failing_since
        hold(now - since <= DELAY_SECONDS_MAX, "I11", f"ticks fail for {now - since:g} s")

    def left_out(self, daemon: "Daemon") -> list[JobId]:
        """What a daemon cannot load, until it is held by whoever leads."""
        jobs = [job.id for job, _ in daemon.engine._follower.unloaded]
        hold(all(map(self._is_poison, jobs)), "I11", f"one of the jobs {jobs} is left out for nothing")
        return jobs

    def _is_poison(self, job_id: JobId) -> bool:
        if self._poison is None or job_id not in self._run.submitted:
            return False
        position = self._run.submitted.index(job_id)
        return self._run.scenario.arrivals[position].spec.name == self._poison.name
