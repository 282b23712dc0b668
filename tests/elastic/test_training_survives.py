"""Real training under the real daemon: 4 → 2 → 3 → 4 workers and a SIGKILL change neither coverage nor accuracy."""

import re
import sys
from pathlib import Path

import pytest

from tests.daemon import Daemon, running_daemon
from tests.elastic.jobs import RunningJob
from tests.elastic.processes import environment, python

EPOCHS = 12
STEPS = EPOCHS * 23
SEEDS = (1, 2)
TRAINING = str(Path(__file__).with_name("training.py"))


class Job(RunningJob):
    """One training that the daemon runs."""

    def __init__(self, daemon: Daemon, seed: int, slow: Path) -> None:
        self._slow = slow
        slow.touch()
        options = ["--epochs", str(EPOCHS), "--seed", str(seed), "--step-seconds", "0.5"]
        super().__init__(
            daemon,
            name=f"digits-{seed}",
            command=[sys.executable, TRAINING, *options, str(slow)],
            runtime="elastic",
            min_workers=1,
            max_workers=4,
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

    def kill_a_worker(self, rank: int) -> None:
        """SIGKILL, and waits until the daemon knows."""
        died = self.member(rank)
        self.process_of(died, TRAINING).kill()
        self.wait(f"lost {died}", lambda: not self.has(died))

    def finish(self) -> str:
        """Lets it run at full speed to its end; the output of all its workers."""
        self._slow.unlink()
        self.wait("ends", lambda: self.show()["state"] == "SUCCEEDED")
        return self.logs()


def all_train_on(jobs: list[Job], count: int) -> None:
    """Waits for each."""
    for job in jobs:
        job.wait_for_workers(count)


def accuracy_in(output: str) -> float:
    """What rank 0 printed at the end, after the right number of steps."""
    found = re.search(r"accuracy ([\d.]+) after (\d+) steps", output)
    assert found is not None, output
    assert int(found[2]) == STEPS + EPOCHS
    return float(found[1])


def undisturbed(seed: int, tmp_path: Path) -> float:
    """Accuracy of the same training alone."""
    command = [TRAINING, "--epochs", str(EPOCHS), "--seed", str(seed), str(tmp_path / "absent")]
    with python(command, env=[environment()]) as (alone,):
        output, _ = alone.communicate(timeout=60)
    return accuracy_in(output)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(400)
def test_resizes_and_a_death_change_neither_coverage_nor_accuracy(tmp_path: Path) -> None:
    policy = {"grow_cooldown_seconds": 0, "grow_payback_factor": 0}
    with running_daemon(tmp_path, slots=4 * len(SEEDS), policy=policy, engine={"backoff_seconds": 0.1}) as daemon:
        jobs = [Job(daemon, seed, tmp_path / f"slow-{seed}") for seed in SEEDS]
        all_train_on(jobs, 4)
        for most in (2, 3, 4):
            for job in jobs:
                job.scale(most)
            all_train_on(jobs, most)
        for rank, job in enumerate(jobs):
            job.kill_a_worker(rank)
        all_train_on(jobs, 4)
        outputs = [job.finish() for job in jobs]
    for seed, output in zip(SEEDS, outputs, strict=True):
        epochs = [int(number) for number in re.findall(r"epoch (\d+): every sample seen exactly once", output)]
        assert sorted(set(epochs)) == list(range(EPOCHS))
        assert abs(accuracy_in(output) - undisturbed(seed, tmp_path)) <= 0.02


@pytest.mark.slow
@pytest.mark.torch
def test_a_suspended_training_resumes_at_its_last_step(tmp_path: Path) -> None:
    with running_daemon(tmp_path, slots=2) as daemon:
        job = Job(daemon, 1, tmp_path / "slow")
        job.wait_for_workers(2)
        step = job.show()["progress"]["step"]
        assert step > 0
        assert daemon.client.post(f"/v1/jobs/{job.id}/suspend").status_code == 202
        job.wait("is suspended", lambda: job.show()["state"] == "SUSPENDED")
        assert daemon.client.post(f"/v1/jobs/{job.id}/resume").status_code == 202
        job.wait_for_workers(2)
        output = job.finish()
        resumed = [int(number) for number in re.findall(r"rank 0 of \d, step (\d+)", output)]
        assert max(resumed) >= step
        assert job.show()["retries_used"] == 0
        accuracy_in(output)
