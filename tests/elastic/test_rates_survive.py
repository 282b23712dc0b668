"""Under the real daemon: the learning rate follows resizes and stops as documented, and the efficiency arrives."""

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon
from tests.elastic.jobs import RunningJob
from tests.elastic.rated import BASE_RATE, DECAY, PER_WORKER, WARMUP_STEPS

SCRIPT = str(Path(__file__).with_name("rated.py"))


class Job(RunningJob):
    """One such training."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(
            daemon,
            command=[sys.executable, SCRIPT],
            runtime="elastic",
            min_workers=1,
            max_workers=1,
            grace_seconds=20.0,
            env={"OMP_NUM_THREADS": "1"},
        )

    def resize(self, workers: int) -> None:
        """Lets it have that many, and waits until its speed at that size is known from steps that it took now."""
        self.scale(workers)
        begun: list[int] = []

        def measured() -> bool:
            shown = self.show()
            if shown["state"] != "RUNNING" or shown["members"] != workers:
                begun.clear()
                return False
            begun.append(shown["progress"]["step"])
            return begun[-1] > begun[0] + 1 and workers in dict(shown["progress"]["throughput"])

        self.wait(f"is measured with {workers}", measured)

    def ask(self, what: str, state: str) -> None:
        assert self._daemon.client.post(f"/v1/jobs/{self.id}/{what}").status_code == 202
        self.wait(f"is {state}", lambda: self.show()["state"] == state)

    def progress(self) -> dict[str, Any]:
        """What it last reported."""
        reported: dict[str, Any] = self.show()["progress"]
        return reported

    def steps(self) -> list[dict[str, Any]]:
        """What rank 0 printed, in order."""
        printed = [json.loads(line) for line in self.logs().splitlines() if line.startswith("{") and line.endswith("}")]
        return sorted(printed, key=lambda step: int(step["step"]))


def documented(sizes: list[int]) -> list[float]:
    """The rates of steps at these sizes, by what docs/elastic.md says: linear, moved there over the warm-up."""
    rates = []
    start, factor, warmed, worth = 1.0, 1.0, WARMUP_STEPS, 0
    for before, size in pairwise([sizes[0], *sizes]):
        if size != before:
            start, warmed = factor, 0
        # The next step's factor, were there no other resize, is where a resize begins.
        warmed += 1
        factor = start + (size - start) * min(warmed / WARMUP_STEPS, 1.0)
        rates.append(BASE_RATE * DECAY**worth * factor)
        factor = start + (size - start) * min((warmed + 1) / WARMUP_STEPS, 1.0)
        worth += size
    return rates


@pytest.mark.slow
@pytest.mark.torch
def test_the_rate_follows_resizes_and_a_stop_as_documented_and_the_efficiency_arrives(daemon: Daemon) -> None:
    job = Job(daemon)
    job.wait("is measured", lambda: bool(job.progress()["throughput"]))
    for size in (3, 2):
        job.resize(size)
    progress = job.progress()
    noise = progress["metrics"]["noise_scale"]
    assert progress["efficiency"] == pytest.approx((noise + PER_WORKER) / (noise + 2 * PER_WORKER), abs=1e-5)
    job.ask("suspend", "SUSPENDED")
    stopped_at = job.progress()["step"]
    job.ask("resume", "RUNNING")
    job.wait("has warmed up again", lambda: job.progress()["step"] > stopped_at + WARMUP_STEPS)
    job.ask("cancel", "CANCELLED")
    steps = job.steps()
    assert [step["step"] for step in steps] == list(range(len(steps))), "each step was taken once"
    sizes = [step["size"] for step in steps]
    runs = [size for size, after in pairwise([*sizes, 0]) if size != after]
    # A newcomer waits for a slower one only for a while.
    assert runs[:3] == [1, 3, 2] or runs[:4] == [1, 2, 3, 2]
    assert [step["rate"] for step in steps] == pytest.approx(documented(sizes))
