"""Features of daemons: settings, standbys, deaths, standstills, clocks, and a store that fails them."""

import random
from dataclasses import replace

from scheduler.config import EngineSettings, PolicyName, PolicySettings
from scheduler.engine.tick import Step
from scheduler.policy.published.rules import RULES
from tests.faults.features.parts import Of, at_any_time, some, with_faults
from tests.faults.kinds import (
    Die,
    FailStore,
    Fault,
    Freeze,
    Jump,
    Reboot,
    Reconfigure,
    SlowCommits,
    Spoil,
    Stop,
    Suspend,
)
from tests.faults.plan import Scenario

JUMPS_SECONDS = (-600.0, -30.0, -4.0, -0.5, 0.5, 4.0, 30.0, 600.0)
HOUR, DAY = 3600.0, 86400.0
FAR_SECONDS = (120.0, 2 * HOUR, 40 * DAY, -120.0, -HOUR, -40 * DAY)
POLICIES: tuple[PolicyName, ...] = ("elastic",) * 8 + tuple(sorted(RULES))
READS = ("load_world", "take_inbox", "read_queues", "data_shares_done")
WRITES = ("acquire_lease", "renew_lease", "commit", "commit", "commit")


def die(r: random.Random) -> Fault:
    return Die(r.choice(list(Step)), r.choice([0.0, 1.0, 20.0]))


def freeze(r: random.Random) -> Fault:
    return Freeze(r.choice(list(Step)), r.choice([0.5, 4.0, 12.0, 25.0]))


def stop(r: random.Random) -> Fault:
    return Stop(r.choice([0.0, 2.0, 15.0]))


def fail_store(r: random.Random) -> Fault:
    method = r.choice((*READS, *WRITES))
    return FailStore(method, r.choice([1, 1, 2, 4]), written=method in WRITES and r.random() < 0.6)


def fail_following(r: random.Random) -> Fault:
    """Who leads, or what was committed, cannot be read for a while."""
    return FailStore(r.choice(("read_lease", "load_news")), r.choice([1, 2, 8]), written=False)


def spoil_rows(of: Of, scenario: Scenario) -> Scenario:
    """Rows cannot be read for a while; not beside poison, which users could not cancel meanwhile."""
    if scenario.poison is not None:
        return scenario
    spoils = (Spoil(r.random(), r.choice(["jobs", "workers"])) for r in some(of, "row"))
    return with_faults(scenario, *(at_any_time(of(f"row at {n}"), spoil) for n, spoil in enumerate(spoils)))


def slow_commits(r: random.Random) -> Fault:
    return SlowCommits(r.choice([0.0, 0.5, 1.5, 3.5]))


def set_far(r: random.Random) -> Fault:
    return Jump(r.random(), r.choice(FAR_SECONDS))


def reboot(r: random.Random) -> Fault:
    """Not with a clock that is ahead then: nothing tells that from a machine that was off for longer."""
    return Reboot(r.choice(list(Step)), r.choice([2.0, 15.0]), r.choice([0.0, 120.0, HOUR, DAY]))


def standbys(of: Of, scenario: Scenario) -> Scenario:
    return replace(scenario, replicas=of("replicas").choice([2, 2, 3]))


def ahead(of: Of, scenario: Scenario) -> Scenario:
    """Machines differ in their time, which is also set to another value."""
    seconds = tuple(round(of(f"ahead {n}").uniform(-3.0, 3.0), 2) for n in range(scenario.replicas))
    jumps = [at_any_time(r, Jump(r.random(), r.choice(JUMPS_SECONDS))) for r in some(of, "jump")]
    r = of("set back")
    if r.random() < 0.3:
        at, standstill = at_any_time(r, Freeze(r.choice(list(Step)), 25.0))
        jumps += [(at, standstill), (at + 5.0, Jump(r.random(), -30.0))]
    return replace(with_faults(scenario, *jumps), ahead_seconds=seconds)


def asleep(of: Of, scenario: Scenario) -> Scenario:
    """Machines sleep; not those that differ in their time, for nobody promises anything for both at once."""
    if scenario.ahead_seconds:
        return scenario
    naps = (Suspend(r.choice(list(Step)), r.choice([2.0, 12.0, 25.0])) for r in some(of, "nap"))
    return with_faults(scenario, *(at_any_time(of(f"nap at {n}"), nap) for n, nap in enumerate(naps)))


def aging(of: Of, scenario: Scenario) -> Scenario:
    """Waiting raises the priority."""
    rate, ceilings = of("rate").choice([60.0, 600.0]), of("ceilings").choice([(), (5,)])
    update = {"aging_per_hour": rate, "aging_ceilings": ceilings}
    return replace(scenario, policy=scenario.policy.model_copy(update=update))


def published(of: Of, scenario: Scenario) -> Scenario:
    """A policy of the literature decides."""
    return replace(scenario, policy=scenario.policy.model_copy(update={"name": of("name").choice(sorted(RULES))}))


def forgiving(of: Of, scenario: Scenario) -> Scenario:
    """Retries come back to jobs that run for a while."""
    update = {"failure_reset_seconds": of("reset").choice([8.0, 20.0])}
    return replace(scenario, engine=scenario.engine.model_copy(update=update))


def forgetful(of: Of, scenario: Scenario) -> Scenario:
    """Nodes that are not listed are soon forgotten."""
    return replace(scenario, nodes_seconds=of("nodes").choice([0.5, 3.0, 10.0]))


def settings(of: Of, scenario: Scenario) -> Scenario:
    """Other settings than those shipped."""
    return replace(
        scenario, policy=_policy(of("policy"), scenario.policy), engine=_engine(of("engine"), scenario.engine)
    )


def reconfigure(of: Of, scenario: Scenario) -> Scenario:
    """Settings change while the daemon is down."""

    def changed(r: random.Random) -> Reconfigure:
        policy = _policy(r, scenario.policy).model_copy(update={"name": r.choice(POLICIES)})
        return Reconfigure(r.choice([0.0, 2.0, 15.0]), policy, _engine(r, scenario.engine))

    return with_faults(scenario, *(at_any_time(r, changed(r)) for r in some(of, "restart")))


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
            "remeasure_seconds": r.choice([5.0, 30.0, 1800.0]),
            "retry_seconds": r.choice([1.0, 10.0, 120.0]),
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
