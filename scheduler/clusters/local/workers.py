"""The supervisor's workers: start, stop, reap, and clean up after ended ones. Standard library only.

A worker ends in two steps: its first process ends, which gives the exit code; then the processes it left behind end.
These have the rest of the grace period if the worker was asked to stop; otherwise they are killed at once.
"""

import errno
import os
import signal
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from scheduler.clusters.local.job_directories import JOBS_DIR, give_directory, open_given_log
from scheduler.clusters.local.launch import LaunchError, launch
from scheduler.clusters.local.launch_as import Birth, Launch, launch_as
from scheduler.clusters.local.orphans import Left, Orphans
from scheduler.clusters.local.processes import STATE_VARIABLE, WORKER_VARIABLE, boot_id, read_process, signal_group
from scheduler.clusters.local.records import Part, ProcessRecord, Records, StopRecord, WorkerSpec
from scheduler.clusters.local.wire import StartRequest, WorkerNotice
from scheduler.clusters.local.worker import LocalWorker
from scheduler.clusters.logs.files import log_dir, log_path, open_log
from scheduler.model.observation import EndCause, Phase

_CHECK_SECONDS_MAX = 0.5
_ORPHANS_SECONDS = 0.25
_STOPPED_BEFORE_START = 128 + signal.SIGTERM


class SupervisorClock(Protocol):
    """Wall time for records shown to people, monotonic time for deadlines."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class LocalWorkers:
    """All recorded workers. One thread only."""

    def __init__(self, state_dir: Path, clock: SupervisorClock) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._boot_id = boot_id()
        self._records = Records(state_dir)
        self._all: dict[str, LocalWorker] = {}
        self._orphans = Orphans(str(state_dir), f"{log_dir(state_dir)}/", self._all)
        self._live: dict[str, LocalWorker] = {}
        self._by_pid: dict[int, LocalWorker] = {}
        self._waiting: deque[tuple[LocalWorker, StartRequest, Mapping[str, str]]] = deque()
        #: Workers with a live first process and a deadline.
        self._stopping: dict[str, LocalWorker] = {}
        #: Workers whose first process has ended while others remain.
        self._closing: dict[str, LocalWorker] = {}
        self._births: list[LocalWorker] = []
        self._changed: dict[str, LocalWorker] = {}
        self._ended_logs: list[str] = []
        self._orphans_at = 0.0
        self._unsaved: dict[tuple[str, type[Part]], Part] = {}

    @property
    def any_live(self) -> bool:
        return bool(self._live)

    @property
    def any_unsaved(self) -> bool:
        """Whether a full disk has refused a record that is still to be written."""
        return bool(self._unsaved)

    @property
    def any_waiting(self) -> bool:
        return bool(self._waiting)

    def live_logs(self) -> list[str]:
        return [worker.log for worker in self._live.values()]

    def take_ended_logs(self) -> list[str]:
        """Logs that became complete since the last call."""
        ended, self._ended_logs = self._ended_logs, []
        return ended

    def notices(self) -> list[WorkerNotice]:
        return [worker.notice() for worker in self._all.values()]

    def take_changes(self) -> list[WorkerNotice]:
        """Notices of workers that changed since the last call."""
        changed, self._changed = self._changed, {}
        return [worker.notice() for worker in changed.values()]

    def start(self, request: StartRequest, env: Mapping[str, str]) -> None:
        """Record a worker; `launch_next` starts it. A known id is ignored."""
        if request["id"] in self._all:
            return
        spec = WorkerSpec(
            id=request["id"],
            job_id=request["job_id"],
            node=request["node"],
            slot_ids=tuple(request["slot_ids"]),
            cpus=request["cpus"],
            memory_mib=request["memory_mib"],
            grace_seconds=request["grace_seconds"],
            shared=request["shared"],
            uid=request["account"]["uid"] if "account" in request else None,
        )
        worker = LocalWorker(spec, log_path(self._state_dir, spec.job_id, spec.id))
        self._all[spec.id] = self._live[spec.id] = worker
        self._waiting.append((worker, request, env))

    def launch_next(self, count: int) -> None:
        """Launch up to `count` waiting workers, so that a burst of starts does not delay exits and stops."""
        for _ in range(min(count, len(self._waiting))):
            worker, request, env = self._waiting.popleft()
            if worker.phase is Phase.LAUNCHING:
                self._launch(worker, request, env)

    def _launch(self, worker: LocalWorker, request: StartRequest, env: Mapping[str, str]) -> None:
        full_env = {**env, **request["env"], STATE_VARIABLE: str(self._state_dir), WORKER_VARIABLE: worker.spec.id}
        try:
            self._records.create(worker.spec)
            if "no_account" in request:
                worker.cause = EndCause.NO_ACCOUNT
                self._finish(worker, Phase.LAUNCH_FAILED, request["no_account"])
                return
            pid = self._first_process(worker, request, full_env)
        except LaunchError as error:
            self._fail_launch(worker, error)
            return
        except OSError as error:
            self._finish(worker, Phase.LAUNCH_FAILED, f"{error.filename or worker.log}: {error.strerror}")
            return
        except Exception as error:  # it must not end the supervisor, which all workers of this node share
            self._finish(worker, Phase.LAUNCH_FAILED, f"internal error: {type(error).__name__}: {error}")
            return
        worker.started_at = self._clock.now()
        process = read_process(pid)  # there even if it has ended: nothing has reaped it yet
        ticks = process.start_ticks if process else 0
        worker.process = ProcessRecord(pid, ticks, self._boot_id, worker.started_at)
        worker.first_alive = True
        self._by_pid[pid] = worker
        self._save(worker, worker.process)
        if worker.birth is not None:
            worker.birth.go()
        else:
            self._runs(worker)

    def take_births(self) -> list[LocalWorker]:
        """Workers launched since the last call whose processes will tell whether they became the user's program."""
        births, self._births = self._births, []
        return births

    def told(self, worker: LocalWorker, birth: Birth) -> None:
        """The worker's first process has become the user's program, or has said why not, or was killed before."""
        failure, worker.birth = birth.failure(), None
        if failure is not None:
            self._by_pid.pop(worker.pid, None)
            worker.exit_code = None  # of a process that never was the program
            self._fail_launch(worker, failure)
            return
        self._runs(worker)
        if worker.exit_code is not None:
            self.first_ended(worker)

    def _runs(self, worker: LocalWorker) -> None:
        worker.phase = Phase.RUNNING
        self._changed[worker.spec.id] = worker

    def _first_process(self, worker: LocalWorker, request: StartRequest, env: Mapping[str, str]) -> int:
        """Pid of the worker's first process. Raises `LaunchError` and `OSError`."""
        checkpoint_dir, account = env.get("SCHED_CHECKPOINT_DIR"), request.get("account")
        if account is not None:
            job, user = str(worker.spec.job_id), (account["uid"], account["gid"])
            give_directory(f"{self._state_dir}/{JOBS_DIR}", job, *user)
            give_directory(str(log_dir(self._state_dir)), job, *user)
            output = open_given_log(worker.log, *user)
        else:
            if checkpoint_dir:
                os.makedirs(checkpoint_dir, mode=0o700, exist_ok=True)
            output = open_log(worker.log)
        try:
            if account is None:
                return launch(request["command"], env, request["workdir"], output)
            begin = Launch(account, request["command"], env, request["workdir"], checkpoint_dir)
            worker.birth = launch_as(begin, output)
            self._births.append(worker)
            return worker.birth.pid
        finally:
            os.close(output)

    def _fail_launch(self, worker: LocalWorker, error: LaunchError) -> None:
        worker.cause = EndCause.CANNOT_START if error.for_good else None
        self._finish(worker, Phase.LAUNCH_FAILED, str(error))

    def stop(self, name: str, grace_seconds: float) -> None:
        """SIGTERM now, SIGKILL after the grace period. A repeated stop can only bring a deadline closer."""
        worker = self._live.get(name)
        if worker is None:
            return
        if worker.phase is Phase.LAUNCHING and worker.process is None:
            worker.exit_code = _STOPPED_BEFORE_START
            self._finish(worker, Phase.EXITED, "stopped before it started")
            return
        kill_at = self._clock.monotonic() + grace_seconds
        if worker.kill_at is None or kill_at < worker.kill_at:
            worker.kill_at = kill_at
            worker.check_at = min(worker.check_at, kill_at)
            self._save(worker, StopRecord(self._boot_id, kill_at))
        if worker.first_alive:
            self._stopping[name] = worker
            if not worker.stop_asked and grace_seconds > 0:
                signal_group(worker.pid, signal.SIGTERM)
                signal_group(worker.pid, signal.SIGCONT)  # a suspended one could not obey
        worker.stop_asked = True

    def stop_all(self) -> None:
        """Kill every worker."""
        for name in list(self._live):
            self.stop(name, 0.0)

    def forget(self, name: str) -> None:
        """Drop the records of an ended worker; a live one is kept."""
        if name in self._all and name not in self._live:
            del self._all[name]
            self._changed.pop(name, None)
            for key in [key for key in self._unsaved if key[0] == name]:
                del self._unsaved[key]
            self._records.remove(name)

    def adopt(self, worker: LocalWorker) -> None:
        """Take over a worker of a former supervisor; see `recovery`."""
        name = worker.spec.id
        self._all[name] = worker
        if worker.phase not in (Phase.LAUNCHING, Phase.RUNNING):
            return
        self._live[name] = worker
        if not worker.first_alive:
            self._settle(worker)
        elif worker.kill_at is not None:
            self._stopping[name] = worker

    def reap(self) -> None:
        """Collect children that have ended, and look for processes they left."""
        ended: list[LocalWorker] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            worker = self._by_pid.pop(pid, None)
            if worker is not None:
                code = os.waitstatus_to_exitcode(status)
                worker.exit_code = code if code >= 0 else 128 - code
                worker.detail = _describe(worker, code)
                if worker.birth is None:
                    ended.append(worker)
        self._orphans.note(self._by_pid)
        for worker in ended:
            self.first_ended(worker)
        for worker in list(self._closing.values()):
            if not worker.adopted and self._orphans.left_of(worker) is Left.NOTHING:
                self._finish(worker, Phase.EXITED, worker.detail)
        self._orphans.kill_strays(self._live)

    def first_ended(self, worker: LocalWorker) -> None:
        """The first process of `worker` has ended."""
        worker.first_alive = False
        self._stopping.pop(worker.spec.id, None)
        self._settle(worker)

    def _settle(self, worker: LocalWorker) -> None:
        """Finish a worker whose first process has ended, if no other is left; otherwise clean up."""
        end = Phase.EXITED if worker.exit_code is not None else Phase.LOST
        left = self._orphans.left_of(worker)
        if left is Left.NOTHING:
            self._finish(worker, end, worker.detail)
            return
        now = self._clock.monotonic()
        if worker.spec.id not in self._closing:
            self._closing[worker.spec.id] = worker
            self._save(worker, worker.exit_record(gone=False))
        # Members of the group were asked to leave, too, and may still be ending; others have no reason to stay.
        if worker.kill_at is None or worker.kill_at <= now or left is Left.ESCAPED:
            self._orphans.kill(worker)
        worker.check_at = now + worker.check_seconds
        if worker.kill_at is not None and worker.kill_at > now:
            worker.check_at = min(worker.check_at, worker.kill_at)
        worker.check_seconds = min(worker.check_seconds * 2, _CHECK_SECONDS_MAX)

    def _finish(self, worker: LocalWorker, phase: Phase, detail: str) -> None:
        name = worker.spec.id
        worker.phase, worker.detail, worker.ended_at = phase, detail, self._clock.now()
        self._live.pop(name, None)
        self._closing.pop(name, None)
        self._stopping.pop(name, None)
        self._changed[name] = worker
        self._ended_logs.append(worker.log)
        self._save(worker, worker.exit_record(gone=True))

    def enforce(self) -> None:
        """Kill processes past their deadline; look again for those that ended workers left."""
        now = self._clock.monotonic()
        for name, worker in list(self._stopping.items()):
            if worker.kill_at is not None and worker.kill_at <= now:
                worker.killed = True
                self._orphans.kill(worker)
                del self._stopping[name]
        for worker in list(self._closing.values()):
            if worker.check_at <= now:
                self._settle(worker)
        if self._orphans.any and now >= self._orphans_at:
            self._orphans_at = now + _ORPHANS_SECONDS
            self._orphans.note(self._by_pid)
            self._orphans.kill_strays(self._live)

    def next_deadline(self) -> float | None:
        """When `enforce` is due, on the monotonic clock."""
        deadlines = [worker.kill_at for worker in self._stopping.values() if worker.kill_at is not None]
        deadlines += [worker.check_at for worker in self._closing.values()]
        if self._orphans.any:
            deadlines.append(self._orphans_at)
        return min(deadlines, default=None)

    def save_again(self) -> None:
        """Write the records that a full disk refused before."""
        for (name, _), part in list(self._unsaved.items()):
            self._save(self._all[name], part)

    def _save(self, worker: LocalWorker, part: Part) -> None:
        key = (worker.spec.id, type(part))
        self._unsaved.pop(key, None)
        try:
            self._records.save(worker.spec.id, part)
        except OSError as error:
            if error.errno != errno.ENOENT:  # one that never got a directory has nothing that could be started twice
                self._unsaved[key] = part


def _describe(worker: LocalWorker, code: int) -> str:
    if code >= 0:
        return ""
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}" + (
        " at the end of its grace period" if worker.killed and -code == signal.SIGKILL else ""
    )
