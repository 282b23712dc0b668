"""A daemon to measure: `sched serve` with a state directory of its own, gone with everything it started."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil

from benchmarks.trouble import Skipped

START_SECONDS_MAX = 60.0
_STOP_SECONDS_MAX = 20.0
_ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})


class Daemon:
    """Started on entry, ready when `__enter__` returns; stopped on exit, and its jobs' processes with it."""

    def __init__(
        self,
        slots: int,
        *,
        settings: Mapping[str, str] | None = None,
        core: int | None = None,
        state_dir: Path | None = None,
    ) -> None:
        """`settings`: SCHED_* variables; `core`: the only core that it may use."""
        self._temporary = tempfile.TemporaryDirectory(prefix="sched-bench-", ignore_cleanup_errors=True)
        self.state_dir = state_dir or Path(self._temporary.name)
        self._slots = slots
        self._settings = dict(settings or {})
        self._core = core
        self._process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(trust_env=False, timeout=60)
        #: From the start of the process until /readyz said yes.
        self.start_seconds = 0.0

    def __enter__(self) -> "Daemon":
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        return str(self.http.base_url).rstrip("/")

    def kill(self) -> None:
        """SIGKILL, as a crash would do."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Start it again in its state directory and wait until it is ready."""
        self._start()

    def get(self, path: str, **query: Any) -> Any:
        response = self.http.get(path, params=query)
        response.raise_for_status()
        return response.json()

    def submit(self, command: Sequence[str], **fields: Any) -> int:
        response = self.http.post("/v1/jobs", json={"command": list(command), **fields})
        response.raise_for_status()
        return int(response.json()["id"])

    def submit_batch(self, jobs: Sequence[Mapping[str, Any]]) -> list[int]:
        response = self.http.post("/v1/jobs/batch", json={"jobs": list(jobs)})
        response.raise_for_status()
        return list(response.json()["ids"])

    def cancel(self, job_id: int) -> None:
        """Ask for the end of a job and wait until it has ended."""
        self.http.post(f"/v1/jobs/{job_id}/cancel")
        self.wait(job_id, lambda job: job["state"] in _ENDED, 30)

    def wait(self, job_id: int, reached: Any, seconds: float) -> dict[str, Any]:
        """The job's view once `reached(view)`; looks again at each of its events."""
        deadline = time.monotonic() + seconds
        after = 0
        while True:
            job: dict[str, Any] = self.get(f"/v1/jobs/{job_id}")
            if reached(job):
                return job
            if time.monotonic() > deadline or job["state"] == "FAILED":
                raise RuntimeError(f"job {job_id} is {job['state']} ({job['reason']}, {job['detail']})")
            after = self.get("/v1/events", job=job_id, after=after, wait=0.2, limit=1000)["next"]

    def workers(self, job_id: int) -> list[dict[str, Any]]:
        """All workers that the job has had."""
        return list(self.get(f"/v1/jobs/{job_id}/workers", limit=1000)["workers"])

    def resident_mib(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss) / 2**20

    def cpu_seconds(self) -> float:
        """CPU time that the daemon has used so far, all its threads together."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def _start(self) -> None:
        command = [sys.executable, "-m", "scheduler.cli", "serve", "--slots", str(self._slots), "--port", "0"]
        began = time.monotonic()
        with suppress(FileNotFoundError):
            (self.state_dir / "daemon.json").unlink()
        with open(self.state_dir / "daemon.log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, "--state-dir", str(self.state_dir)],
                env=_without_settings(os.environ) | self._settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if self._core is not None:
            os.sched_setaffinity(self._process.pid, {self._core})
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() - began > START_SECONDS_MAX:
                last = (self.state_dir / "daemon.log").read_text(errors="replace").strip().splitlines()[-1:]
                raise Skipped(f"the daemon does not start: {' '.join(last)}")
            time.sleep(0.01)
        self.start_seconds = time.monotonic() - began

    def _ready(self) -> bool:
        try:
            self.http.base_url = json.loads((self.state_dir / "daemon.json").read_text())["url"]
            return self.http.get("/readyz", timeout=5).is_success
        except (OSError, ValueError, KeyError, httpx.HTTPError):
            return False

    def _end(self) -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            if self._process is not None:
                self._process.terminate()
                try:
                    self._process.wait(_STOP_SECONDS_MAX)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            kill_all_that_mention(str(self.state_dir))
            self.http.close()
            self._temporary.cleanup()
        finally:
            signal.signal(signal.SIGINT, before)


def _without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's own settings are not what is measured."""
    return {name: value for name, value in environ.items() if not name.startswith("SCHED_")}


def kill_all_that_mention(text: str) -> None:
    """Kill every process whose command line or environment holds this (unique) text; bounded."""
    for _ in range(20):
        left = [p for p in psutil.process_iter() if p.pid != os.getpid() and _mentions(p, text)]
        if not left:
            return
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=2)
    raise RuntimeError(f"processes do not end: {[p.pid for p in left]}")


def _mentions(process: psutil.Process, text: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return any(text in w for w in process.cmdline()) or any(text in v for v in process.environ().values())
    except psutil.Error:
        return False
