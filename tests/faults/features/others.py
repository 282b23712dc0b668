"""Processes of others beside the workers, on clusters that give up who finds no room, and that are often full."""

import random
from dataclasses import replace

from scheduler.model.observation import NodeObservation
from scheduler.model.shape import WorkerShape
from tests.faults.features.parts import Of, at_any_time, each_job, some, with_faults
from tests.faults.kinds import Come, CrashWorker, Fault, Go, HoldUp, TakeRoom
from tests.faults.plan import Scenario


def others(of: Of, scenario: Scenario) -> Scenario:
    """Not where slots are oversold."""
    if any(node.oversell > 1 for node in scenario.nodes):
        return scenario
    come = (_come(of(f"other {n}"), f"other{n}", scenario.nodes) for n in range(of("count").randint(1, 8)))
    faults = [at_any_time(of(f"other at {n}"), each) for n, each in enumerate(come)]
    faults += (at_any_time(r, _go_on(r)) for r in some(of, "go on"))
    faults += (at_any_time(r, CrashWorker(r.random(), r.choice([1, 65]))) for r in some(of, "crash"))
    scenario = each_job(
        of,
        scenario,
        lambda r, job: replace(job, behaviour=replace(job.behaviour, stuck_seconds=r.choice([4.0, 15.0]))),
    )
    return replace(with_faults(scenario, *faults), others_leave=of("leave").random() < 0.5)


def _come(r: random.Random, name: str, nodes: tuple[NodeObservation, ...]) -> Come:
    accounts, model = r.random() < 0.2, r.choice(nodes)
    shape = WorkerShape(
        slots=r.choice([0, 1, 2]) if accounts else r.choice([1, 1, 1, 2, 3]),
        cpus=r.choice([0.5, 2.0, 4.0]) if accounts else 0.0,
        memory_mib=r.choice([50, 120, 300]) if accounts else 0,
        node_selector=model.labels if r.random() < 0.2 else (),
    )
    some_nodes = frozenset(node.name for node in nodes if r.random() < 0.5 or node is model)
    return Come(name, shape, heard=r.random() < 0.75, nodes=some_nodes if r.random() < 0.3 else None)


def _go_on(r: random.Random) -> Fault:
    return r.choice([Go(r.random()), Go(r.random()), TakeRoom(), HoldUp(r.random() < 0.5)])
