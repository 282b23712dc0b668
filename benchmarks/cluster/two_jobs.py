"""Experiment 1 in small: two jobs that each want more than half of the cluster, as gangs and as elastic ones.

As published a job gets 175 of 320 CPUs and needs 650 s with them, and the second comes at 300 s. Here it gets 6 of 11
slots and needs about 100 s, and the second comes at 46 s. A gang is a job whose least size is its largest; an elastic
one also runs with less. A step takes each worker as long as its share of the step's samples does.
"""

import time
from dataclasses import dataclass

from benchmarks.cluster.site import Site

SLOTS, WORKERS = 11, 6
#: Samples of a step, and what each costs a worker: 0.3 s a step with all workers.
BATCH, SAMPLE_SECONDS = 60, 0.03
#: Of 24 steps each.
EPOCHS = 14
SECOND_SECONDS = 46.0
#: What was published, brought to the same scale: 650 s there are 100 s here.
_SCALE = 100.8 / 650.0
PUBLISHED_GANG_SECONDS, PUBLISHED_ELASTIC_SECONDS = 1300.0 * _SCALE, 1100.0 * _SCALE


@dataclass(frozen=True, slots=True)
class Course:
    """What became of two jobs; seconds."""

    #: From the submission of the first to the end of the last.
    all_done_seconds: float
    #: From the submission of the second until it is started.
    wait_seconds: float
    #: From the submission of the second until all of its first workers run.
    until_running_seconds: float
    #: Workers that each had at its first start.
    first_workers: int
    second_workers: int
    #: Whether the second started while all workers of the first were at work.
    side_by_side: bool


def train_two(site: Site, least: int, *, epochs: int = EPOCHS, second_seconds: float = SECOND_SECONDS) -> Course:
    """Both jobs to their ends, each with this minimum of workers."""
    first = _submit(site, "first", least, epochs)
    began = time.monotonic()
    time.sleep(max(0.0, began + second_seconds - time.monotonic()))
    second = _submit(site, "second", least, epochs)
    views = [site.finished(job) for job in (first, second)]
    return Course(
        all_done_seconds=max(view["finished_at"] for view in views) - views[0]["submitted_at"],
        wait_seconds=views[1]["first_started_at"] - views[1]["submitted_at"],
        until_running_seconds=views[1]["running_at"] - views[1]["submitted_at"],
        first_workers=_first_size(site, first),
        second_workers=_first_size(site, second),
        side_by_side=views[1]["first_started_at"] < _first_end(site, first),
    )


def _submit(site: Site, name: str, least: int, epochs: int) -> int:
    arguments = ["examples/digits.py", "--epochs", str(epochs), "--batch", str(BATCH)]
    return site.submit(name, [*arguments, "--sample-seconds", str(SAMPLE_SECONDS)], (least, WORKERS), runtime="elastic")


def _first_end(site: Site, job: int) -> float:
    """When the first worker of the job ended."""
    return min(float(event["at"]) for event in site.events(job) if event["kind"] == "WORKER_ENDED")


def _first_size(site: Site, job: int) -> int:
    """Workers that were started together with the job."""
    kinds = [event["kind"] for event in site.events(job)]
    started = kinds.index("JOB_STARTED")
    later = next((place for place, kind in enumerate(kinds) if kind == "JOB_RUNNING"), len(kinds))
    return sum(kind == "WORKER_STARTED" for kind in kinds[started:later])
