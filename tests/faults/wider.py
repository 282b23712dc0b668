"""More of the world, drawn on top of a plan: nodes that change, others beside the workers, clocks, settings.

Each part is drawn from randomness of its own, as in `draw`; a seed has only some of them.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from scheduler.clusters.simulated_process import Behaviour
from scheduler.config import EngineSettings, PolicyName, PolicySettings
from scheduler.engine.tick import Step
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.observation import NodeObservation
from scheduler.model.shape import WorkerShape
from scheduler.policy.published.rules import RULES
from scheduler.simulate.speed import Amdahl
from scheduler.simulate.work import CurveWork
from tests.faults.plan import (
    CHAOS_SECONDS,
    Arrival,
    Book,
    ChangeNode,
    Come,
    CrashWorker,
    Fault,
    Freeze,
    Go,
    HoldUp,
    Jump,
    LoseNode,
    Reconfigure,
    ScaleResizing,
    Scenario,
    Suspend,
    TakeRoom,
)

LABELS = ((), (("zone", "a"),), (("zone", "b"),), (("disk", "fast"), ("zone", "a")))
JUMPS_SECONDS = (-600.0, -30.0, -4.0, -0.5, 0.5, 4.0, 30.0, 600.0)
GPU_TYPES = (None, "h100", "l4")
POLICIES: tuple[PolicyName, ...] = ("elastic",) * 8 + tuple(sorted(RULES))

#: Randomness of one part of a seed.
Of = Callable[[str], random.Random]
_T = TypeVar("_T")


def widen(scenario: Scenario) -> Scenario:
    """The same plan with more in it."""

    def of(part: str) -> random.Random:
        return random.Random(f"{scenario.seed} wider {part}")

    scenario = _with_settings(of, scenario)
    scenario = _with_clocks(of, scenario)
    if all(node.oversell == 1 for node in scenario.nodes) and of("others").random() < 0.6:
        scenario = _with_others(of, scenario)
    if of("speeds").random() < 0.3:
        arrivals = tuple(_measured(r, arrival) for r, arrival in _each(of, "speed", scenario.arrivals))
        scenario = replace(scenario, arrivals=arrivals)
    shapes = (_shaped(r, fault, scenario.nodes) for r, fault in _each(of, "shape", [f for _, f in scenario.faults]))
    faults = [(at, fault) for (at, _), fault in zip(scenario.faults, shapes, strict=True)]
    faults += (_at(r, _change_node(r)) for r in _some(of, "nodes", 0.3))
    faults += (_at(r, _scale(r)) for r in _some(of, "scale", 0.4))
    return replace(scenario, faults=tuple(sorted(faults, key=lambda timed: timed[0])))


def _some(of: Of, part: str, share: float) -> Iterator[random.Random]:
    """Randomness for each of a few things, in this share of all seeds."""
    if of(part).random() < share:
        for number in range(of(f"{part} count").randint(1, 6)):
            yield of(f"{part} {number}")


def _each(of: Of, part: str, things: Iterable[_T]) -> Iterator[tuple[random.Random, _T]]:
    return ((of(f"{part} {number}"), thing) for number, thing in enumerate(things))


def _at(r: random.Random, fault: Fault) -> tuple[float, Fault]:
    return round(r.uniform(0.0, CHAOS_SECONDS), 2), fault


def _with_settings(of: Of, scenario: Scenario) -> Scenario:
    """Other settings, and some that change while the daemon is down."""
    policy, engine = scenario.policy, scenario.engine
    if of("settings").random() < 0.5:
        policy, engine = _policy(of("policy"), policy), _engine(of("engine"), engine)
    faults = (_at(r, _reconfigure(r, policy, engine)) for r in _some(of, "reconfigure", 0.25))
    return replace(scenario, policy=policy, engine=engine, faults=(*scenario.faults, *faults))


def _policy(r: random.Random, before: PolicySettings) -> PolicySettings:
    return before.model_copy(
        update={
            "share": r.random() < 0.6,
            "share_margin": r.choice([0.0, 2.0]),
            "share_interval_seconds": r.choice([1.0, 5.0, 60.0]),
            "service_class_slot_seconds": r.choice([5.0, 100.0, 28800.0]),
            "grow_cooldown_seconds": r.choice([0.0, 2.0, 10.0]),
            "grow_cooldown_factor": r.choice([0.0, 2.0]),
            "grow_payback_factor": r.choice([0.0, 2.0, 48.0]),
            "near_end_seconds": r.choice([0.0, 5.0]),
            "booking_lead_seconds": r.choice([0.0, 5.0, 20.0]),
            "booking_idle_seconds": r.choice([0.0, 10.0, 60.0]),
            "demand_patience_seconds": r.choice([0.0, 5.0, 60.0]),
            "measured_gain": r.random() < 0.7,
            "unmeasured_workers": r.choice([1, 4]),
            "measure_seconds": r.choice([0.0, 10.0]),
            "rebalance_seconds": r.choice([0.0, 5.0, 30.0]),
            "tiresias_slot_seconds": r.choice([10.0, 100.0]),
            "oversell_memory_max": r.choice([None, 0.9]),
            "oversell_cooldown_seconds": r.choice([0.0, 10.0]),
        }
    )


def _engine(r: random.Random, before: EngineSettings) -> EngineSettings:
    return before.model_copy(
        update={
            "tick_interval_seconds": r.choice([1.0, 3.0]),
            "tick_gap_seconds": r.choice([0.01, 0.5]),
            "lease_seconds": r.choice([5.0, 10.0]),
            "join_wait_seconds": r.choice([0.0, 2.0, 6.0]),
            "quarantine_failures": r.choice([2, 4]),
            "progress_interval_seconds": r.choice([0.0, 2.0, 10.0]),
        }
    )


def _reconfigure(r: random.Random, policy: PolicySettings, engine: EngineSettings) -> Reconfigure:
    changed = _policy(r, policy).model_copy(update={"name": r.choice(POLICIES)})
    return Reconfigure(r.choice([0.0, 2.0, 15.0]), changed, _engine(r, engine))


def _with_clocks(of: Of, scenario: Scenario) -> Scenario:
    """Machines that differ in their time, or that sleep: one of both, for nobody promises anything for both at once."""
    kind = of("clocks").choice(["true", "ahead", "asleep"])
    if kind == "ahead":
        ahead = tuple(round(of(f"ahead {n}").uniform(-3.0, 3.0), 2) for n in range(scenario.replicas))
        jumps = [_at(r, Jump(r.random(), r.choice(JUMPS_SECONDS))) for r in _some(of, "jump", 0.7)]
        for r in _some(of, "set back", 0.3):
            at, freeze = _at(r, Freeze(r.choice(list(Step)), 25.0))
            jumps += [(at, freeze), (at + 5.0, Jump(r.random(), -30.0))]
        return replace(scenario, ahead_seconds=ahead, faults=(*scenario.faults, *jumps))
    if kind == "asleep":
        naps = (_at(r, Suspend(r.choice(list(Step)), r.choice([2.0, 12.0, 25.0]))) for r in _some(of, "nap", 0.7))
        return replace(scenario, faults=(*scenario.faults, *naps))
    return scenario


def _with_others(of: Of, scenario: Scenario) -> Scenario:
    """Processes of others beside the workers, on clusters that give up who finds no room, and that are often full."""
    count = of("others count").randint(1, 8)
    faults = [_at(of(f"other {n}"), _come(of(f"other {n} is"), f"other{n}", scenario.nodes)) for n in range(count)]
    faults += (_at(r, _go_on(r)) for r in _some(of, "others go on", 0.8))
    faults += (_at(r, CrashWorker(r.random(), r.choice([1, 65]))) for r in _some(of, "crash", 0.5))
    arrivals = list(scenario.arrivals)
    if of("filler").random() < 0.6:
        arrivals.insert(0, _filler(of("filler is")))
    stuck = (replace(a.behaviour, stuck_seconds=r.choice([4.0, 15.0])) for r, a in _each(of, "stuck", arrivals))
    return replace(
        scenario,
        arrivals=tuple(replace(a, behaviour=b) for a, b in zip(arrivals, stuck, strict=True)),
        faults=(*scenario.faults, *faults),
        others_leave=of("leave").random() < 0.5,
    )


def _filler(r: random.Random) -> Arrival:
    """A job that fills whatever there is, for long."""
    spec = JobSpec(
        name="filler",
        command=("train",),
        runtime=Runtime.ELASTIC,
        priority=r.randint(0, 9),
        max_workers=40,
        grace_seconds=r.choice([0.0, 2.0, 6.0]),
        client_key="filler",
    )
    leave_seconds = r.choice([0.05, 3.0, None])
    return Arrival(0.0, spec, Behaviour(Runtime.ELASTIC, leave_seconds=leave_seconds, work_seconds=1000.0))


def _come(r: random.Random, name: str, nodes: tuple[NodeObservation, ...]) -> Come:
    accounts, model = r.random() < 0.2, r.choice(nodes)
    shape = WorkerShape(
        slots=r.choice([1, 1, 1, 2, 3]),
        cpus=r.choice([0.5, 2.0, 4.0]) if accounts else 0.0,
        memory_mib=r.choice([50, 120, 300]) if accounts else 0,
        node_selector=model.labels if r.random() < 0.2 else (),
    )
    some = frozenset(node.name for node in nodes if r.random() < 0.5 or node is model)
    return Come(name, shape, heard=r.random() < 0.75, nodes=some if r.random() < 0.3 else None)


def _go_on(r: random.Random) -> Fault:
    return r.choice([Go(r.random()), Go(r.random()), TakeRoom(), HoldUp(r.random() < 0.5)])


def _measured(r: random.Random, arrival: Arrival) -> Arrival:
    """Workers that report how fast they are and how far they have got."""
    seconds = arrival.behaviour.work_seconds
    work = CurveWork(seconds or 10.0, Amdahl(r.choice([0.0, 0.1, 0.5])))
    return replace(arrival, behaviour=replace(arrival.behaviour, work=work, tells_fraction=r.random() < 0.5))


def _shaped(r: random.Random, fault: Fault, nodes: tuple[NodeObservation, ...]) -> Fault:
    """Bookings of certain nodes or for important jobs; lost nodes whose workers the cluster still names."""
    if isinstance(fault, LoseNode):
        return replace(fault, remembered=r.random() < 0.3)
    if isinstance(fault, Book):
        model = r.choice(nodes)
        labels = model.labels if r.random() < 0.4 else ()
        gpu_type = model.gpu_type if r.random() < 0.4 else None
        return replace(fault, node_selector=labels, gpu_type=gpu_type, priority_min=r.choice([None, None, 5]))
    return fault


def _change_node(r: random.Random) -> ChangeNode:
    facts: dict[str, object] = {
        "labels": r.choice(LABELS),
        "gpu_type": r.choice(GPU_TYPES),
        "cpus": r.choice([0.0, 4.0, 16.0]),
        "memory_mib": r.choice([0, 200, 1600]),
        "closed": r.choice(["", "", "the cluster lets nobody in"]),
        "host": f"10.0.1.{r.randint(1, 9)}",
    }
    return ChangeNode(r.random(), tuple((name, facts[name]) for name in r.sample(sorted(facts), r.randint(1, 3))))


def _scale(r: random.Random) -> ScaleResizing:
    low, high = r.choice([None, 1, 2, 4]), r.choice([None, 1, 3, 8])
    return ScaleResizing(r.random(), low, 8 if low is None and high is None else high)
