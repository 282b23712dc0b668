"""Experiment 2: training on what a service leaves that grows and shrinks with its load.

As published: nginx goes from 1 to 14 of 21 pods and back to 3, and elastic training takes the rest. Here it goes from 1
to 7 of 11 slots and back to 2, a few times faster. A rigid training beside it may only have what the service never
needs.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cluster.autoscaler import Autoscaler
from benchmarks.cluster.load import Answers, load
from benchmarks.cluster.nginx import running_nginx
from benchmarks.cluster.pods import SeenPod, moments, used_share
from benchmarks.cluster.site import Site
from benchmarks.figure import percentile

SLOTS, SERVICE_MOST = 11, 7
#: (seconds, pods that the load is for).
LOAD: tuple[tuple[float, int], ...] = ((12.0, 1), (18.0, 3), (28.0, 7), (22.0, 4), (15.0, 2))
#: Of the training, as those of `two_jobs`.
BATCH, SAMPLE_SECONDS = 60, 0.03
#: Their requests keep a pod a little below the target of the autoscaler.
CONNECTIONS_PER_POD = 2
_START_SECONDS_MAX = 240.0


@dataclass(frozen=True, slots=True)
class Course:
    """What became of a service and of the training beside it."""

    #: Of all slots, over the time of the load.
    used_share: float
    least_used: int
    answers: Answers
    #: The service's pods that came during the load, and the training's.
    service: list[SeenPod]
    workers: list[SeenPod]
    #: Samples that were trained during the load.
    samples: int
    #: Why the training shrank, once for each time.
    shrunk: list[str]
    grown: int
    #: Most pods of the service that ran at a time.
    service_most: int

    @property
    def waits(self) -> list[float]:
        """Seconds from the making of each pod of the service until it was bound to a node, or no longer wanted."""
        return [_since(pod.created_at, pod.bound_at or pod.asked_at) for pod in self.service]

    @property
    def starts(self) -> list[float]:
        """From its coming until it was ready to serve; pods that went before are left out."""
        return [pod.ready_at - pod.created_at for pod in self.service if pod.ready_at is not None]

    @property
    def leaves(self) -> list[float]:
        """Seconds from the wish that a worker leaves until its slot was free."""
        return [_since(pod.asked_at, pod.gone_at) for pod in self.workers if pod.asked_at is not None and pod.gone_at]


def train_beside(
    site: Site, workers: tuple[int, int], slots: int = SLOTS, phases: Sequence[tuple[float, int]] = LOAD
) -> Course:
    """A training with these bounds of workers, and the service meanwhile."""
    arguments = ["examples/digits.py", "--epochs", "100000", "--batch", str(BATCH)]
    with running_nginx(site) as address:
        _until_serving(site)
        job = site.submit("training", [*arguments, "--sample-seconds", str(SAMPLE_SECONDS)], workers, runtime="elastic")
        site.daemon.wait(job, lambda view: (view["progress"]["step"] or 0) > 0, _START_SECONDS_MAX)
        before, begin = _samples(site, job), time.monotonic()
        most = max(pods for _, pods in phases)
        with Autoscaler(site, most):
            answers = load(address, [(seconds, pods * CONNECTIONS_PER_POD) for seconds, pods in phases])
        end, after, events = time.monotonic(), _samples(site, job), site.events(job)
    pods = site.watch.workers(job) + site.watch.of_others()
    service = [pod for pod in site.watch.of_others() if begin <= pod.created_at < end]
    return Course(
        used_share=used_share(pods, slots, begin, end),
        least_used=min(held for _, held in moments(pods, begin, end)),
        answers=answers,
        service=service,
        workers=site.watch.workers(job),
        samples=after - before,
        shrunk=[event["cause"] for event in events if event["kind"] == "JOB_SHRANK"],
        grown=sum(event["kind"] == "JOB_GREW" for event in events),
        service_most=max(held for _, held in moments(site.watch.of_others(), begin, end)),
    )


def worst(values: Sequence[float]) -> float | None:
    return max(values, default=None)


def most_of(values: Sequence[float]) -> float | None:
    """Within which nine of ten lie."""
    return percentile(values, 0.9)


def _since(begin: float, end: float | None) -> float:
    return float("inf") if end is None else max(0.0, end - begin)


def _samples(site: Site, job: int) -> int:
    return int(site.job(job)["progress"]["step"] or 0) * BATCH


def _until_serving(site: Site) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not any(pod.ready_at is not None for pod in site.watch.of_others()):
        if time.monotonic() > deadline:
            raise RuntimeError("the service's first pod does not become ready")
        time.sleep(0.2)
