"""The baseline of Kueue's scheduler benchmark: 15,000 workloads of 0.2 to 1 s on 5 cohorts of 120 slots, in a minute.

See `scheduler.simulate.generate.kueue` for what it consists of. Others measured a real server; in virtual time
decisions and starts take none, so what they took is given beside it. A waiting time ends with the first start.
Three times: each cohort is one pool, and workloads run to their end, or more important ones stop others, which keep
what they have done; and each queue has its own 20 slots, borrows others, and takes back what it lent. All queues of the
benchmark ask for the same at the same moments, so that queues change nothing then but what decisions cost.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.figure import Figure
from benchmarks.virtual import all_done, mean_wait, play
from scheduler.model.queue import ROOT, Queue
from scheduler.simulate.generate import Kueue, kueue
from scheduler.simulate.speed import Linear
from scheduler.simulate.workload import Submission, Workload

NODES, SLOTS = "5x120:cohort", 5 * 120
#: Of the bound.
EXCESS_MAX = 1.15
QUEUES_EXCESS_MAX = 1.1
PUBLISHED = {"large": "6.67 s", "medium": "76.8 s", "small": "215 s"}


def run() -> list[Figure]:
    jobs, in_queues = published(), kueue(Kueue(), Linear(), seed=0)
    bound = done_bound(jobs)
    return [
        Figure("all work ÷ all slots", slot_seconds(jobs) / SLOTS, "s"),
        Figure("the last end, had each started at once", max(each.at + each.work.total for each in jobs), "s"),
        Figure("bound: from any moment on, all work that comes ÷ all slots", bound, "s"),
        *_figures("nobody is stopped", undisturbed(jobs), bound),
        *_figures("more important ones stop others", jobs, bound),
        *_figures("queues take back what they lent", in_queues.submissions, bound, QUEUES_EXCESS_MAX, in_queues.queues),
    ]


def published() -> Sequence[Submission]:
    """All workloads of the benchmark, each cohort as one pool."""
    return pooled(kueue(Kueue(), Linear(), seed=0))


def pooled(workload: Workload) -> list[Submission]:
    """The jobs of a workload in no queue."""
    return [replace(each, spec=replace(each.spec, queue=ROOT)) for each in workload.submissions]


def undisturbed(jobs: Sequence[Submission]) -> list[Submission]:
    """These jobs as ones that nobody may stop."""
    return [replace(each, spec=replace(each.spec, preemptible=False)) for each in jobs]


def _figures(
    how: str,
    jobs: Sequence[Submission],
    bound: float,
    excess_max: float = EXCESS_MAX,
    queues: Sequence[Queue] = (),
) -> list[Figure]:
    began = time.process_time()
    result = play(jobs, NODES, queues=queues)
    taken = time.process_time() - began
    done = Figure(f"{how}: all done", all_done(result), "s", at_most=excess_max * bound, published="351 s")
    waits = [
        Figure(f"{how}: mean time to admission, {name}", mean_wait(result, name), "s", published=published)
        for name, published in PUBLISHED.items()
    ]
    return [done, *waits, Figure(f"{how}: its processor time, on this machine", taken, "s")]


def slot_seconds(jobs: Sequence[Submission]) -> float:
    """All work of these."""
    return sum(each.spec.shape.slots * each.work.total for each in jobs)


def done_bound(jobs: Sequence[Submission]) -> float:
    """When all can be done at the soonest, whoever decides."""
    left, bound = 0.0, 0.0
    for each in sorted(jobs, key=lambda each: each.at, reverse=True):
        left += each.spec.shape.slots * each.work.total
        bound = max(bound, each.at + left / SLOTS, each.at + each.work.total)
    return bound
