"""A real daemon in a process of its own, for tests: `with running_daemon(tmp_path, slots=4) as daemon: ...`.

Where tests agree about its settings, `SharedDaemon` lends the same one to each of them.
"""

import json
import os
import signal
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from scheduler.clock import SystemClock
from scheduler.clusters.local.cluster import LocalCluster
from scheduler.config import LocalSettings
from scheduler.errors import ClusterError
from tests.daemon_process import DaemonProcess
from tests.eventually import eventually
from tests.ports import JOBS_COUNT, free_port, jobs_first

ROOT = Path(__file__).parent.parent
READY_SECONDS_MAX = 240.0
END_SECONDS_MAX = 60.0
#: From one event that a test waits for to the next.
EVENT_SECONDS_MAX = 120.0
#: How long jobs that a test leaves behind may take to end, before their daemon is ended with them.
CLEAR_SECONDS_MAX = 30.0


class Daemon:
    """One state directory and the daemon that serves it. `settings` are nested: `http={"token": ...}`."""

    def __init__(
        self,
        state_dir: Path,
        settings: Mapping[str, Any],
        *,
        database_url: str | None = None,
        workers_dir: Path | None = None,
        module: str = "scheduler.daemon",
    ) -> None:
        self.state_dir = state_dir
        self._module = module
        self._database_url = database_url
        self._workers_dir = workers_dir or state_dir
        self.log_path = state_dir.parent / f"{state_dir.name}.log"
        self._settings = settings
        self._http = settings.get("http", {})
        self._port = 0
        self._process: DaemonProcess | None = None
        self.client = httpx.Client()

    @property
    def url(self) -> str:
        return f"{'https' if 'tls_certificate' in self._http else 'http'}://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, on the port that it had before if there was one, and wait until it is ready."""
        self.start_unready()
        self._await("be ready", lambda: self._status() == httpx.codes.OK)

    def start_answering(self) -> None:
        """Start it, and wait until it answers, ready or not."""
        self.start_unready()
        self._await("answer", lambda: self._status() is not None)

    def start_unready(self) -> None:
        """Start it and do not wait."""
        self._process = DaemonProcess(self._module, self._environment(), self.log_path, ROOT)

    def stop(self) -> int:
        """Ask it to stop as an operator would; its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what a crash would do."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Kill it, if it runs, and start it again on the same port."""
        self.kill()
        self.start()

    def events(self, **query: Any) -> Iterator[dict[str, Any]]:
        """What has happened, from the beginning, and what happens; fails where nothing more does."""
        after, last_at = 0, time.monotonic()
        while time.monotonic() - last_at < EVENT_SECONDS_MAX:
            page = self.client.get("/v1/events", params={**query, "after": after, "wait": 10}).json()
            for event in page["events"]:
                yield event
                last_at = time.monotonic()
            after = page["next"]
        raise AssertionError(f"nothing more happens: {query}")

    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.is_running()

    def clear(self) -> None:
        """End all jobs and let all nodes take workers, so that the next test finds it as it was at first."""
        jobs = self._active_jobs()
        for job in jobs:
            self.client.post(f"/v1/jobs/{job['id']}/cancel")
        for node in self.client.get("/v1/nodes").json()["nodes"]:
            if node["intent"] != "ACTIVE":
                self.client.post(f"/v1/nodes/{node['name']}/uncordon").raise_for_status()
        eventually(lambda: not self._active_jobs(), "jobs of the last test do not end", CLEAR_SECONDS_MAX)

    def trusting(self) -> ssl.SSLContext | bool:
        """How its clients check its certificate, and what they show where it asks for one."""
        if "tls_certificate" not in self._http:
            return False
        context = ssl.create_default_context(cafile=self._http.get("tls_ca", self._http["tls_certificate"]))
        if "tls_client_certificate" in self._http:
            context.load_cert_chain(self._http["tls_client_certificate"], self._http["tls_client_key"])
        return context

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def close(self) -> None:
        """End everything that it started: the daemon, its workers and their supervisor."""
        self.client.close()
        self.kill()
        if self._workers_dir.is_dir():
            try:
                LocalCluster(self._workers_dir, LocalSettings(slots=1), SystemClock()).shutdown()
            except ClusterError as error:
                raise AssertionError(f"workers may be left behind: {error}") from error

    def _active_jobs(self) -> list[dict[str, Any]]:
        return list(self.client.get("/v1/jobs", params={"active": "true", "limit": 100}).json()["jobs"])

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(END_SECONDS_MAX)
        if code is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise AssertionError(f"the daemon did not end after {number.name}:\n{self.log()}")
        return code

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        assert self._process is not None
        until = time.monotonic() + READY_SECONDS_MAX
        while not holds():
            if not self._process.is_running() or time.monotonic() > until:
                raise AssertionError(f"the daemon did not get to {what}:\n{self.log()}")
            time.sleep(0.02)

    def _status(self) -> int | None:
        """Of its readiness; None while it does not answer."""
        if self._port == 0:
            port = self._announced_port()
            if port is None:
                return None
            self._port = port
            self.client.close()
            token = self._http.get("token")
            headers = {"authorization": f"Bearer {token}"} if token else {}
            self.client = httpx.Client(base_url=self.url, headers=headers, timeout=30.0, verify=self.trusting())
        try:
            return self.client.get("/readyz").status_code
        except httpx.TransportError:
            return None

    def _announced_port(self) -> int | None:
        """As written by the process that runs now."""
        try:
            announced = json.loads((self.state_dir / "daemon.json").read_text())
        except (OSError, ValueError):
            return None
        return int(announced["url"].rpartition(":")[2]) if announced["pid"] == self.pid else None

    def _environment(self) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SCHED_")}
        environment["SCHED_STATE_DIR"] = str(self.state_dir)
        environment["SCHED_ENGINE__MASTER_PORT_FIRST"] = str(jobs_first())
        environment["SCHED_ENGINE__MASTER_PORT_COUNT"] = str(JOBS_COUNT)
        if self._database_url is not None:
            environment["SCHED_DATABASE_URL"] = self._database_url
        for group, values in self._settings.items():
            if isinstance(values, str):
                environment[f"SCHED_{group}".upper()] = values
                continue
            for name, value in values.items():
                environment[f"SCHED_{group}__{name}".upper()] = str(value)
        environment["SCHED_HTTP__PORT"] = str(self._port or self._http.get("port") or free_port())
        return environment


@contextmanager
def running_daemon(
    tmp_path: Path, *, slots: int = 4, ready: bool = True, module: str = "scheduler.daemon", **settings: Any
) -> Iterator[Daemon]:
    """A daemon on a free port with its state below `tmp_path`; nothing of it is left at the end.

    `ready`: whether it has to be, before anything is done with it. `module`: what runs it.
    """
    local = {"slots": slots, **settings.pop("local", {})}
    daemon = Daemon(tmp_path / "state", {**settings, "local": local}, module=module)
    try:
        if ready:
            daemon.start()
        else:
            daemon.start_answering()
        yield daemon
    finally:
        daemon.close()


class SharedDaemon:
    """A daemon that tests have one after the other. Settings as those of `running_daemon`.

    No job of an earlier test lives, and its node takes workers. What one test broke, no later one gets.
    """

    def __init__(self, new_directory: Callable[[], Path], *, slots: int, **settings: Any) -> None:
        self._new_directory = new_directory
        # Failures of several tests must not make the node one that is avoided.
        engine = {"quarantine_failures": 1_000_000, **settings.pop("engine", {})}
        self._settings = {**settings, "engine": engine, "slots": slots}
        self._running = ExitStack()
        self._daemon: Daemon | None = None

    @contextmanager
    def lent(self) -> Iterator[Daemon]:
        """For one test."""
        if self._daemon is None:
            self._daemon = self._running.enter_context(running_daemon(self._new_directory(), **self._settings))
        try:
            yield self._daemon
        finally:
            self._take_back(self._daemon)

    def close(self) -> None:
        """End it, if it runs."""
        self._daemon = None
        self._running.close()

    def _take_back(self, daemon: Daemon) -> None:
        try:
            if not daemon.is_running():
                daemon.start()
            daemon.clear()
        except (AssertionError, httpx.HTTPError):
            self.close()
