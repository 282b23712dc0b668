"""Features of jobs, and of the nodes that they need."""

import random
from dataclasses import replace

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.data import DataSet
from scheduler.model.fixed import FixedGroup
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.observation import NodeObservation, SlotLoad
from scheduler.model.shape import WorkerShape
from scheduler.simulate.speed import Amdahl, Measured
from scheduler.simulate.work import CurveWork
from tests.faults.features.parts import Of, each_job, each_node, with_spec
from tests.faults.plan import CHAOS_SECONDS, Arrival, Scenario

LABELS = ((), (), (("zone", "a"),), (("zone", "b"),), (("disk", "fast"), ("zone", "a")))
GPU_TYPES = (None, None, "h100", "l4")
SLOWER_WITH_MANY = Measured(((1, 1.0), (2, 1.6), (4, 1.1), (8, 0.8)))
FAILING_CODES = (1, 134, 137, 139, 143)


def elastic(of: Of, scenario: Scenario) -> Scenario:
    """Jobs have more than one size."""

    def widen(r: random.Random, arrival: Arrival) -> Arrival:
        low = arrival.spec.min_workers
        return with_spec(arrival, max_workers=low if r.random() < 0.3 else low + r.randint(1, 6))

    return each_job(of, scenario, widen)


def runtimes(of: Of, scenario: Scenario) -> Scenario:
    """Plain commands, and scripts under torchrun, beside those that use the library."""

    def run(r: random.Random, arrival: Arrival) -> Arrival:
        runtime = r.choice([Runtime.ELASTIC, Runtime.COMMAND, Runtime.COMMAND, Runtime.TORCHRUN])
        return replace(with_spec(arrival, runtime=runtime), behaviour=replace(arrival.behaviour, runtime=runtime))

    return each_job(of, scenario, run)


def heartbeats(of: Of, scenario: Scenario) -> Scenario:
    """The silence of workers is noticed."""

    def watch(r: random.Random, arrival: Arrival) -> Arrival:
        watched = arrival.spec.runtime is Runtime.ELASTIC and r.random() < 0.7
        return with_spec(arrival, heartbeat_seconds=r.choice([8.0, 15.0]) if watched else r.choice([None, 0.0]))

    engine = scenario.engine.model_copy(update={"heartbeat_seconds": of("default").choice([0.0, 10.0, 600.0])})
    return each_job(of, replace(scenario, engine=engine), watch)


def not_preemptible(of: Of, scenario: Scenario) -> Scenario:
    return each_job(of, scenario, lambda r, arrival: with_spec(arrival, preemptible=r.random() < 0.6))


def surplus_preemptible(of: Of, scenario: Scenario) -> Scenario:
    """Of some jobs, only what they hold beyond their minimum is preemptible."""

    def keep(r: random.Random, arrival: Arrival) -> Arrival:
        return with_spec(arrival, preemptible=False, surplus_preemptible=True) if r.random() < 0.5 else arrival

    return each_job(of, scenario, keep)


def time_limits(of: Of, scenario: Scenario) -> Scenario:
    return each_job(of, scenario, lambda r, job: with_spec(job, time_limit_seconds=r.choice([None, None, 20.0, 60.0])))


def failing(of: Of, scenario: Scenario) -> Scenario:
    """The workers of some jobs fail by themselves, each time."""

    def fail(r: random.Random, arrival: Arrival) -> Arrival:
        if r.random() < 0.6:
            return arrival
        after_seconds, code = r.choice([0.5, 6.0]), r.choice(FAILING_CODES)
        return replace(
            arrival, behaviour=replace(arrival.behaviour, crash_after_seconds=after_seconds, crash_code=code)
        )

    return each_job(of, scenario, fail)


def without_program(of: Of, scenario: Scenario) -> Scenario:
    """Some jobs name a program that no node has."""

    def misname(r: random.Random, arrival: Arrival) -> Arrival:
        return replace(arrival, behaviour=replace(arrival.behaviour, cannot_start=r.random() < 0.4))

    return each_job(of, scenario, misname)


def kinds_of_nodes(of: Of, scenario: Scenario) -> Scenario:
    """Nodes differ in labels and GPU types, and some jobs need certain ones."""

    def differ(r: random.Random, node: NodeObservation) -> NodeObservation:
        return replace(node, labels=r.choice(LABELS), gpu_type=r.choice(GPU_TYPES))

    scenario = each_node(of, scenario, differ)

    def need(r: random.Random, arrival: Arrival) -> Arrival:
        model = r.choice(scenario.nodes)
        selector = model.labels if r.random() < 0.3 else ()
        gpu_type = model.gpu_type if r.random() < 0.3 else None
        return with_spec(arrival, shape=replace(arrival.spec.shape, node_selector=selector, gpu_type=gpu_type))

    return each_job(of, scenario, need)


def cpus_and_memory(of: Of, scenario: Scenario) -> Scenario:
    """Some nodes count CPUs and memory, and some jobs need them."""

    def count(r: random.Random, node: NodeObservation) -> NodeObservation:
        if r.random() < 0.4:
            return node
        return replace(node, cpus=float(node.slots * r.choice([2, 4])), memory_mib=node.slots * r.choice([100, 200]))

    def need(r: random.Random, arrival: Arrival) -> Arrival:
        if r.random() < 0.6:
            return arrival
        cpus, memory_mib = r.choice([0.0, 0.5, 1.0, 3.0]), r.choice([0, 50, 120])
        return with_spec(arrival, shape=replace(arrival.spec.shape, cpus=cpus, memory_mib=memory_mib))

    return each_job(of, each_node(of, scenario, count), need)


def overselling(of: Of, scenario: Scenario) -> Scenario:
    """Slots are oversold to jobs that accept it, and these load what they share."""

    def share(r: random.Random, arrival: Arrival) -> Arrival:
        load = SlotLoad(r.choice([0.2, 0.4, 0.7]), 0.5)
        behaviour = replace(arrival.behaviour, load=load, shared_speed=r.choice([0.5, 1.0]))
        shape = replace(arrival.spec.shape, oversell=r.random() < 0.5)
        return replace(with_spec(arrival, shape=shape), behaviour=behaviour)

    scenario = each_node(of, scenario, lambda r, node: replace(node, oversell=r.choice([1.0, 1.5, 2.0, 3.0])))
    return each_job(of, scenario, share)


def estimates(of: Of, scenario: Scenario) -> Scenario:
    """What users believe of their jobs, true or not."""

    def estimate(r: random.Random, arrival: Arrival) -> Arrival:
        spec = arrival.spec
        return with_spec(
            arrival,
            expected_seconds=r.choice([None, 5.0, 60.0, 1000.0]),
            preferred_workers=r.choice([None, r.randint(spec.min_workers, spec.max_workers)]),
            speedup=r.choice([(), ((1, 1.0), (4, 2.0)), ((1, 1.0), (8, 8.0))]),
        )

    return each_job(of, scenario, estimate)


def speeds(of: Of, scenario: Scenario) -> Scenario:
    """Workers report how fast they are and how far they have got; some jobs are slower with many workers."""

    def measure(r: random.Random, arrival: Arrival) -> Arrival:
        curve = r.choice([Amdahl(0.0), Amdahl(0.1), Amdahl(0.5), SLOWER_WITH_MANY])
        work = CurveWork(arrival.behaviour.work_seconds or 10.0, curve)
        return replace(arrival, behaviour=replace(arrival.behaviour, work=work, tells_fraction=r.random() < 0.5))

    policy = scenario.policy.model_copy(update={"retry_seconds": of("retry").choice([2.0, 10.0, 120.0])})
    return each_job(of, replace(scenario, policy=policy), measure)


def fixed_groups(of: Of, scenario: Scenario) -> Scenario:
    """Some jobs have a fixed group: these share no slots and belong to no booking."""

    def group(r: random.Random) -> FixedGroup:
        accounts = r.random() < 0.2
        shape = WorkerShape(
            slots=r.choice([0, 0, 1, 2]),
            cpus=r.choice([0.5, 1.0]) if accounts else 0.0,
            memory_mib=r.choice([0, 60]) if accounts else 0,
            node_selector=r.choice(scenario.nodes).labels if r.random() < 0.2 else (),
        )
        return FixedGroup(replicas=r.choice([1, 1, 2, 3]), command=("serve",), shape=shape)

    def fix(r: random.Random, arrival: Arrival) -> Arrival:
        if r.random() < 0.5:
            return arrival
        return with_spec(arrival, fixed=group(r), booking=None, shape=replace(arrival.spec.shape, oversell=False))

    return each_job(of, scenario, fix)


def fixed_reports(of: Of, scenario: Scenario) -> Scenario:
    """Workers of some fixed groups report, and their silence is noticed."""

    def talk(r: random.Random, arrival: Arrival) -> Arrival:
        if arrival.spec.fixed is None or not arrival.spec.runtime.reports or r.random() < 0.3:
            return arrival
        behaviour = replace(arrival.behaviour, fixed_heartbeat_seconds=r.choice([1.0, 2.0]))
        return replace(with_spec(arrival, heartbeat_seconds=r.choice([8.0, 15.0])), behaviour=behaviour)

    return each_job(of, scenario, talk)


def data(of: Of, scenario: Scenario) -> Scenario:
    """Workers of some jobs read a data set in shards."""

    def declare(r: random.Random, arrival: Arrival) -> Arrival:
        if r.random() < 0.4:
            return arrival
        declared = DataSet(
            shards=r.choice([3, 20, 200]),
            epochs=r.choice([1, 1, 2]),
            shuffle=r.random() < 0.5,
            lease_seconds=r.choice([5.0, 15.0]),
            max_attempts=r.choice([1, 3]),
        )
        return with_spec(arrival, data=declared)

    return each_job(of, scenario, declare)


def filler(of: Of, scenario: Scenario) -> Scenario:
    """A job that fills whatever there is, for long."""
    r = of("filler")
    leave_seconds = r.choice([0.05, 3.0, None])
    behaviour = Behaviour(Runtime.ELASTIC, leave_seconds=leave_seconds, work_seconds=1000.0)
    spec = JobSpec(
        name="filler",
        command=("train",),
        runtime=Runtime.ELASTIC,
        priority=r.randint(0, 9),
        max_workers=40,
        grace_seconds=r.choice([0.0, 2.0, 6.0]),
        client_key="filler",
    )
    return replace(scenario, arrivals=(Arrival(0.0, spec, behaviour), *scenario.arrivals))


def recurring(of: Of, scenario: Scenario) -> Scenario:
    """One of the jobs is submitted again and again, under another key each time."""
    r = of("recurring")
    job, every_seconds = r.choice(scenario.arrivals), r.choice([5.0, 15.0])
    times = (round(job.at + n * every_seconds, 2) for n in range(1, r.randint(2, 5)))
    runs = (
        replace(with_spec(job, client_key=f"{job.spec.client_key}:{at}"), at=at) for at in times if at <= CHAOS_SECONDS
    )
    return replace(scenario, arrivals=(*scenario.arrivals, *runs))
