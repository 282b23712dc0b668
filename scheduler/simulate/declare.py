"""What the scheduler is told of a workload beforehand, and how far reality is from it."""

from dataclasses import replace

from scheduler.simulate.work import NoisyWork, packed, seconds_alone
from scheduler.simulate.workload import Submission, Workload


def declared(workload: Workload, node_slots: int, *, durations: bool, speedups: bool) -> Workload:
    """The workload whose users know how long their jobs run at their preferred size, and how fast at each size.

    Both come from the true model, with workers on as few nodes of `node_slots` slots as possible. What a file says
    itself stays unless it is declared here.
    """
    return replace(
        workload,
        submissions=tuple(
            _declared(each, node_slots, durations=durations, speedups=speedups) for each in workload.submissions
        ),
    )


def _declared(submission: Submission, node_slots: int, *, durations: bool, speedups: bool) -> Submission:
    spec = submission.spec
    if durations:
        wanted = spec.preferred_workers or spec.max_workers
        seconds = submission.resize_seconds + _seconds(submission, wanted, node_slots)
        spec = replace(spec, expected_seconds=seconds)
    if speedups:
        sizes = range(spec.min_workers, spec.max_workers + 1)
        points = tuple((size, submission.work.total / _seconds(submission, size, node_slots)) for size in sizes)
        spec = replace(spec, speedup=points)
    return replace(submission, spec=spec)


def _seconds(submission: Submission, workers: int, node_slots: int) -> float:
    return seconds_alone(submission.work, packed(workers, submission.spec.shape.slots, node_slots))


def noisy(workload: Workload, spread: float, seed: int) -> Workload:
    """The workload whose jobs go faster or slower than anybody knows; 0: exactly as said."""
    if spread == 0:
        return workload
    return replace(
        workload,
        submissions=tuple(
            replace(each, work=NoisyWork(each.work, spread, f"{seed} {index}"))
            for index, each in enumerate(workload.submissions)
        ),
    )
