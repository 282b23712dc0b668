"""How tests make and run small workloads."""

from scheduler.config import Settings
from scheduler.model.job import JobSpec, Runtime
from scheduler.simulate.nodes import read_nodes
from scheduler.simulate.result import Result
from scheduler.simulate.run import Setup, simulate
from scheduler.simulate.speed import Linear, Speedup
from scheduler.simulate.work import CurveWork
from scheduler.simulate.workload import Submission, Workload

#: Ticks that a start takes before its group begins to form, and their gaps: nothing in comparison with the work.
PROTOCOL_SECONDS = 0.1


def job(
    name: str,
    at: float = 0.0,
    *,
    work: float = 100.0,
    workers: tuple[int, int] = (1, 1),
    speedup: Speedup | None = None,
    resize_seconds: float = 0.0,
    leave_seconds: float = 0.0,
    **spec: object,
) -> Submission:
    """One job; `work` in seconds of one worker."""
    job_spec = JobSpec(
        name=name,
        command=("simulated",),
        runtime=Runtime.ELASTIC,
        min_workers=workers[0],
        max_workers=workers[1],
        **spec,  # type: ignore[arg-type]
    )
    return Submission(at, job_spec, CurveWork(work, speedup or Linear()), resize_seconds, leave_seconds=leave_seconds)


def run(
    *jobs: Submission,
    nodes: str = "1x4",
    every_seconds: float = 0.0,
    until_seconds: float = 10 * 365 * 86400.0,
    settings: Settings | None = None,
) -> Result:
    """What becomes of these jobs."""
    setup = Setup(
        read_nodes(nodes, "--nodes"),
        settings or Settings(),
        every_seconds=every_seconds,
        until_seconds=until_seconds,
    )
    return simulate(Workload.of("test", jobs), setup)
