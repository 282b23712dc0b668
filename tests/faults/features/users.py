"""Features of users: what they ask of jobs, and what they book."""

import random
from dataclasses import replace

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.queue import ANY_GPU, SlotsByType
from tests.faults.features.parts import Of, at_any_time, each_job, some, with_faults, with_spec
from tests.faults.kinds import AskJob, Book, DeleteQueue, Fault, ScaleResizing, SetQueue, SubmitAgain, Unbook
from tests.faults.plan import CHAOS_SECONDS, Arrival, Scenario

BOOKINGS = ("spring", "summer")
QUEUES = ("lab", "lab/one", "lab/one/deep", "lab/two", "works", "works/night")
USERS = ("ann", "bob", "cy")


def cancel(r: random.Random) -> Fault:
    return AskJob(r.random(), IntentKind.CANCEL)


def suspend(r: random.Random) -> Fault:
    """Suspend a job, or resume one."""
    return AskJob(r.random(), r.choice([IntentKind.SUSPEND, IntentKind.RESUME]))


def change_priority(r: random.Random) -> Fault:
    return AskJob(r.random(), IntentKind.PRIORITY, priority=r.randint(0, 9))


def change_bounds(r: random.Random) -> Fault:
    low, high = _bounds(r)
    return AskJob(r.random(), IntentKind.SCALE, min_workers=low, max_workers=high)


def change_bounds_in_a_resize(r: random.Random) -> Fault:
    return ScaleResizing(r.random(), *_bounds(r))


def submit_again(r: random.Random) -> Fault:
    return SubmitAgain(r.random())


def bookings(of: Of, scenario: Scenario) -> Scenario:
    """Capacity is booked for windows, and some jobs belong to a booking."""

    def book(r: random.Random) -> tuple[float, Fault]:
        at, name, model = round(r.uniform(0.0, CHAOS_SECONDS / 2), 2), r.choice(BOOKINGS), r.choice(scenario.nodes)
        if r.random() < 0.25:
            return at, Unbook(name)
        return at, Book(
            name,
            r.choice([0.0, 5.0, 20.0]),
            r.choice([10.0, 40.0]),
            r.randint(1, 4),
            r.choice([1, 1, 2]),
            node_selector=model.labels if r.random() < 0.4 else (),
            gpu_type=model.gpu_type if r.random() < 0.4 else None,
            priority_min=r.choice([None, None, 5]),
        )

    scenario = with_faults(scenario, *(book(r) for r in some(of, "booking")))
    return each_job(
        of, scenario, lambda r, job: with_spec(job, booking=r.choice(BOOKINGS) if r.random() < 0.4 else None)
    )


def queues(of: Of, scenario: Scenario) -> Scenario:
    """Jobs belong to users and to queues, which are set and deleted while they run."""
    types = sorted({node.gpu_type for node in scenario.nodes if node.gpu_type is not None})

    def set_queue(r: random.Random, path: str) -> Fault:
        guarantee = _guarantee(r, types)
        most = _limit(r, types, dict(guarantee))
        weight, user_limit = r.choice([0.5, 1.0, 1.0, 3.0]), r.choice([None, None, None, 1, 4])
        shared, budget = r.random() < 0.3, r.choice([None, None, None, None, 0, 1])
        return SetQueue(path, guarantee, most, weight, share_users=shared, user_limit=user_limit, budget=budget)

    first = [(0.0, set_queue(of(f"queue {path}"), path)) for path in QUEUES if of(f"queue {path}").random() < 0.6]
    later = [at_any_time(r, set_queue(r, r.choice(QUEUES))) for r in some(of, "set")]
    later += [at_any_time(r, DeleteQueue(r.choice(QUEUES))) for r in some(of, "delete")]
    stop_seconds = of("fair stop").choice([None, None, 0.0, 10.0])
    policy = scenario.policy.model_copy(update={"fair_stop_seconds": stop_seconds})
    borrowers = (_borrower(of(f"borrower {number}"), number) for number in range(of("borrowers").choice([1, 1, 2])))
    scenario = replace(scenario, policy=policy, arrivals=(*borrowers, *scenario.arrivals))
    return each_job(
        of,
        with_faults(scenario, *first, *later),
        lambda r, job: with_spec(job, queue=r.choice(("", *QUEUES)), user=r.choice(USERS)),
    )


def _borrower(r: random.Random, number: int) -> Arrival:
    """A job that takes whatever there is, so that others have to take it back."""
    behaviour = Behaviour(
        Runtime.ELASTIC, leave_seconds=r.choice([0.05, 3.0, None]), work_seconds=r.choice([100.0, 1000.0])
    )
    low = r.choice([1, 1, 2, 4])
    spec = JobSpec(
        name=f"borrower{number}",
        command=("train",),
        runtime=Runtime.ELASTIC,
        priority=r.randint(0, 9),
        min_workers=low,
        max_workers=r.choice([low, 40, 40]),
        grace_seconds=r.choice([0.0, 2.0, 6.0]),
        client_key=f"borrower{number}",
    )
    return Arrival(r.choice([0.0, 0.0, 20.0]), spec, behaviour)


def _guarantee(r: random.Random, types: list[str]) -> SlotsByType:
    """Slots that are promised, of any type and of each type or not."""
    kinds = [kind for kind in (ANY_GPU, *types) if r.random() < 0.6]
    return tuple(sorted((kind, r.choice([1, 2, 4, 8])) for kind in kinds))


def _limit(r: random.Random, types: list[str], guarantee: dict[str, int]) -> SlotsByType:
    """Limits that leave room for the guarantee, of any type and of each type or not."""
    kinds = [kind for kind in (ANY_GPU, *types) if r.random() < 0.4]
    return tuple(sorted((kind, r.choice([2, 4, 8]) + guarantee.get(kind, 0)) for kind in kinds))


def _bounds(r: random.Random) -> tuple[int | None, int | None]:
    low, high = r.choice([None, 1, 2, 4]), r.choice([None, 1, 3, 8])
    return low, 8 if low is None and high is None else high
