"""Draws the plan of a seed.

Each part is drawn from randomness of its own, so that drawing one more thing leaves the others of a seed as they were.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from scheduler.clusters.simulated import Fault as CallFault
from scheduler.clusters.simulated_process import Behaviour
from scheduler.config import EngineSettings, PolicySettings
from scheduler.engine.tick import Step
from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.observation import NodeObservation, SlotLoad
from scheduler.model.shape import WorkerShape
from scheduler.policy.published.rules import RULES
from tests.faults.plan import (
    CHAOS_SECONDS,
    Arrival,
    AskJob,
    AskNode,
    Book,
    ChangeSlots,
    CrashWorker,
    DelayReports,
    Die,
    FailCalls,
    FailObservations,
    FailStore,
    Fault,
    Freeze,
    HangWorker,
    LoseNode,
    RepeatEnds,
    Scenario,
    SeeLate,
    Stop,
    SubmitAgain,
    Unbook,
)
from tests.faults.wider import widen

#: Seeds from here on draw more of the world; those before play what they always played.
WIDER_FROM = 300_000
FAILING_CODES = (1, 134, 137, 139, 143)
EXIT_CODES = (0, 64, 65, *FAILING_CODES)
#: Seeds from here on draw fixed groups, too; those before play what they played when they were named.
FIXED_FROM = 400_000
BOOKINGS = ("spring", "summer")
STORE_METHODS = ("acquire_lease", "renew_lease", "load_world", "take_inbox", "commit", "commit", "commit")


def draw(seed: int) -> Scenario:
    """The plan of this seed: always the same one."""
    scenario = _draw(seed)
    return scenario if seed < WIDER_FROM else widen(scenario)


def _draw(seed: int) -> Scenario:
    def of(part: str) -> random.Random:
        return random.Random(f"{seed} {part}")

    r = of("sizes")
    nodes = tuple(_node(of(f"node {number}"), number) for number in range(r.randint(1, 6)))
    arrivals = [_arrival(of(f"job {number}"), number, nodes) for number in range(r.randint(2, 9))]
    if of("oversell").random() < 0.4:
        nodes = tuple(_oversold(of(f"oversell {node.name}"), node) for node in nodes)
        arrivals = [_sharing(of(f"sharing {number}"), arrival) for number, arrival in enumerate(arrivals)]
    weights = _weights(of("weights"))
    faults = [_timed(of(f"fault {number}"), weights) for number in range(r.randint(0, 24))]
    if of("bookings").random() < 0.4:
        faults += (_book(of(f"booking {number}")) for number in range(of("bookings").randint(1, 4)))
        arrivals = [_booked(of(f"booked {number}"), arrival) for number, arrival in enumerate(arrivals)]
    if of("upkeep").random() < 0.4:
        faults += (_upkeep(of(f"upkeep {number}")) for number in range(of("upkeep").randint(1, 4)))
    if of("reads").random() < 0.4:
        faults += (_fail_following(of(f"read {number}")) for number in range(of("reads").randint(1, 4)))
    policy = _policy(of("policy"))
    if of("published").random() < 0.2:
        policy = policy.model_copy(update={"name": of("published policy").choice(sorted(RULES))})
    if of("estimates").random() < 0.4:
        arrivals = [_estimated(of(f"estimate {number}"), arrival) for number, arrival in enumerate(arrivals)]
    if seed >= FIXED_FROM and of("fixed").random() < 0.5:
        arrivals = [_with_fixed(of(f"fixed {number}"), arrival, nodes) for number, arrival in enumerate(arrivals)]
    return Scenario(
        seed=seed,
        policy=policy,
        engine=_engine(of("engine")),
        nodes=nodes,
        arrivals=tuple(sorted(arrivals, key=lambda arrival: arrival.at)),
        faults=tuple(sorted(faults, key=lambda timed: timed[0])),
        replicas=1 + (of("replicas").choice([1, 1, 2]) if r.random() < 0.5 else 0),
        uncordon=r.random() < 0.6,
        resume=r.random() < 0.6,
    )


def _policy(r: random.Random) -> PolicySettings:
    return PolicySettings(
        aging_per_hour=r.choice([0.0, 0.0, 60.0, 600.0]),
        aging_ceilings=r.choice([(), (5,)]),
        grow_cooldown_seconds=r.choice([0.0, 2.0]),
    )


def _engine(r: random.Random) -> EngineSettings:
    return EngineSettings(
        tick_interval_seconds=r.choice([1.0, 2.0, 3.0]),
        lease_seconds=r.choice([5.0, 10.0]),
        backoff_seconds=r.choice([0.2, 1.0]),
        failure_reset_seconds=1e6,
        ready_seconds=r.choice([15.0, 60.0]),
        progress_interval_seconds=10.0,
        quarantine_seconds=10.0,
        quarantine_max_seconds=40.0,
    )


def _node(r: random.Random, number: int) -> NodeObservation:
    slots = r.randint(1, 8)
    accounts = r.random() < 0.4
    return NodeObservation(
        NodeName(f"n{number}"),
        f"10.0.0.{number + 1}",
        slots,
        cpus=float(slots * r.choice([2, 4])) if accounts else 0.0,
        memory_mib=slots * r.choice([100, 200]) if accounts else 0,
        labels=r.choice([(), (), (("zone", "a"),), (("zone", "b"),)]),
        gpu_type=r.choice([None, None, "h100", "l4"]),
    )


def _arrival(r: random.Random, number: int, nodes: tuple[NodeObservation, ...]) -> Arrival:
    runtime = r.choice([Runtime.ELASTIC, Runtime.ELASTIC, Runtime.COMMAND])
    low = r.choice([1, 1, 1, 2, 3, 4])
    spec = JobSpec(
        name=f"job{number}",
        command=("train",),
        runtime=runtime,
        priority=r.randint(0, 9),
        min_workers=low,
        max_workers=low if r.random() < 0.3 else low + r.randint(1, 6),
        shape=_shape(r, nodes),
        time_limit_seconds=r.choice([None, None, None, 20.0, 60.0]),
        max_retries=r.choice([0, 1, 3]),
        grace_seconds=r.choice([0.0, 2.0, 6.0]),
        heartbeat_seconds=r.choice([None, 8.0, 15.0]) if runtime is Runtime.ELASTIC else None,
        preemptible=r.random() < 0.85,
        client_key=f"key{number}",
    )
    at = 0.0 if r.random() < 0.3 else r.uniform(0.0, CHAOS_SECONDS)
    return Arrival(round(at, 2), spec, _behaviour(r, runtime))


def _shape(r: random.Random, nodes: tuple[NodeObservation, ...]) -> WorkerShape:
    accounts = r.random() < 0.2
    model = r.choice(nodes)
    return WorkerShape(
        slots=r.choice([1, 1, 1, 2, 3]),
        cpus=r.choice([0.5, 1.0, 3.0]) if accounts else 0.0,
        memory_mib=r.choice([50, 120]) if accounts else 0,
        node_selector=model.labels if r.random() < 0.2 else (),
        gpu_type=model.gpu_type if r.random() < 0.2 else None,
    )


def _oversold(r: random.Random, node: NodeObservation) -> NodeObservation:
    return replace(node, oversell=r.choice([1.0, 1.5, 2.0, 3.0]))


def _sharing(r: random.Random, arrival: Arrival) -> Arrival:
    """The same job, which may accept shared slots and then loads what it shares."""
    shape = replace(arrival.spec.shape, oversell=r.random() < 0.5)
    load = SlotLoad(r.choice([0.2, 0.4, 0.7]), 0.5)
    behaviour = replace(arrival.behaviour, load=load, shared_speed=r.choice([0.5, 1.0]))
    return replace(arrival, spec=replace(arrival.spec, shape=shape), behaviour=behaviour)


def _book(r: random.Random) -> tuple[float, Fault]:
    at, name = round(r.uniform(0.0, CHAOS_SECONDS / 2), 2), r.choice(BOOKINGS)
    if r.random() < 0.25:
        return at, Unbook(name)
    return at, Book(name, r.choice([0.0, 5.0, 20.0]), r.choice([10.0, 40.0]), r.randint(1, 4), r.choice([1, 1, 2]))


def _upkeep(r: random.Random) -> tuple[float, Fault]:
    """What operators do to machines and to the daemon."""
    at = round(r.uniform(0.0, CHAOS_SECONDS), 2)
    if r.random() < 0.5:
        return at, Stop(r.choice([0.0, 2.0, 15.0]))
    return at, ChangeSlots(r.random(), r.randint(1, 8))


def _booked(r: random.Random, arrival: Arrival) -> Arrival:
    booking = r.choice(BOOKINGS) if r.random() < 0.4 else None
    return replace(arrival, spec=replace(arrival.spec, booking=booking))


def _estimated(r: random.Random, arrival: Arrival) -> Arrival:
    """What users believe of the job, true or not."""
    spec = arrival.spec
    return replace(
        arrival,
        spec=replace(
            spec,
            expected_seconds=r.choice([None, 5.0, 60.0, 1000.0]),
            preferred_workers=r.choice([None, r.randint(spec.min_workers, spec.max_workers)]),
            speedup=r.choice([(), ((1, 1.0), (4, 2.0)), ((1, 1.0), (8, 8.0))]),
        ),
    )


def _with_fixed(r: random.Random, arrival: Arrival, nodes: tuple[NodeObservation, ...]) -> Arrival:
    """The same job, which may have a fixed group: then it shares no slots and belongs to no booking."""
    if r.random() < 0.5:
        return arrival
    accounts = r.random() < 0.2
    group = FixedGroup(
        replicas=r.choice([1, 1, 2, 3]),
        command=("serve",),
        shape=WorkerShape(
            slots=r.choice([0, 0, 1, 2]),
            cpus=r.choice([0.5, 1.0]) if accounts else 0.0,
            memory_mib=r.choice([0, 60]) if accounts else 0,
            node_selector=r.choice(nodes).labels if r.random() < 0.2 else (),
        ),
    )
    spec = replace(arrival.spec, fixed=group, booking=None, shape=replace(arrival.spec.shape, oversell=False))
    return replace(arrival, spec=spec)


def _behaviour(r: random.Random, runtime: Runtime) -> Behaviour:
    fails = r.random() < 0.1
    return Behaviour(
        runtime=runtime,
        launch_seconds=r.choice([0.01, 0.3, 2.0]),
        ready_seconds=r.choice([0.1, 1.0, 5.0]),
        form_seconds=r.choice([0.1, 1.0]),
        heartbeat_seconds=r.choice([1.0, 2.0]),
        leave_seconds=r.choice([0.05, 0.5, 3.0, None]),
        work_seconds=float(r.choice([2, 10, 40, 120])),
        crash_after_seconds=r.choice([0.5, 6.0]) if fails else None,
        crash_code=r.choice(FAILING_CODES),
    )


def _weights(r: random.Random) -> list[float]:
    """Each seed has its own mixture: some kinds often, others never."""
    weights = [float(r.choice([0, 1, 1, 3, 8])) for _ in _DRAWN]
    return weights if any(weights) else [1.0] * len(weights)


def _timed(r: random.Random, weights: list[float]) -> tuple[float, Fault]:
    at = round(r.uniform(0.0, CHAOS_SECONDS), 2)
    (make,) = r.choices(_DRAWN, weights)
    return at, make(r)


def _lose_node(r: random.Random) -> Fault:
    return LoseNode(r.random(), r.choice([0.1, 2.0, 10.0, 30.0]), rebooted=r.random() < 0.4, listed=r.random() < 0.7)


def _fail_calls(r: random.Random) -> Fault:
    return FailCalls(tuple(r.choices([None, *CallFault], k=r.randint(1, 6))))


def _fail_store(r: random.Random) -> Fault:
    method = r.choice(STORE_METHODS)
    reads = method in ("load_world", "take_inbox")
    return FailStore(method, r.choice([1, 1, 2, 4]), written=not reads and r.random() < 0.6)


def _fail_following(r: random.Random) -> tuple[float, Fault]:
    """Who leads, or what was committed, cannot be read for a while."""
    return round(r.uniform(0.0, CHAOS_SECONDS), 2), FailStore(
        r.choice(("read_lease", "load_news")), r.choice([1, 2, 8]), written=False
    )


def _ask_job(r: random.Random) -> Fault:
    kind = r.choice(
        [
            IntentKind.CANCEL,
            IntentKind.SUSPEND,
            IntentKind.SUSPEND,
            IntentKind.RESUME,
            IntentKind.RESUME,
            IntentKind.PRIORITY,
            IntentKind.PRIORITY,
            IntentKind.SCALE,
            IntentKind.SCALE,
        ]
    )
    pick = r.random()
    if kind is IntentKind.PRIORITY:
        return AskJob(pick, kind, priority=r.randint(0, 9))
    if kind is IntentKind.SCALE:
        low = r.choice([None, 1, 2, 4])
        high = r.choice([None, 1, 3, 8])
        return AskJob(pick, kind, min_workers=low, max_workers=8 if low is None and high is None else high)
    return AskJob(pick, kind)


def _ask_node(r: random.Random) -> Fault:
    kinds = [IntentKind.CORDON, IntentKind.DRAIN, IntentKind.UNCORDON, IntentKind.UNCORDON]
    return AskNode(r.random(), r.choice(kinds))


def _step(r: random.Random) -> Step:
    return r.choice(list(Step))


_DRAWN: tuple[Callable[[random.Random], Fault], ...] = (
    lambda r: CrashWorker(r.random(), r.choice(EXIT_CODES)),
    lambda r: HangWorker(r.random()),
    _lose_node,
    lambda r: SeeLate(r.random(), r.choice([0.0, 0.3, 2.0])),
    lambda r: RepeatEnds(r.random() < 0.7),
    lambda r: DelayReports(r.choice([0.0, 0.5, 3.0]), r.choice([0.0, 0.5])),
    _fail_calls,
    lambda r: FailObservations(r.choice([1, 3])),
    _fail_store,
    lambda r: Die(_step(r), r.choice([0.0, 1.0, 20.0])),
    lambda r: Freeze(_step(r), r.choice([0.5, 4.0, 12.0, 25.0])),
    _ask_job,
    _ask_node,
    lambda r: SubmitAgain(r.random()),
)
