"""Real training under the real daemon: 3 → 1 → 2 → 3 workers and a SIGKILL change neither coverage nor accuracy."""

import re
import sys
from pathlib import Path

import pytest

from tests.daemon import Daemon
from tests.elastic.jobs import RunningJob
from tests.elastic.processes import SECONDS_MAX, environment, python

EPOCHS = 12
STEPS = EPOCHS * 23
SEED = 1
pytestmark = pytest.mark.torch

TRAINING = str(Path(__file__).with_name("training.py"))


class Job(RunningJob):
    """One training that the daemon runs."""

    def __init__(self, daemon: Daemon, slow: Path) -> None:
        self._slow = slow
        slow.touch()
        options = ["--epochs", str(EPOCHS), "--seed", str(SEED), "--sample-seconds", "0.01"]
        super().__init__(
            daemon,
            name="digits",
            command=[sys.executable, TRAINING, *options, str(slow)],
            runtime="elastic",
            min_workers=1,
            max_workers=3,
            grace_seconds=20.0,
            env={"OMP_NUM_THREADS": "1"},
        )

    def wait_for_workers(self, count: int) -> None:
        """Until that many train: a step was finished at this size."""
        trained: list[int] = []

        def settled() -> bool:
            shown = self.show()
            assert shown["state"] not in ("FAILED", "SUCCEEDED", "CANCELLED"), (shown, self.logs())
            if not (shown["state"] == "RUNNING" and shown["members"] == shown["workers"] == count):
                trained.clear()
                return False
            trained.append((shown["progress"] or {}).get("step") or 0)
            return trained[-1] > trained[0]

        self.wait(f"trains on {count}", settled)

    def finish(self) -> str:
        """Lets it run at full speed to its end; the output of all its workers."""
        self._slow.unlink()
        self.wait("ends", lambda: self.show()["state"] == "SUCCEEDED")
        return self.logs()


def accuracy_in(output: str) -> float:
    """What rank 0 printed at the end, after the right number of steps."""
    found = re.search(r"accuracy ([\d.]+) after (\d+) steps", output)
    assert found is not None, output
    assert int(found[2]) == STEPS + EPOCHS
    return float(found[1])


def undisturbed(tmp_path: Path) -> float:
    """Accuracy of the same training alone."""
    command = [TRAINING, "--epochs", str(EPOCHS), "--seed", str(SEED), str(tmp_path / "absent")]
    with python(command, env=[environment()]) as (alone,):
        output, _ = alone.communicate(timeout=SECONDS_MAX)
    return accuracy_in(output)


def test_resizes_and_a_death_change_neither_coverage_nor_accuracy(daemon: Daemon, tmp_path: Path) -> None:
    job = Job(daemon, tmp_path / "slow")
    job.wait_for_workers(3)
    for most in (1, 2, 3):
        job.scale(most)
        job.wait_for_workers(most)
    job.kill(0, TRAINING)
    job.wait_for_workers(3)
    output = job.finish()
    epochs = [int(number) for number in re.findall(r"epoch (\d+): every sample seen exactly once", output)]
    assert sorted(set(epochs)) == list(range(EPOCHS))
    assert abs(accuracy_in(output) - undisturbed(tmp_path)) <= 0.02


@pytest.mark.slow
def test_a_suspended_training_resumes_at_its_last_step(daemon: Daemon, tmp_path: Path) -> None:
    job = Job(daemon, tmp_path / "slow")
    job.wait_for_workers(3)
    step = job.show()["progress"]["step"]
    assert step > 0
    assert daemon.client.post(f"/v1/jobs/{job.id}/suspend").status_code == 202
    job.wait("is suspended", lambda: job.show()["state"] == "SUSPENDED")
    assert daemon.client.post(f"/v1/jobs/{job.id}/resume").status_code == 202
    job.wait_for_workers(3)
    output = job.finish()
    resumed = [int(number) for number in re.findall(r"rank 0 of \d, step (\d+)", output)]
    assert max(resumed) >= step
    assert job.show()["retries_used"] == 0
    accuracy_in(output)
