"""An elastic training on the GPU under the real daemon: grows, shrinks, loses workers, and goes back to its commits.

The node has one GPU and is oversold, so that several workers share it.
"""

import re
import sys
import time
from pathlib import Path

import pytest

from scheduler.clusters.local.gpus import Gpu
from tests.daemon import Daemon, running_daemon
from tests.elastic.jobs import RunningJob

EPOCHS = 30
TRAINING = str(Path(__file__).with_name("training.py"))
POLICY = {"oversell_memory_max": 0.98}


class Training(RunningJob):
    """Beside another job, which holds the GPUs' own slots."""

    phase_seconds_max = 90.0

    def __init__(self, daemon: Daemon, slow: Path, loop: str, backend: str) -> None:
        self._slow = slow
        slow.touch()
        super().__init__(
            daemon,
            command=[sys.executable, TRAINING, str(slow), loop, str(EPOCHS), backend],
            runtime="elastic",
            min_workers=1,
            max_workers=1,
            oversell=True,
            grace_seconds=20.0,
        )

    def trains_on(self, count: int) -> float:
        """Waits for two steps of this size; the seconds that it took."""
        began = time.monotonic()

        def stepped() -> bool:
            shown = self.show()
            assert shown["state"] not in ("FAILED", "SUCCEEDED", "CANCELLED"), (shown, self.logs())
            if not shown["members"] == shown["workers"] == count:
                return False
            return self.log(self.member(0)).count(f" of {count} with ") >= 2

        self.wait(f"trains on {count}", stepped)
        return time.monotonic() - began

    def finish(self) -> str:
        """Lets it run to its end; all output."""
        self._slow.unlink()
        self.wait("ends", lambda: self.show()["state"] == "SUCCEEDED")
        return self.logs()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(400)
@pytest.mark.parametrize("loop", ["average", "ddp"])
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_resizes_and_deaths_lose_no_commit(cuda: Gpu, loop: str, backend: str, tmp_path: Path) -> None:
    engine = {"backoff_seconds": 0.1}
    with running_daemon(tmp_path, local={"oversell": 4.0}, policy=POLICY, engine=engine) as daemon:
        (node,) = daemon.client.get("/v1/nodes").json()["nodes"]
        RunningJob(daemon, name="owner", command=["sleep", "600"], workers=node["slots"])
        job = Training(daemon, tmp_path / "slow", loop, backend)
        took = [f"1: {job.trains_on(1):.1f} s"]
        for count in (2, 3, 1, 3):
            job.scale(count)
            took.append(f"{count}: {job.trains_on(count):.1f} s")
        for rank in (2, 0):
            job.kill(rank, TRAINING)
            took.append(f"3 after a death of rank {rank}: {job.trains_on(3):.1f} s")
        print(f"{backend}, {loop}: " + ", ".join(took))
        assert job.show()["retries_used"] == 2
        output = job.finish()
    assert f"every sample seen [{EPOCHS}] times" in output
    assert f"cuda:{backend}" in output.split("of 3: ", 1)[1].splitlines()[0]
    begins_with_commits(output, 9)


@pytest.mark.slow
@pytest.mark.torch
def test_a_suspended_training_goes_on_from_its_checkpoint(cuda: Gpu, tmp_path: Path) -> None:
    with running_daemon(tmp_path, local={"oversell": 4.0}, policy=POLICY) as daemon:
        job = Training(daemon, tmp_path / "slow", "average", "gloo")
        job.trains_on(1)
        assert daemon.client.post(f"/v1/jobs/{job.id}/suspend").status_code == 202
        job.wait("is suspended", lambda: job.show()["state"] == "SUSPENDED")
        assert daemon.client.post(f"/v1/jobs/{job.id}/resume").status_code == 202
        job.trains_on(1)
        output = job.finish()
    assert "cuda:nccl" in output
    assert f"every sample seen [{EPOCHS}] times" in output
    begins_with_commits(output, 2)


def begins_with_commits(output: str, least: int) -> None:
    """At least `least` ranks began at a step, each with a value that was committed there."""
    committed: dict[int, set[str]] = {}
    for step, value in re.findall(r"commit (\d+) of \d with (\S+)", output):
        committed.setdefault(int(step), set()).add(value)
    begun = [(int(step), value) for step, value in re.findall(r"begins at (\d+) with (\S+)", output)]
    assert len(begun) >= least
    for step, value in begun:
        # The commit at an epoch's end keeps what the one before did.
        assert step == 0 or value in (committed.get(step) or committed[step - 1]), (step, value)
