"""Draws the scenario of a seed: a plain cluster and workload, and on top of it a random subset of all features.

*Swarm testing*: where every scenario has a little of everything, features hide each other, and rare pairs never meet
undisturbed. So each seed switches most of them off, another part each time. After A. Groce et al., "Swarm Testing"
(2012). Each feature is drawn from randomness of its own, so that one more leaves the others of a seed as they were.
"""

import random
from collections.abc import Collection
from dataclasses import replace

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import EngineSettings, PolicySettings
from scheduler.model.ids import NodeName
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.observation import NodeObservation
from scheduler.model.shape import WorkerShape
from tests.faults.features import daemons, jobs, machines, others, users
from tests.faults.features.parts import Feature, Of, faults
from tests.faults.plan import CHAOS_SECONDS, Arrival, Scenario
from tests.faults.poison import poison

#: Every feature with its name, which its randomness follows from. They are drawn in this order.
FEATURES: dict[str, Feature] = {
    "elastic": jobs.elastic,
    "runtimes": jobs.runtimes,
    "heartbeats": jobs.heartbeats,
    "not preemptible": jobs.not_preemptible,
    "surplus preemptible": jobs.surplus_preemptible,
    "time limits": jobs.time_limits,
    "failing": jobs.failing,
    "without program": jobs.without_program,
    "kinds of nodes": jobs.kinds_of_nodes,
    "CPUs and memory": jobs.cpus_and_memory,
    "overselling": jobs.overselling,
    "estimates": jobs.estimates,
    "speeds": jobs.speeds,
    "bookings": users.bookings,
    "fixed groups": jobs.fixed_groups,
    "fixed reports": jobs.fixed_reports,
    "data": jobs.data,
    "filler": jobs.filler,
    "queues": users.queues,
    "recurring": jobs.recurring,
    "others": others.others,
    "cancels": faults(users.cancel),
    "suspends": faults(users.suspend),
    "priorities": faults(users.change_priority),
    "bounds": faults(users.change_bounds),
    "bounds in a resize": faults(users.change_bounds_in_a_resize),
    "submitted again": faults(users.submit_again),
    "worker crashes": faults(machines.crash),
    "groups crash": faults(machines.crash_job),
    "worker hangs": faults(machines.hang),
    "node losses": faults(machines.lose_node),
    "ends seen late": faults(machines.see_late),
    "ends repeated": faults(machines.repeat_ends),
    "reports delayed": faults(machines.delay_reports),
    "calls fail": faults(machines.fail_calls),
    "observations fail": faults(machines.fail_observations),
    "slow observations": faults(machines.slow_observations),
    "cut off": faults(machines.cut_off),
    "operators": faults(machines.operate),
    "slots change": faults(machines.change_slots),
    "nodes change": faults(machines.change_node),
    "slots close": faults(machines.close_slots),
    "standbys": daemons.standbys,
    "ahead": daemons.ahead,
    "asleep": daemons.asleep,
    "aging": daemons.aging,
    "published": daemons.published,
    "settings": daemons.settings,
    "forgetful": daemons.forgetful,
    "forgiving": daemons.forgiving,
    "reconfigured": daemons.reconfigure,
    "deaths": faults(daemons.die),
    "freezes": faults(daemons.freeze),
    "restarts": faults(daemons.stop),
    "store fails": faults(daemons.fail_store),
    "following fails": faults(daemons.fail_following),
    "slow commits": faults(daemons.slow_commits),
    "poison": poison,
    "rows spoilt": daemons.spoil_rows,
    "clocks set far": faults(daemons.set_far),
    "reboots": faults(daemons.reboot),
}
#: The share of features that a seed switches on is one of these.
SHARES = (0.1, 0.2, 0.35, 0.5)


def draw(seed: int, without: Collection[str] = ()) -> Scenario:
    """The scenario of this seed: always the same one. Features `without` which it is drawn are off in every seed."""
    scenario = _plain(seed, lambda part: random.Random(f"{seed} {part}"))
    share = random.Random(f"{seed} share").choice(SHARES)
    for name, feature in FEATURES.items():
        of = _of(seed, name)
        if name not in without and of("swarm").random() < share:
            scenario = feature(of, scenario)
            scenario = replace(scenario, features=(*scenario.features, name))
    return replace(
        scenario,
        arrivals=tuple(sorted(scenario.arrivals, key=lambda arrival: arrival.at)),
        faults=tuple(sorted(scenario.faults, key=lambda timed: timed[0])),
    )


def _of(seed: int, name: str) -> Of:
    return lambda part: random.Random(f"{seed} {name} {part}")


def _plain(seed: int, of: Of) -> Scenario:
    """Nodes that are alike but for their size, and jobs of one size that use the library."""
    r = of("sizes")
    nodes = (NodeObservation(NodeName(f"n{k}"), f"10.0.0.{k + 1}", r.randint(1, 8)) for k in range(r.randint(1, 6)))
    return Scenario(
        seed=seed,
        policy=PolicySettings(grow_cooldown_seconds=r.choice([0.0, 2.0])),
        engine=_engine(of("engine")),
        nodes=tuple(nodes),
        arrivals=tuple(_arrival(of(f"job {number}"), number) for number in range(r.randint(2, 9))),
        faults=(),
        replicas=1,
        uncordon=r.random() < 0.6,
        resume=r.random() < 0.6,
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


def _arrival(r: random.Random, number: int) -> Arrival:
    workers = r.choice([1, 1, 1, 2, 3, 4])
    spec = JobSpec(
        name=f"job{number}",
        command=("train",),
        runtime=Runtime.ELASTIC,
        priority=r.randint(0, 9),
        min_workers=workers,
        max_workers=workers,
        shape=WorkerShape(slots=r.choice([1, 1, 1, 2, 3])),
        max_retries=r.choice([0, 1, 3]),
        grace_seconds=r.choice([0.0, 2.0, 6.0]),
        client_key=f"key{number}",
    )
    behaviour = Behaviour(
        runtime=spec.runtime,
        launch_seconds=r.choice([0.01, 0.3, 2.0]),
        ready_seconds=r.choice([0.1, 1.0, 5.0]),
        form_seconds=r.choice([0.1, 1.0]),
        heartbeat_seconds=r.choice([1.0, 2.0]),
        leave_seconds=r.choice([0.05, 0.5, 3.0, None]),
        work_seconds=float(r.choice([2, 10, 30, 60])),
    )
    return Arrival(0.0 if r.random() < 0.3 else round(r.uniform(0.0, CHAOS_SECONDS), 2), spec, behaviour)
