"""Features of machines: workers that fail, nodes that are lost or change, and a cluster that errs."""

import random

from scheduler.clusters.simulated.cluster import Fault as CallFault
from scheduler.model.intent import IntentKind
from scheduler.model.slot import ClosedSlot, SlotClosure
from tests.faults.features.jobs import FAILING_CODES, GPU_TYPES, LABELS
from tests.faults.kinds import (
    AskNode,
    ChangeNode,
    ChangeSlots,
    CloseSlots,
    CrashJob,
    CrashWorker,
    CutOff,
    DelayReports,
    FailCalls,
    FailObservations,
    Fault,
    HangWorker,
    LoseNode,
    RepeatEnds,
    SeeLate,
    SlowObservations,
)

EXIT_CODES = (0, 64, 65, *FAILING_CODES)


def crash(r: random.Random) -> Fault:
    return CrashWorker(r.random(), r.choice(EXIT_CODES))


def crash_job(r: random.Random) -> Fault:
    return CrashJob(r.random(), r.choice(EXIT_CODES))


def hang(r: random.Random) -> Fault:
    return HangWorker(r.random())


def lose_node(r: random.Random) -> Fault:
    return LoseNode(
        r.random(),
        r.choice([0.1, 2.0, 10.0, 30.0]),
        rebooted=r.random() < 0.4,
        listed=r.random() < 0.7,
        remembered=r.random() < 0.3,
    )


def see_late(r: random.Random) -> Fault:
    return SeeLate(r.random(), r.choice([0.0, 0.3, 2.0]))


def repeat_ends(r: random.Random) -> Fault:
    return RepeatEnds(r.random() < 0.7)


def delay_reports(r: random.Random) -> Fault:
    return DelayReports(r.choice([0.0, 0.5, 3.0]), r.choice([0.0, 0.5]))


def fail_calls(r: random.Random) -> Fault:
    return FailCalls(tuple(r.choices([None, *CallFault], k=r.randint(1, 6))))


def fail_observations(r: random.Random) -> Fault:
    return FailObservations(r.choice([1, 3]))


def slow_observations(r: random.Random) -> Fault:
    return SlowObservations(r.choice([0.0, 0.5, 2.0, 4.0]))


def cut_off(r: random.Random) -> Fault:
    return CutOff(r.random(), r.choice([1.0, 5.0, 20.0, 60.0]))


def operate(r: random.Random) -> Fault:
    """An operator takes a node out of service, or puts it back."""
    kinds = [IntentKind.CORDON, IntentKind.DRAIN, IntentKind.UNCORDON, IntentKind.UNCORDON]
    return AskNode(r.random(), r.choice(kinds))


def change_slots(r: random.Random) -> Fault:
    return ChangeSlots(r.random(), r.randint(1, 8))


def change_node(r: random.Random) -> Fault:
    facts: dict[str, object] = {
        "labels": r.choice(LABELS),
        "gpu_type": r.choice(GPU_TYPES),
        "cpus": r.choice([0.0, 4.0, 16.0]),
        "memory_mib": r.choice([0, 200, 1600]),
        "closed": r.choice(["", "", "the cluster lets nobody in"]),
        "host": f"10.0.1.{r.randint(1, 9)}",
    }
    return ChangeNode(r.random(), tuple((name, facts[name]) for name in r.sample(sorted(facts), r.randint(1, 3))))


def close_slots(r: random.Random) -> Fault:
    """Others use slots, or these break, or nothing can be read of them; where it is none, all is well again."""
    slots = sorted(r.sample(range(8), r.choice([0, 0, 1, 2, 8])))
    return CloseSlots(
        r.random(), tuple(ClosedSlot(slot, r.choice(list(SlotClosure)), r.choice(["once", "again"])) for slot in slots)
    )
