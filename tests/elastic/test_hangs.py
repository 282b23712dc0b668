"""Workers that hang are found and replaced, and the others soon go on: in a collective or a step, under any runtime."""

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon, running_daemon
from tests.effort import long
from tests.elastic.counting import SAMPLES
from tests.elastic.hanging import STEPS
from tests.elastic.jobs import RunningJob
from tests.elastic.steady import EPOCHS

HANGING, STEADY, COUNTING = (str(Path(__file__).with_name(name)) for name in ("hanging.py", "steady.py", "counting.py"))
POLICY = {"grow_cooldown_seconds": 0, "grow_payback_factor": 0}
GROUP_TIMEOUT_SECONDS = 4.0
HEARTBEAT_SECONDS = 6.0
#: From the end of the silence that a worker may keep to the first step of the others, on a busy machine. Without the
#: daemon's list they would wait for the timeout of the collective: a minute here, half an hour under torchrun.
REFORM_SECONDS_MAX = {"elastic": 8.0, "torchrun": 20.0}


def ends(daemon: Daemon, job: RunningJob) -> dict[str, tuple[str, str]]:
    """What the history says of each worker's end: the cause, and in words."""
    events = daemon.client.get("/v1/events", params={"job": job.id, "limit": 1000}).json()["events"]
    ended = [event for event in events if event["kind"] == "WORKER_ENDED"]
    return {event["worker_id"]: (event["cause"], event["detail"]) for event in ended}


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(240)
def test_one_that_hangs_in_a_step_while_it_reports_as_ever_is_missed_by_the_others_and_replaced(tmp_path: Path) -> None:
    hung = tmp_path / "hung"
    with running_daemon(tmp_path, slots=3, policy=POLICY, engine={"backoff_seconds": 0.1}) as daemon:
        job = RunningJob(
            daemon,
            command=[sys.executable, HANGING, str(hung), str(GROUP_TIMEOUT_SECONDS), "0.02"],
            runtime="elastic",
            workers=3,
            grace_seconds=5.0,
            env={"OMP_NUM_THREADS": "1"},
        )
        job.wait("hangs", hung.exists)
        hung_at = time.monotonic()
        worker = hung.read_text()
        job.wait(f"lost {worker}", lambda: not job.has(worker))
        took_seconds = time.monotonic() - hung_at
        print(f"found after {took_seconds:.1f} s")
        job.wait("ends", lambda: job.show()["state"] == "SUCCEEDED")
        cause, told = ends(daemon, job)[worker]
        assert cause == "HUNG"
        assert f"waited {GROUP_TIMEOUT_SECONDS:.0f} s for it to come back to the group" in told
        assert job.show()["retries_used"] == 1
        assert f"every step taken [1] times, total {STEPS}" in job.logs()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(240)
@long
def test_a_newcomer_waits_for_the_end_of_the_others_step_however_long_that_takes(tmp_path: Path) -> None:
    timeout_seconds, step_seconds = 1.0, 4.0
    never = tmp_path / "hung"
    never.touch()
    with running_daemon(tmp_path, slots=2, policy=POLICY) as daemon:
        job = RunningJob(
            daemon,
            command=[sys.executable, HANGING, str(never), str(timeout_seconds), str(step_seconds)],
            runtime="elastic",
            max_workers=1,
            env={"OMP_NUM_THREADS": "1"},
        )
        job.wait("trains", lambda: "of 1 workers" in job.logs())
        job.scale(2)
        job.wait("has taken steps with two", lambda: job.logs().count("of 2 workers") >= 2)
        assert job.show()["retries_used"] == 0
        assert len(job.workers()) == 2


class Watched(RunningJob):
    """Three workers that tell of each step; silence is noticed, and the file keeps them slow."""

    def __init__(self, daemon: Daemon, runtime: str, command: list[str], slow: Path, **request: Any) -> None:
        self._slow = slow
        slow.touch()
        fields = {"min_workers": 1, "max_workers": 3, "grace_seconds": 5.0, "env": {"OMP_NUM_THREADS": "1"}, **request}
        super().__init__(daemon, runtime=runtime, command=command, **fields)
        self.wait("trains on 3", lambda: self.show()["members"] == 3 and self.last_size() == 3)

    def last_size(self) -> int:
        """With how many workers the last step was taken."""
        ranks = {worker["rank"]: worker["id"] for worker in self.show()["live_workers"]}
        sizes = re.findall(r"step \d+ of (\d) workers", self.log(ranks[0])) if 0 in ranks else []
        return int(sizes[-1]) if sizes else 0

    def stop(self, rank: int, argument: str) -> tuple[str, float]:
        """SIGSTOP to the process of a worker; which it was, and after how many seconds the others went on."""
        worker = self.member(rank)
        self.process_of(worker, argument).suspend()
        stopped_at = time.monotonic()
        self.wait("goes on with 2", lambda: not self.has(worker) and self.last_size() == 2)
        return worker, time.monotonic() - stopped_at

    def finish(self) -> str:
        """Lets it run to its end; all output."""
        self._slow.unlink()
        self.wait("ends", lambda: self.show()["state"] == "SUCCEEDED")
        return self.logs()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(240)
@pytest.mark.parametrize("rank", [0, pytest.param(2, marks=long)])
@pytest.mark.parametrize("runtime", ["elastic", "torchrun"])
def test_one_that_is_stopped_is_found_by_its_silence_and_the_others_go_on_at_once(
    runtime: str, rank: int, tmp_path: Path
) -> None:
    slow = tmp_path / "slow"
    scripts = {"elastic": [STEADY, str(slow), "60"], "torchrun": [COUNTING, "200", str(slow)]}
    # A replacement may come later than the others go on.
    with running_daemon(tmp_path, slots=3, policy=POLICY, engine={"backoff_seconds": 20}) as daemon:
        job = Watched(daemon, runtime, [sys.executable, *scripts[runtime]], slow, heartbeat_seconds=HEARTBEAT_SECONDS)
        argument = STEADY if runtime == "elastic" else "torch.distributed.run"
        worker, took_seconds = job.stop(rank, argument)
        print(f"{runtime}, rank {rank}: the others went on after {took_seconds:.1f} s")
        assert took_seconds <= HEARTBEAT_SECONDS + REFORM_SECONDS_MAX[runtime]
        assert ends(daemon, job)[worker] == ("HUNG", f"it sent no report for {HEARTBEAT_SECONDS:g} s")
        output = job.finish()
        assert job.show()["retries_used"] == 1, (ends(daemon, job), output)
        done = f"every sample seen [{EPOCHS}] times" if runtime == "elastic" else f"total {SAMPLES * 200} after 200"
        assert done in output


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(240)
def test_one_that_is_stopped_and_not_watched_is_missed_by_the_others(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    with running_daemon(tmp_path, slots=3, policy=POLICY, engine={"backoff_seconds": 20}) as daemon:
        job = Watched(daemon, "elastic", [sys.executable, STEADY, str(slow), f"{GROUP_TIMEOUT_SECONDS}"], slow)
        worker, took_seconds = job.stop(0, STEADY)
        print(f"rank 0 not watched: the others went on after {took_seconds:.1f} s")
        assert ends(daemon, job)[worker][0] == "HUNG"
        assert f"every sample seen [{EPOCHS}] times" in job.finish()
