"""What was in use over the course of a run, and how many jobs waited."""

from dataclasses import dataclass

from scheduler.simulate.result import QueueStep, Result, SlotStep


@dataclass(frozen=True, slots=True)
class Use:
    """From `at` on, until the next one."""

    at: float
    #: Slots that jobs hold as their own.
    slots: int
    #: Slots beyond the physical count, which they share with others.
    shared_slots: int
    waiting_jobs: int


def usage(result: Result) -> list[Use]:
    """One for each moment at which anything changed."""
    held: dict[int, SlotStep] = {}
    slots = shared = waiting = 0
    uses: dict[float, Use] = {}
    steps: list[SlotStep | QueueStep] = [*result.held, *result.queue]
    for step in sorted(steps, key=lambda each: each.at):
        if isinstance(step, QueueStep):
            waiting = step.waiting
        else:
            before = held.get(step.job, SlotStep(step.at, step.job, 0, 0))
            slots, shared = slots + step.slots - before.slots, shared + step.shared - before.shared
            held[step.job] = step
        uses[step.at] = Use(step.at, slots, shared, waiting)
    return list(uses.values())
