"""SIGKILL of the leader, 20 times: until the standby has started a job that came in meanwhile; who answers until then.

Two replicas on one machine share a PostgreSQL database and the local workers; all settings are the defaults.
"""

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from benchmarks.daemon import Daemon, kill_all_that_mention
from benchmarks.figure import Figure, median
from benchmarks.trouble import Skipped
from scheduler.store.sqlstore import SqlStore
from tests.postgres import missing_reason, running_server

KILLS = 20
SLOTS, WORKERS = 4, 2
_SECONDS_MAX = 60.0
_ASK_SECONDS = 0.01


def run() -> list[Figure]:
    if reason := missing_reason():
        raise Skipped(reason)
    dice = random.Random(1)
    with _replicas() as (first, second):
        job = first.submit(["/bin/sleep", "100000"], workers=WORKERS)
        first.wait(job, lambda view: view["state"] == "RUNNING", _SECONDS_MAX)
        seconds, asked = [], _Asked()
        for _ in range(KILLS):
            leader, standby = (first, second) if _leads(first) else (second, first)
            time.sleep(dice.random())  # anywhere between two renewals of the lease
            with asked.of(standby, job):
                seconds.append(_fail_over(leader, standby))
            leader.restart()
        workers = first.workers(job)
        if len(workers) != WORKERS or any(worker["ended_at"] is not None for worker in workers):
            raise RuntimeError(f"workers were replaced: {workers}")
    return [
        Figure("SIGKILL of the leader until the standby has started a job, median", median(seconds), "s"),
        Figure("the slowest", max(seconds), "s", at_most=5.0, note=f"{KILLS} kills, no worker was touched"),
        Figure(
            "discover_hosts at the standby meanwhile, answers that were not the list",
            float(asked.refused),
            "",
            at_most=0.0,
            note=f"of {asked.answered + asked.refused:,}; the slowest took {asked.slowest_seconds * 1000:.0f} ms",
        ),
    ]


@contextmanager
def _replicas() -> Iterator[tuple[Daemon, Daemon]]:
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sched-bench-")))
        url = stack.enter_context(running_server()).url("postgres")
        store = SqlStore(url)
        store.upgrade()
        store.close()
        stack.callback(kill_all_that_mention, str(root))
        settings = {"SCHED_DATABASE_URL": url, "SCHED_LOCAL__DIRECTORY": str(root / "workers")}
        states = root / "a", root / "b"
        for state in states:
            state.mkdir()
        first, second = (stack.enter_context(Daemon(SLOTS, settings=settings, state_dir=state)) for state in states)
        yield first, second


def _leads(daemon: Daemon) -> bool:
    answer = daemon.http.get("/readyz")
    return bool(answer.is_success and answer.json()["role"] == "leader")


def _fail_over(leader: Daemon, standby: Daemon) -> float:
    began = time.monotonic()
    leader.kill()
    job = standby.submit(["/bin/true"])
    standby.wait(job, lambda view: view["attempt"] > 0, _SECONDS_MAX)
    seconds = time.monotonic() - began
    standby.wait(job, lambda view: view["state"] == "SUCCEEDED", _SECONDS_MAX)
    return seconds


class _Asked:
    """Asks one replica for a job's hosts all the time, and counts what it answers."""

    def __init__(self) -> None:
        self.answered = self.refused = 0
        self.slowest_seconds = 0.0

    @contextmanager
    def of(self, daemon: Daemon, job: int) -> Iterator[None]:
        over = threading.Event()
        asking = threading.Thread(target=self._ask, args=(f"{daemon.url}/v1/jobs/{job}/discover_hosts", over))
        asking.start()
        try:
            yield
        finally:
            over.set()
            asking.join()

    def _ask(self, url: str, over: threading.Event) -> None:
        with httpx.Client(trust_env=False, timeout=10) as client:
            while not over.wait(_ASK_SECONDS):
                began = time.monotonic()
                answer = client.get(url)
                self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
                if answer.status_code == 200 and answer.text:
                    self.answered += 1
                else:
                    self.refused += 1
