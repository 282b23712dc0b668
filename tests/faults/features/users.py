"""Features of users: what they ask of jobs, and what they book."""

import random

from scheduler.model.intent import IntentKind
from tests.faults.features.parts import Of, each_job, some, with_faults, with_spec
from tests.faults.plan import CHAOS_SECONDS, AskJob, Book, Fault, ScaleResizing, Scenario, SubmitAgain, Unbook

BOOKINGS = ("spring", "summer")


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


def _bounds(r: random.Random) -> tuple[int | None, int | None]:
    low, high = r.choice([None, 1, 2, 4]), r.choice([None, 1, 3, 8])
    return low, 8 if low is None and high is None else high
