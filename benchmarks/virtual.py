"""Runs in virtual time, for workloads that others published: the scheduler's own engine, store and planner.

Every figure follows from its workload alone: another machine, or another run, gives the same.
"""

from collections.abc import Sequence

from scheduler.config import PolicyName, PolicySettings, Settings
from scheduler.model.queue import Queue
from scheduler.model.shape import WorkerShape
from scheduler.simulate.nodes import read_nodes
from scheduler.simulate.result import Result
from scheduler.simulate.run import Setup, simulate
from scheduler.simulate.workload import ForeignPod, Submission, Workload

#: Pause of a job at each change of its membership: ten times what `resize_pause` measures.
PAUSE_SECONDS = 1.0
#: Workers report so often, as those of `scheduler.elastic` do.
REPORT_SECONDS = 1.0
#: How long a worker that is asked to leave holds its slots: nine of ten are gone by then in `cluster_experiments`.
LEAVE_SECONDS = 1.4
_FOREVER_SECONDS = 1e9


def play(
    jobs: Sequence[Submission],
    nodes: str,
    policy: PolicyName = "elastic",
    until_seconds: float = _FOREVER_SECONDS,
    beside: Sequence[ForeignPod] = (),
    queues: Sequence[Queue] = (),
) -> Result:
    """What becomes of these jobs on nodes such as `16x4` under this policy, beside pods of others."""
    setup = Setup(
        nodes=read_nodes(nodes, "nodes"),
        settings=Settings(policy=PolicySettings(name=policy)),
        report_seconds=REPORT_SECONDS,
        until_seconds=until_seconds,
    )
    return simulate(Workload.of("published", jobs, foreign=beside, queues=queues), setup)


def service(load: Sequence[tuple[float, int]], end: float, slots: int = 1) -> list[ForeignPod]:
    """A service as pods of others: `load` has (moment, number of pods), and all go at `end`.

    Of two pods the one that was needed last goes first.
    """
    since: list[float] = []
    pods: list[ForeignPod] = []
    for at, count in [*load, (end, 0)]:
        since += [at] * (count - len(since))
        while len(since) > count:
            pods.append(ForeignPod(f"service-{len(pods) + 1}", since.pop(), at, WorkerShape(slots)))
    return pods


def longest_wait(result: Result, name: str) -> float:
    """Longest wait of the jobs whose names begin with `name`; infinite if one of them never started."""
    waits = [job.waiting_seconds for job in result.jobs if job.name.startswith(name)]
    return max(float("inf") if wait is None else wait for wait in waits)


def mean_wait(result: Result, name: str = "") -> float:
    """Mean wait of the jobs whose names begin with `name`; infinite if one of them never started."""
    waits = [job.waiting_seconds for job in result.jobs if job.name.startswith(name)]
    return sum(float("inf") if wait is None else wait for wait in waits) / len(waits)


def longest_foreign_wait(result: Result) -> float:
    """Longest wait of a foreign pod; one that was never placed waited until it went, or until the end."""
    waits = [
        (result.ended_at if each.went_at is None else each.went_at) - each.came_at
        if each.waiting_seconds is None
        else each.waiting_seconds
        for each in result.foreign
    ]
    return max(waits)


def all_done(result: Result) -> float:
    """When the last job ended; infinite where one did not."""
    return max(float("inf") if job.finished_at is None else job.finished_at for job in result.jobs)


def percent_used(result: Result, end: float) -> float:
    """Share of all slots that jobs and pods of others held, over the time until `end`."""
    held: dict[int, int] = {}
    slot_seconds = since = 0.0
    for step in result.held:
        at = min(step.at, end)
        slot_seconds += sum(held.values()) * (at - since)
        held[step.job], since = step.slots, at
    slot_seconds += sum(held.values()) * (end - since)
    for each in result.foreign:
        if each.ran_at is not None:
            slot_seconds += each.slots * ((end if each.went_at is None else min(each.went_at, end)) - each.ran_at)
    return 100.0 * slot_seconds / (result.slots * end)
