"""Experiment 3: the AUC of elastic training against that of fixed training, by allreduce and over parameter servers.

As published a wide & deep model is trained by a fixed number of workers, and by workers that come and go. Here four
trainings of a seed run at once: each way with 4 workers, and with 2 to 6, by bounds that are changed at random. All see
the same records and begin with the same weights.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster.site import Site
from benchmarks.programs.wide_deep import BATCH
from benchmarks.programs.wide_deep_servers import SHARD_RECORDS, test_auc
from benchmarks.steps import all_steps
from benchmarks.wide_deep import FIXED, SIZES, changes, course_of

SERVERS = 2
SLOTS = FIXED + max(SIZES) + 2 * SERVERS + FIXED + max(SIZES)
RECORDS, EPOCHS = 40_000, 3
#: 0.36 s a step of four workers, and as long for a shard.
SAMPLE_SECONDS = 0.0014
ALLREDUCE, PARAMETER_SERVERS = "allreduce", "parameter servers"
WAYS = (ALLREDUCE, PARAMETER_SERVERS)
_SECONDS_MAX = 600.0


@dataclass(slots=True)
class Training:
    """A job that runs, and what is still to be done to it."""

    job: int
    #: (step or shard, most workers), in their order.
    changes: list[tuple[int, int]]
    done: bool = False

    def attend(self, site: Site) -> None:
        """Ask for the next change if its time has come; notice the end."""
        view = site.job(self.job)
        if view["state"] == "FAILED":
            raise RuntimeError(f"job {self.job} failed: {view['detail']}")
        self.done = view["state"] == "SUCCEEDED"
        data = view["data_progress"]
        reached = data["done"] if data else view["progress"]["step"] or 0
        if not self.done and self.changes and reached >= self.changes[0][0]:
            _, most = self.changes.pop(0)
            site.daemon.http.patch(f"/v1/jobs/{self.job}", json={"max_workers": most}).raise_for_status()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one training."""

    auc: float
    resizes: int
    #: Samples of the whole training, or shards at each server, that do not count exactly once.
    wrong: int


def train_all(site: Site, seed: int, records: int = RECORDS, epochs: int = EPOCHS) -> dict[tuple[str, bool], Outcome]:
    """By way, and whether the workers come and go."""
    running = {
        (way, elastic): _submit(site, way, elastic, seed, records, epochs) for way in WAYS for elastic in (False, True)
    }
    deadline = time.monotonic() + _SECONDS_MAX
    while not all(training.done for training in running.values()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the trainings of seed {seed} did not end within {_SECONDS_MAX:g} s")
        for training in running.values():
            training.attend(site)
        time.sleep(0.2)
    return {
        (way, elastic): _outcome(site, training.job, way, elastic, seed, records, epochs)
        for (way, elastic), training in running.items()
    }


def _submit(site: Site, way: str, elastic: bool, seed: int, records: int, epochs: int) -> Training:
    least = min(SIZES) if elastic else FIXED
    name = f"{way.replace(' ', '-')}-{'elastic' if elastic else 'fixed'}"
    if way == ALLREDUCE:
        arguments = ["benchmarks/programs/wide_deep.py", str(seed), str(records), str(epochs), "constant"]
        job = site.submit(name, [*arguments, str(SAMPLE_SECONDS)], (least, FIXED), runtime="elastic")
        return Training(job, changes(seed, epochs * (records // BATCH)) if elastic else [])
    shards = records // SHARD_RECORDS
    arguments = ["benchmarks/programs/wide_deep_servers.py", str(_rows(site, seed, elastic)), str(seed), str(records)]
    job = site.submit(
        name,
        [*arguments, str(SAMPLE_SECONDS)],
        (least, FIXED),
        fixed={"replicas": SERVERS},
        data={"shards": shards, "epochs": epochs, "shuffle": True},
    )
    return Training(job, changes(seed, epochs * shards) if elastic else [])


def _rows(site: Site, seed: int, elastic: bool) -> Path:
    """Where the servers of a training keep what they hold."""
    return site.shared / f"rows-{seed}-{'elastic' if elastic else 'fixed'}"


def _outcome(site: Site, job: int, way: str, elastic: bool, seed: int, records: int, epochs: int) -> Outcome:
    resizes = sum(event["kind"] in ("JOB_GREW", "JOB_SHRANK") for event in site.events(job))
    if way == ALLREDUCE:
        course = course_of(all_steps(site.daemon, job))
        return Outcome(course.curve[-1][1], resizes, course.wrong)
    quality, applied = test_auc(_rows(site, seed, elastic), seed, records, SERVERS)
    wanted = list(range(epochs * (records // SHARD_RECORDS)))
    wrong = sum(len(set(wanted) ^ set(each)) + len(each) - len(set(each)) for each in applied)
    return Outcome(quality, resizes, wrong)
