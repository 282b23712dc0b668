"""Paddle EDL's experiments on 133 nodes: 20 jobs of up to 60 trainers, and training beside nginx.

Published: nodes of nearly 18 cores, trainers of 5 and nginx pods of 3, so that a node has room for 3 trainers or 5 pods
once its parameter servers run; a job may have 2 to 60 trainers, and 60 where sizes are fixed; 20 jobs come 10 s apart.
Assumed: all jobs need the same, namely 294 s with 60 trainers, since then fixed sizes wait for as long as published,
and their speed is linear. Beside nginx: 6 jobs of 2 to 60 trainers, 15 where sizes are fixed, under a load that goes
from 400 pods to 100 and back in steps of 90 s. Parameter servers are left out.
"""

from statistics import fmean

from benchmarks.figure import Figure
from benchmarks.virtual import (
    LEAVE_SECONDS,
    PAUSE_SECONDS,
    all_done,
    longest_foreign_wait,
    mean_wait,
    percent_used,
    play,
    service,
)
from scheduler.config import PolicyName
from scheduler.simulate.job_rows import JobRow
from scheduler.simulate.result import Result
from scheduler.simulate.speed import Linear
from scheduler.simulate.workload import Submission

NODES = "133x3"
TRAINERS = 60
#: With all its trainers.
JOB_SECONDS = 293.75
PODS_PER_NODE = 5
#: Pods of nginx from each second on.
NGINX = ((0, 400), (105, 300), (195, 200), (285, 100), (375, 200), (465, 300), (555, 400))
RECORD_SECONDS = 685.0


def run() -> list[Figure]:
    elastic, rigid = twenty_jobs("elastic"), twenty_jobs("fifo")
    mixed, rigid_mixed = beside_nginx("elastic"), beside_nginx("fifo")
    rigid_use = percent_used(rigid, all_done(rigid))
    return [
        Figure("20 jobs: mean time pending", mean_wait(elastic), "s", at_most=42.9, published="42.9 s"),
        Figure("20 jobs, fixed sizes: mean time pending", mean_wait(rigid), "s", published="280.5 s"),
        Figure("20 jobs: use", percent_used(elastic, all_done(elastic)), "%", at_least=rigid_use, published="76.3 %"),
        Figure("20 jobs, fixed sizes: use", rigid_use, "%", published="76.2 %"),
        Figure("20 jobs: all done", all_done(elastic), "s"),
        Figure("20 jobs, fixed sizes: all done", all_done(rigid), "s"),
        Figure("20 jobs: mean completion time", mean_completion(elastic), "s"),
        Figure("20 jobs, fixed sizes: mean completion time", mean_completion(rigid), "s"),
        Figure("beside nginx: use", percent_used(mixed, RECORD_SECONDS), "%", at_least=95, published="83.4 %"),
        Figure("beside nginx, fixed sizes: use", percent_used(rigid_mixed, RECORD_SECONDS), "%", published="61.9 %"),
        Figure(
            "beside nginx: longest wait of 5 of its pods",
            longest_foreign_wait(mixed),
            "s",
            at_most=LEAVE_SECONDS + 1,
        ),
        Figure("beside nginx, fixed sizes: longest wait of 5 of its pods", longest_foreign_wait(rigid_mixed), "s"),
    ]


def twenty_jobs(policy: PolicyName) -> Result:
    """A cluster for training alone."""
    work = TRAINERS * (JOB_SECONDS - PAUSE_SECONDS)
    return play([_job(f"job-{number + 1}", number * 10.0, TRAINERS, work) for number in range(20)], NODES, policy)


def beside_nginx(policy: PolicyName) -> Result:
    """A cluster for services too, for as long as the load was recorded; five pods fill a node."""
    nginx = service([(at, pods // PODS_PER_NODE) for at, pods in NGINX], RECORD_SECONDS, slots=3)
    training = [_job(f"job-{number + 1}", 5.0 * number, 15, 1e6) for number in range(6)]
    return play(training, NODES, policy, RECORD_SECONDS, beside=nginx)


def mean_completion(result: Result) -> float:
    """Seconds from submission to end; infinite where a job did not end."""
    return fmean(float("inf") if each.completion_seconds is None else each.completion_seconds for each in result.jobs)


def _job(name: str, at: float, fixed: int, work: float) -> Submission:
    row = JobRow(
        name=name,
        at_seconds=at,
        work_seconds=work,
        min_workers=2,
        max_workers=TRAINERS,
        preferred_workers=fixed,
        resize_seconds=PAUSE_SECONDS,
        leave_seconds=LEAVE_SECONDS,
    )
    return row.submission(Linear())
