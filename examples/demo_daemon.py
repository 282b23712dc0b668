"""A daemon of the demo's own: started with a state directory that goes away, and never outlived by any process."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil

START_SECONDS_MAX = 180.0
STOP_SECONDS_MAX = 8.0
_POLL_SECONDS = 0.05


class DemoError(Exception):
    """The demo cannot go on; the message is one line for people."""


class Daemon:
    """`sched serve` as a user would start it, and requests to its API."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._directory = tempfile.TemporaryDirectory(prefix="sched-demo-")
        self.state_dir = Path(self._directory.name)
        self._process: subprocess.Popen[bytes] | None = None
        self._http = httpx.Client(trust_env=False)

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

    def get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, params=query).json()

    def text(self, path: str, **query: Any) -> str:
        return self._ask("GET", path, params=query).content.decode(errors="replace")

    def post(self, path: str, body: Any = None) -> Any:
        return self._ask("POST", path, json=body).json()

    def processes(self) -> list[psutil.Process]:
        """Everything started for this daemon: command line or environment names its state directory."""
        return [p for p in psutil.process_iter() if p.pid != os.getpid() and _mentions(p, str(self.state_dir))]

    def worker_process(self, worker: str) -> psutil.Process:
        """The process of a running worker, found the way an operator would: by its environment."""
        for process in self.processes():
            try:
                if process.environ().get("SCHED_WORKER_ID") == worker:
                    return process
            except psutil.Error:
                continue
        raise DemoError(f"worker {worker} has no process")

    def _ask(self, method: str, path: str, **parts: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, timeout=60, **parts)
        except httpx.HTTPError as error:
            raise DemoError(f"the daemon does not answer {method} {path}: {error}{self._last_words()}") from None
        if response.is_error:
            raise DemoError(f"{method} {path}: {response.status_code} {response.text[:300]}")
        return response

    def _start(self) -> None:
        command = [sys.executable, "-m", "scheduler.cli", "serve", "--slots", str(self._slots), "--port", "0"]
        with open(self.state_dir / "daemon.log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, "--state-dir", str(self.state_dir)],
                env={name: value for name, value in os.environ.items() if not name.startswith("SCHED_")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demo, which ends its jobs before the daemon
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._ready():
            if self._process.poll() is not None:
                raise DemoError(f"the daemon exited with status {self._process.returncode}{self._last_words()}")
            if time.monotonic() > deadline:
                raise DemoError(f"the daemon is not ready after {START_SECONDS_MAX:g} s{self._last_words()}")
            time.sleep(_POLL_SECONDS)

    def _ready(self) -> bool:
        try:
            url = json.loads((self.state_dir / "daemon.json").read_text())["url"]
            self._http.base_url = url
            return self._http.get("/readyz", timeout=30).is_success
        except (OSError, ValueError, KeyError, httpx.HTTPError):
            return False

    def _last_words(self) -> str:
        try:
            lines = (self.state_dir / "daemon.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return "".join(f"\n    {line}" for line in lines[-5:])

    def _end(self) -> None:
        """Stop the daemon, then everything that it has started. A further Ctrl-C does not cut this short."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            if self._process is not None:
                self._process.terminate()
                try:
                    self._process.wait(STOP_SECONDS_MAX)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            self._sweep()
            self._http.close()
            self._directory.cleanup()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _sweep(self) -> None:
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while left := self.processes():
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
            if time.monotonic() > deadline:
                raise DemoError(f"processes still running: {[p.pid for p in left]}")


def _mentions(process: psutil.Process, text: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return any(text in word for word in process.cmdline()) or any(
            text in value for value in process.environ().values()
        )
    except psutil.Error:
        return False
