"""What all features draw with: randomness by part, and changes to the jobs, nodes and faults of a scenario."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from scheduler.model.job import JobSpec
from scheduler.model.observation import NodeObservation
from tests.faults.kinds import Fault
from tests.faults.plan import CHAOS_SECONDS, Arrival, Scenario

#: Randomness of one part of one feature of a seed.
Of = Callable[[str], random.Random]
#: Draws its part into the scenario.
Feature = Callable[[Of, Scenario], Scenario]
#: How many faults of one kind a scenario has that has them at all.
COUNTS = (1, 1, 2, 2, 3, 6)


def faults(make: Callable[[random.Random], Fault]) -> Feature:
    """A feature of a few faults of one kind, at any time."""

    def add(of: Of, scenario: Scenario) -> Scenario:
        return with_faults(scenario, *(at_any_time(r, make(r)) for r in some(of, "fault")))

    return add


def some(of: Of, part: str) -> Iterator[random.Random]:
    """Randomness for each of a few things."""
    return (of(f"{part} {number}") for number in range(of(f"{part} count").choice(COUNTS)))


def at_any_time(r: random.Random, fault: Fault) -> tuple[float, Fault]:
    return round(r.uniform(0.0, CHAOS_SECONDS), 2), fault


def with_faults(scenario: Scenario, *timed: tuple[float, Fault]) -> Scenario:
    return replace(scenario, faults=(*scenario.faults, *timed))


def each_job(of: Of, scenario: Scenario, change: Callable[[random.Random, Arrival], Arrival]) -> Scenario:
    """Every job as `change` makes it."""
    arrivals = (change(of(f"job {number}"), arrival) for number, arrival in enumerate(scenario.arrivals))
    return replace(scenario, arrivals=tuple(arrivals))


def each_node(
    of: Of, scenario: Scenario, change: Callable[[random.Random, NodeObservation], NodeObservation]
) -> Scenario:
    """Every node as `change` makes it."""
    return replace(scenario, nodes=tuple(change(of(f"node {node.name}"), node) for node in scenario.nodes))


def with_spec(arrival: Arrival, **fields: object) -> Arrival:
    """The arrival with some fields of its job's spec replaced."""
    spec: JobSpec = replace(arrival.spec, **fields)  # type: ignore[arg-type]
    return replace(arrival, spec=spec)
