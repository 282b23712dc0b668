"""Real horovodrun under the real daemon: it follows the scheduler's list, every step counts, a slot is free when its
process is gone."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.daemon import ROOT, Daemon
from tests.elastic.jobs import RunningJob

SCRIPT = str(Path(__file__).with_name("horovod_counting.py"))
SAMPLES = 64
#: Of a process that has imported Horovod before it became the training.
PROCESS = "warm"

needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None,
    reason="horovod is not installed: a wheel in ../shared/wheels, or pip install horovod==0.28.1 with torch 2.13.0",
)


class Counting(RunningJob):
    """The script that counts, on one to three workers."""

    phase_seconds_max = 240.0

    def __init__(self, daemon: Daemon, slow: Path, **request: Any) -> None:
        self._slow = slow
        slow.touch()
        fields: dict[str, Any] = {
            "command": [sys.executable, SCRIPT, str(slow)],
            "min_workers": 1,
            "max_workers": 3,
            "grace_seconds": 60.0,
            "env": {"OMP_NUM_THREADS": "1", "HOROVOD_GLOO_TIMEOUT_SECONDS": "60"},
        }
        super().__init__(daemon, runtime="horovod", **{**fields, **request})

    def wait_for_workers(self, count: int) -> None:
        """Until that many have counted a step since the last change."""

        def counted() -> bool:
            shown = self.show()
            assert shown["state"] not in ("FAILED", "SUCCEEDED", "CANCELLED"), (shown, self.logs())
            steps = self.steps([worker["id"] for worker in shown["live_workers"]])
            settled = shown["state"] == "RUNNING" and shown["members"] == shown["workers"] == count
            return settled and bool(steps) and max(steps)[1] == count

        self.wait(f"counts with {count}", counted)

    def steps(self, workers: list[str]) -> list[tuple[int, int]]:
        """Number and size of each step that these workers wrote down."""
        logs = "\n".join(map(self.log, workers))
        return [(int(step), int(size)) for step, size in re.findall(r"step (\d+) of (\d) workers", logs)]

    def finish(self) -> None:
        """Lets it run at full speed to its end; the total then holds each sample of each step once."""
        self._slow.unlink()
        self.wait("ends", lambda: self.show()["state"] in ("SUCCEEDED", "FAILED"))
        output = self.logs()
        assert self.show()["state"] == "SUCCEEDED", (self.show(), output)
        (last,) = re.findall(r"total (\d+) after (\d+) steps", output)
        total, taken = map(int, last)
        assert total == SAMPLES * taken
        written = {step for step, _ in self.steps([worker["id"] for worker in self.workers()])}
        assert written >= set(range(1, taken + 1))


def rival(daemon: Daemon, workers: int, priority: int) -> RunningJob:
    """A job that holds slots and does nothing."""
    return RunningJob(daemon, command=["sleep", "600"], workers=workers, priority=priority)


@needs_horovod
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_planned_changes_consume_no_retry_and_lose_no_step(daemon: Daemon, tmp_path: Path) -> None:
    first = rival(daemon, workers=1, priority=5)
    job = Counting(daemon, tmp_path / "slow")
    job.wait_for_workers(2)
    first.cancel()
    job.wait_for_workers(3)
    rivals = [rival(daemon, workers=1, priority=-1) for _ in range(2)]
    for each in rivals:
        each.change(priority=5)
    job.wait_for_workers(1)
    for each in rivals:
        each.wait("runs", lambda each=each: each.show()["state"] == "RUNNING")
    rivals[0].cancel()
    job.wait_for_workers(2)
    job.finish()
    shown = job.show()
    assert (shown["retries_used"], shown["attempt"]) == (0, 1)
    assert {worker["exit_reason"] for worker in job.workers()} == {"ASKED", "DONE"}


@needs_horovod
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_a_killed_process_is_one_failure_and_loses_no_step(daemon: Daemon, tmp_path: Path) -> None:
    job = Counting(daemon, tmp_path / "slow", env={"OMP_NUM_THREADS": "1"})
    job.wait_for_workers(3)
    victim = job.member(1)
    job.process_of(victim, PROCESS).kill()
    job.wait(f"lost {victim}", lambda: not job.has(victim))
    job.wait_for_workers(3)
    job.finish()
    shown = job.show()
    assert (shown["retries_used"], shown["attempt"]) == (1, 1)
    ended = {worker["id"]: (worker["exit_reason"], worker["exit_code"]) for worker in job.workers()}
    assert ended[victim] == ("FAILED", 137)


@needs_horovod
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_a_script_that_always_fails_ends_the_job_after_its_retries(daemon: Daemon, tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit('no such data')\n")
    job = Counting(daemon, tmp_path / "slow", command=[sys.executable, str(script)], max_workers=1, max_retries=1)
    job.wait("fails", lambda: job.show()["state"] == "FAILED")
    shown = job.show()
    assert shown["retries_used"] == 2
    assert "FAILED, exit code 1" in shown["detail"]
    assert "no such data" in job.logs()


@needs_horovod
@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_the_example_trains_on_two_workers_and_leaves_nothing_behind(daemon: Daemon, tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "horovod_digits.py")
    job = Counting(
        daemon, tmp_path / "slow", command=[sys.executable, script, "--epochs", "2"], min_workers=2, max_workers=2
    )
    job.wait("ends", lambda: job.show()["state"] == "SUCCEEDED")
    (accuracy,) = re.findall(r"accuracy ([\d.]+) on 2 workers", job.logs())
    assert float(accuracy) > 0.8
    mine = {"SCHED_JOB_ID": str(job.id), "SCHED_URL": daemon.url}
    for process in psutil.process_iter(["environ"]):
        assert not mine.items() <= (process.info["environ"] or {}).items(), process


@needs_horovod
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_a_job_that_becomes_smaller_than_horovodrun_knows_starts_again_without_blame(
    daemon: Daemon, tmp_path: Path
) -> None:
    job = Counting(daemon, tmp_path / "slow", min_workers=2, max_workers=2)
    job.wait_for_workers(2)
    job.change(min_workers=1, max_workers=1)
    job.wait_for_workers(1)
    job.finish()
    shown = job.show()
    assert (shown["retries_used"], shown["attempt"]) == (0, 2)
    assert "restarting with --min-np 1" in job.logs()


def test_the_driver_says_what_is_missing_where_horovod_is_not_installed(tmp_path: Path) -> None:
    variables = {"SCHED_URL": "http://127.0.0.1:9", "SCHED_JOB_ID": "1", "SCHED_WORKER_ID": "1-1", "PATH": "/bin"}
    words = ["drive", str(tmp_path / "horovodrun"), "--", "python", "train.py"]
    command = [sys.executable, "-m", "scheduler.elastic.horovod", *words]
    ended = subprocess.run(command, env={**variables, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr == (
        f"driver: {tmp_path}/horovodrun not found: install horovod, or give the path of horovodrun\n"
    )
