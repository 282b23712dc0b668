"""A local cluster for a test, real processes included: start, wait for what comes of it, leave nothing behind."""

import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from scheduler.clock import SystemClock
from scheduler.clusters.local.accounts import Accounts
from scheduler.clusters.local.cluster import LocalCluster
from scheduler.clusters.local.processes import STATE_VARIABLE, all_processes
from scheduler.config import LocalSettings
from scheduler.engine.ports import ActionFailure, ClusterAction, ForgetWorker, StartWorker, StopWorker
from scheduler.errors import ClusterError
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import Phase, WorkerObservation

NODE = NodeName("local")
#: Far more than anything takes on an idle machine.
SECONDS_MAX = 120.0

Workers = Mapping[WorkerId, WorkerObservation]


class LocalWorld:
    def __init__(
        self, state_dir: Path, settings: LocalSettings | None = None, accounts: Accounts | None = None
    ) -> None:
        self.state_dir = state_dir
        self.accounts = accounts
        self.settings = settings or LocalSettings(slots=4)
        self.changed = threading.Event()
        self.cluster = self._connect(5.0)

    def open(self, idle_seconds: float = 5.0) -> LocalCluster:
        """A new cluster takes the place of the one before, as a restarted daemon's does."""
        self.cluster.close()
        self.cluster = self._connect(idle_seconds)
        return self.cluster

    def _connect(self, idle_seconds: float) -> LocalCluster:
        cluster = LocalCluster(
            self.state_dir,
            self.settings,
            SystemClock(),
            accounts=self.accounts,
            supervisor_idle_seconds=idle_seconds,
        )
        cluster.on_change(self.changed.set)
        return cluster

    def action(
        self,
        worker: str,
        *command: str,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        slot_ids: tuple[int, ...] = (0,),
        shared: bool = False,
        user: str = "",
    ) -> StartWorker:
        return StartWorker(
            worker_id=WorkerId(worker),
            job_id=JobId(int(worker.partition("-")[0])),
            node=NODE,
            slot_ids=slot_ids,
            cpus=1.5,
            memory_mib=64,
            command=command,
            env=tuple((env or {}).items()),
            workdir=workdir,
            grace_seconds=5.0,
            generation=1,
            shared=shared,
            user=user,
        )

    def apply(self, actions: Sequence[ClusterAction]) -> list[ActionFailure]:
        """What could not be done."""
        return list(self.cluster.apply(actions))

    def start(
        self,
        worker: str,
        *command: str,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str = "",
    ) -> None:
        assert not self.apply([self.action(worker, *command, env=env, workdir=workdir, user=user)])

    def shell(self, worker: str, script: str, user: str = "") -> None:
        self.start(worker, "sh", "-c", script, user=user)

    def stop(self, worker: str, grace_seconds: float) -> None:
        assert not self.apply([StopWorker(WorkerId(worker), NODE, grace_seconds)])

    def forget(self, worker: str) -> list[ActionFailure]:
        return self.apply([ForgetWorker(WorkerId(worker), NODE)])

    def until(self, predicate: Callable[[Workers], bool]) -> Workers:
        """Wait for notices until `predicate` holds for the workers; a new supervisor may take a while to come."""
        give_up_at = time.monotonic() + SECONDS_MAX
        seen = "nothing"
        while True:
            self.changed.clear()
            try:
                workers = self.cluster.observe().workers
            except ClusterError as error:
                seen = str(error)
            else:
                if predicate(workers):
                    return workers
                seen = str(dict(workers))
            assert self.changed.wait(give_up_at - time.monotonic()), f"still {seen}"

    def ended(self, worker: str) -> WorkerObservation:
        """The worker, once it has ended."""
        name = WorkerId(worker)
        return self.until(lambda workers: name in workers and not workers[name].alive)[name]

    def running(self, worker: str) -> WorkerObservation:
        name = WorkerId(worker)
        return self.until(lambda workers: name in workers and workers[name].phase is Phase.RUNNING)[name]

    def first_pid(self, worker: str) -> int:
        """Of a worker that runs: the process that leads its session."""
        self.running(worker)
        record = json.loads((self.state_dir / "workers" / worker / "process").read_text())
        return int(record["pid"])

    def pids(self, worker: str | None = None) -> list[int]:
        """Live processes of this cluster's workers, or of one of them, by what their environment says."""
        return list(_pids_with(f"{STATE_VARIABLE}={self.state_dir}", f"SCHED_WORKER_ID={worker}" if worker else ""))

    def supervisor_pids(self) -> list[int]:
        found = []
        for process in all_processes():
            with suppress(OSError):
                arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
                if os.fsencode(self.state_dir) in arguments and b"-S" in arguments:
                    found.append(process.pid)
        return found

    def kill_supervisor(self) -> None:
        """SIGKILL, and wait until it has ended."""
        (pid,) = self.supervisor_pids()
        kill_and_wait(pid)

    def tear_down(self) -> None:
        """End everything; fails if a process is left."""
        try:
            self.open().shutdown()
        finally:
            left = [*self.pids(), *self.supervisor_pids()]
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert not left


class Signpost:
    """A named pipe by which a worker tells a test, or a test a worker, that it has come somewhere."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def read(self) -> str:
        """What a worker wrote, once it has."""
        ready, _, _ = select.select([self._descriptor], [], [], SECONDS_MAX)
        assert ready, "no worker came by"
        return os.read(self._descriptor, 65536).decode().strip()

    def write(self, text: str = "go\n") -> None:
        os.write(self._descriptor, text.encode())

    def close(self) -> None:
        os.close(self._descriptor)


def kill_and_wait(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pidfd)


def wait_for_end(pidfd: int) -> None:
    """Wait for the end of a process, then close its descriptor."""
    ended, _, _ = select.select([pidfd], [], [], SECONDS_MAX)
    os.close(pidfd)
    assert ended, "the process goes on"


def _pids_with(*variables: str) -> Iterator[int]:
    wanted = {os.fsencode(variable) for variable in variables if variable}
    for process in all_processes():
        with suppress(OSError):
            if wanted <= set(Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")):
                yield process.pid
