"""Runs in virtual time, for workloads that others published: the scheduler's own engine, store and planner.

Every figure follows from its workload alone: another machine, or another run, gives the same.
"""

from collections.abc import Sequence

from scheduler.config import PolicyName, PolicySettings, Settings
from scheduler.simulate.job_rows import JobRow
from scheduler.simulate.nodes import read_nodes
from scheduler.simulate.result import Result
from scheduler.simulate.run import Setup, simulate
from scheduler.simulate.workload import Submission, Workload

#: A job stands still for so long at each change of its membership: ten times what `resize_pause` measures.
PAUSE_SECONDS = 1.0
#: Workers report so often, as those of `scheduler.elastic` do.
REPORT_SECONDS = 1.0
#: A service goes before training.
SERVICE_PRIORITY = 100
_FOREVER_SECONDS = 1e9


def play(
    jobs: Sequence[Submission], nodes: str, policy: PolicyName = "elastic", until_seconds: float = _FOREVER_SECONDS
) -> Result:
    """What becomes of these jobs on nodes such as `16x4` under this policy."""
    setup = Setup(
        nodes=read_nodes(nodes, "nodes"),
        settings=Settings(policy=PolicySettings(name=policy)),
        report_seconds=REPORT_SECONDS,
        until_seconds=until_seconds,
    )
    return simulate(Workload.of("published", jobs), setup)


def service(load: Sequence[tuple[float, int]], end: float, slots_per_worker: int = 1) -> list[Submission]:
    """A service with so many workers from each moment on, until `end`: each a job of its own that nobody preempts.

    Of two workers the one that was needed last goes first.
    """
    since: list[float] = []
    jobs: list[Submission] = []
    for at, workers in [*load, (end, 0)]:
        since += [at] * (workers - len(since))
        while len(since) > workers:
            begin = since.pop()
            row = JobRow(
                name=f"service-{len(jobs) + 1}",
                at_seconds=begin,
                work_seconds=at - begin,
                slots_per_worker=slots_per_worker,
                priority=SERVICE_PRIORITY,
                preemptible=False,
            )
            jobs.append(row.submission())
    return jobs


def longest_wait(result: Result, name: str) -> float:
    """Of the jobs whose names begin so; what never started makes it infinite."""
    waits = [job.waiting_seconds for job in result.jobs if job.name.startswith(name)]
    return max(float("inf") if wait is None else wait for wait in waits)


def mean_wait(result: Result, name: str = "") -> float:
    """The same, on average."""
    waits = [job.waiting_seconds for job in result.jobs if job.name.startswith(name)]
    return sum(float("inf") if wait is None else wait for wait in waits) / len(waits)


def all_done(result: Result) -> float:
    """When the last job ended; infinite where one did not."""
    return max(float("inf") if job.finished_at is None else job.finished_at for job in result.jobs)


def percent_used(result: Result, end: float) -> float:
    """Share of all slots that jobs held, over the time until `end`."""
    held: dict[int, int] = {}
    slot_seconds = since = 0.0
    for step in result.held:
        at = min(step.at, end)
        slot_seconds += sum(held.values()) * (at - since)
        held[step.job], since = step.slots, at
    slot_seconds += sum(held.values()) * (end - since)
    return 100.0 * slot_seconds / (result.slots * end)
