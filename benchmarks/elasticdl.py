"""ElasticDL's experiments: two jobs that do not fit side by side, and training beside a service.

As published with its source: a job gets 175 of 320 CPUs and needs 650 s with them, and another like it comes at 300 s;
two jobs of 4 GPUs share 6, the second from 120 s on, and gang scheduling needs 968 s for one after the other, so 484 s
each; training takes what an nginx service, whose pods are those of others, leaves of 21 pods. Speed is linear.
"""

from benchmarks.figure import Figure
from benchmarks.virtual import (
    LEAVE_SECONDS,
    PAUSE_SECONDS,
    all_done,
    longest_foreign_wait,
    longest_wait,
    percent_used,
    play,
    service,
)
from scheduler.config import PolicyName
from scheduler.simulate.job_rows import JobRow
from scheduler.simulate.result import Result
from scheduler.simulate.speed import Linear
from scheduler.simulate.workload import Submission

#: Pods of the service from each second on, as recorded in the second experiment.
NGINX = (
    *((65, 1), (68, 2), (85, 3), (169, 5), (172, 8), (272, 10), (274, 11), (286, 14)),
    *((367, 11), (375, 8), (467, 5), (470, 3)),
)
RECORD_SECONDS = 564.0
PODS = 21


def run() -> list[Figure]:
    cpus, gang_cpus = two_on_320_cpus("elastic"), two_on_320_cpus("fifo")
    gpus, gang_gpus = two_on_6_gpus("elastic"), two_on_6_gpus("fifo")
    mixed = beside_a_service()
    return [
        Figure("2 × 175 workers on 320 CPUs: all done", all_done(cpus), "s", at_most=1015, published="1,100 s"),
        Figure(
            "2 × 175 workers on 320 CPUs: the second job waits",
            longest_wait(cpus, "second"),
            "s",
            at_most=1,
            published="0 s",
        ),
        Figure("2 × 175 workers on 320 CPUs, gang: all done", all_done(gang_cpus), "s", published="1,300 s"),
        Figure("2 × 175 workers on 320 CPUs, gang: the second job waits", longest_wait(gang_cpus, "second"), "s"),
        Figure("2 × 4 workers on 6 GPUs: all done", all_done(gpus), "s", at_most=800, published="809 s"),
        Figure(
            "2 × 4 workers on 6 GPUs: the second job waits",
            longest_wait(gpus, "second"),
            "s",
            at_most=1,
            published="0 s",
        ),
        Figure("2 × 4 workers on 6 GPUs, gang: all done", all_done(gang_gpus), "s", published="968 s"),
        Figure(
            "training beside nginx on 21 pods: use",
            percent_used(mixed, RECORD_SECONDS),
            "%",
            at_least=95,
            published="above 90 %",
        ),
        Figure(
            "training beside nginx on 21 pods: longest wait of a pod of nginx",
            longest_foreign_wait(mixed),
            "s",
            at_most=LEAVE_SECONDS + 1,
        ),
    ]


def two_on_320_cpus(policy: PolicyName) -> Result:
    """Experiment 1. If the first keeps its 175 CPUs to its end, 1,010 s is the least for both."""
    work = 175 * 650.0
    return play([_job("first", 0, 175, work), _job("second", 300, 175, work)], "10x32", policy)


def two_on_6_gpus(policy: PolicyName) -> Result:
    """Experiment 1 with GPUs. The pause of the first start is part of the 484 s."""
    work = 4 * (484.0 - PAUSE_SECONDS)
    return play([_job("first", 0, 4, work), _job("second", 120, 4, work)], "1x6", policy)


def beside_a_service() -> Result:
    """Experiment 2, for as long as it was recorded."""
    training = _job("training", 0, PODS, PODS * 2 * RECORD_SECONDS)
    nginx = service(NGINX, RECORD_SECONDS)
    return play([training], f"1x{PODS}", until_seconds=RECORD_SECONDS, beside=nginx)


def _job(name: str, at: float, workers: int, work: float) -> Submission:
    """A job that prefers `workers` workers and accepts fewer."""
    row = JobRow(
        name=name,
        at_seconds=at,
        work_seconds=work,
        max_workers=workers,
        preferred_workers=workers,
        resize_seconds=PAUSE_SECONDS,
        leave_seconds=LEAVE_SECONDS,
    )
    return row.submission(Linear())
