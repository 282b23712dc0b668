"""Scripts that do what they should not are contained, and it is told what was wrong: under every runtime."""

import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.daemon import ROOT, Daemon, running_daemon
from tests.e2e.bad_script import FLOOD_BYTES
from tests.elastic.jobs import RunningJob

GRACE_SECONDS = 1.0
#: Longer than the silence of a worker that only waits for a core.
HEARTBEAT_SECONDS = 10.0
LOG_BYTES_MAX = 1 << 20


def submit(daemon: Daemon, kind: str, story: Path, runtime: str, **fields: Any) -> RunningJob:
    env = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "BAD_RUNTIME": runtime}
    command = [sys.executable, str(ROOT / "tests" / "e2e" / "bad_script.py"), kind, str(story)]
    body = {"command": command, "runtime": runtime, "env": env, "grace_seconds": GRACE_SECONDS, **fields}
    return RunningJob(daemon, **body)


def processes(daemon: Daemon, job: RunningJob) -> list[psutil.Process]:
    """All that the job's workers have started, wherever they went."""
    mine = {"SCHED_URL": daemon.url, "SCHED_JOB_ID": str(job.id)}
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and mine.items() <= process.environ().items():
                found.append(process)
        except psutil.Error:
            continue
    return found


def explained(daemon: Daemon, job: RunningJob) -> str:
    return str(daemon.client.get(f"/v1/jobs/{job.id}/explain").json()["summary"])


def ended(job: RunningJob) -> dict[str, Any]:
    """The job once it has."""
    job.wait("ends", lambda: job.show()["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"))
    return job.show()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("runtime", ["command", "elastic", "torchrun"])
def test_one_that_floods_forks_and_is_deaf_is_gone_soon_after_its_grace(runtime: str, tmp_path: Path) -> None:
    story = tmp_path / "story"
    local = {"log_bytes_max": LOG_BYTES_MAX, "log_files_max": 4}
    with running_daemon(tmp_path, slots=1, local=local) as daemon:
        job = submit(daemon, "wild", story, runtime)
        job.wait("has gone wild", story.exists)
        assert len(processes(daemon, job)) >= 4, "the script and its children"
        assert daemon.client.get("/readyz").is_success
        [worker] = job.workers()
        asked_at = time.monotonic()
        job.cancel()
        assert ended(job)["state"] == "CANCELLED"
        assert time.monotonic() - asked_at > GRACE_SECONDS, "it was asked first"
        assert processes(daemon, job) == []
        query = {"worker": worker["id"], "offset": -10_000, "limit": 10_000}
        assert "x" * 1023 in daemon.client.get(f"/v1/jobs/{job.id}/logs", params=query).text
        log = job.log_file(worker["id"]).stat()
        assert log.st_size >= FLOOD_BYTES, "all of it was printed"
        assert log.st_blocks * 512 < 8 * LOG_BYTES_MAX
        [gone] = job.workers()
        assert (gone["exit_reason"], job.show()["retries_used"]) == ("ASKED", 0)


@pytest.mark.slow
@pytest.mark.torch
def test_others_do_the_work_of_one_that_exits_with_0_early(daemon: Daemon, tmp_path: Path) -> None:
    job = submit(daemon, "early", tmp_path / "story", "elastic", min_workers=1, max_workers=2)
    shown = ended(job)
    assert (shown["state"], shown["retries_used"]) == ("SUCCEEDED", 0), job.logs()
    assert "seen once: 160 of 160" in job.logs()


@pytest.mark.slow
@pytest.mark.torch
def test_torchrun_goes_on_without_an_agent_whose_processes_exit_with_0_early(daemon: Daemon, tmp_path: Path) -> None:
    job = submit(daemon, "early", tmp_path / "story", "torchrun", workers=3)
    shown = ended(job)
    assert (shown["state"], shown["retries_used"]) == ("SUCCEEDED", 0), job.logs()
    # First one of three is done early, then one of the two that went on.
    assert "seen once: 40 of 40 by 1" in job.logs()
    assert "processes of another worker ended with exit code 0 before these" in job.logs()
    assert {worker["exit_reason"] for worker in job.workers()} == {"DONE"}


@pytest.mark.slow
@pytest.mark.torch
def test_an_ordinary_group_of_which_one_exits_with_0_early_fails_and_it_is_said_why(
    daemon: Daemon, tmp_path: Path
) -> None:
    job = submit(daemon, "early", tmp_path / "story", "command", workers=3, max_retries=1)
    shown = ended(job)
    assert (shown["state"], shown["retries_used"]) == ("FAILED", 2), job.logs()
    told = explained(daemon, job)
    assert f"FAILED, exit code 1; worker {job.id}-5 on local ended with exit code 0 before the others" in told
    assert "all ranks of a group must end together" in told
    assert processes(daemon, job) == []


def test_it_is_said_who_is_done_early_while_the_others_go_on(daemon: Daemon) -> None:
    job = RunningJob(daemon, command=["sh", "-c", "[ $RANK = 1 ] || sleep 1000"], workers=2)
    job.wait("has one worker left", lambda: len(job.show()["live_workers"]) == 1)
    assert f"worker {job.id}-2 on local ended with exit code 0 before the others" in explained(daemon, job)


def test_an_elastic_one_that_never_polls_is_given_up_and_it_is_said_why(tmp_path: Path) -> None:
    with running_daemon(tmp_path, slots=1, engine={"ready_seconds": 1}) as daemon:
        job = RunningJob(daemon, command=["sleep", "1000"], runtime="elastic", max_retries=0, grace_seconds=1)
        assert ended(job)["state"] == "FAILED"
        told = explained(daemon, job)
        assert "did not report ready within 1 s" in told
        assert "elastic.run" in told
        assert processes(daemon, job) == []


@pytest.mark.slow
@pytest.mark.torch
def test_one_whose_loss_is_no_number_any_more_is_heard_as_before_and_keeps_its_checkpoint(
    daemon: Daemon, tmp_path: Path
) -> None:
    more = {"grace_seconds": 120.0, "heartbeat_seconds": HEARTBEAT_SECONDS}
    job = submit(daemon, "diverged", tmp_path / "story", "elastic", **more)

    def step() -> int:
        return (job.show()["progress"] or {}).get("step") or 0

    job.wait("trains", lambda: step() > 0)
    from_step, reported_at = step(), time.monotonic()
    job.wait("goes on", lambda: step() > from_step and time.monotonic() - reported_at > 2 * HEARTBEAT_SECONDS)
    assert job.show()["progress"]["metrics"] == {"accuracy": 0.5}
    daemon.client.post(f"/v1/jobs/{job.id}/suspend")
    job.wait("is suspended", lambda: job.show()["state"] == "SUSPENDED")
    daemon.client.post(f"/v1/jobs/{job.id}/resume")
    job.wait("goes on from its checkpoint", lambda: job.logs().count("from step ") == 2)
    went_on_from = int(job.logs().rpartition("from step ")[2].split()[0])
    assert went_on_from > from_step
    assert (len(job.workers()), job.show()["retries_used"]) == (2, 0)
    told = "loss is nan: left out of reports"
    job.wait("says so again", lambda: told in job.logs().rpartition("from step ")[2])
    assert job.logs().count(told) == 2, "each worker says so once"
