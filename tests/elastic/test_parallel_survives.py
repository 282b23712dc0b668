"""Under the real daemon: DistributedDataParallel trains through resizes and deaths, and AdaScale follows its noise."""

import re
import sys
from pathlib import Path

import pytest

from tests.daemon import Daemon, running_daemon
from tests.elastic.jobs import RunningJob

SCRIPT = str(Path(__file__).with_name("paralleled.py"))
#: Each with the sizes that it takes.
VARIANTS = {"plain": (3, 1, 2, 3), "buffers": (1, 3), "accumulation": (1, 3), "compile": (1, 3)}


class Job(RunningJob):
    """One such training."""

    def __init__(self, daemon: Daemon, variant: str, slow: Path) -> None:
        super().__init__(
            daemon,
            name=variant,
            command=[sys.executable, SCRIPT, variant, str(slow)],
            runtime="elastic",
            min_workers=1,
            max_workers=2,
            env={"OMP_NUM_THREADS": "1"},
        )

    def scale(self, most: int) -> None:
        """Gives it that many workers, whatever its gradients say of the larger batch."""
        self.change(min_workers=most, max_workers=most)

    def wait_for_steps(self, workers: int) -> None:
        """Until some steps were taken with that many."""
        first: list[int] = []

        def trained() -> bool:
            shown = self.show()
            assert shown["state"] not in ("FAILED", "SUCCEEDED"), (shown, self.logs())
            if not shown["members"] == shown["workers"] == workers:
                first.clear()
                return False
            first.append((shown["progress"] or {}).get("step") or 0)
            return first[-1] > first[0] + 5

        self.wait(f"trains on {workers}", trained)

    def hung(self) -> list[str]:
        """Workers that were ended because they stood still."""
        events = self._daemon.client.get("/v1/events", params={"job": self.id, "limit": 1000}).json()["events"]
        return [event["worker_id"] for event in events if event["kind"] == "WORKER_ENDED" and event["cause"] == "HUNG"]


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("variant", VARIANTS)
def test_ddp_trains_through_resizes_and_a_death_and_measures_the_noise(variant: str, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.touch()
    with running_daemon(tmp_path, slots=3, engine={"backoff_seconds": 0.1}) as daemon:
        job = Job(daemon, variant, slow)
        job.wait_for_steps(2)
        for workers in VARIANTS[variant]:
            job.scale(workers)
            job.wait_for_steps(workers)
        job.kill(1, SCRIPT)
        job.wait_for_steps(3)
        noise = job.show()["progress"]["metrics"]["noise_scale"]
        assert noise > 0.0
        slow.unlink()
        job.wait("ends", lambda: job.show()["state"] == "SUCCEEDED")
        assert job.hung() == []
        assert re.search(r"ranks agree: True, noise scale \d", job.logs()), job.logs()
