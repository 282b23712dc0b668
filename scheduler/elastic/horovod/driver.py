"""The driver of a Horovod job: runs horovodrun, and hands the published list on to it. Standard library only."""

import fcntl
import importlib.util
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scheduler.elastic.environment import Environment
from scheduler.elastic.horovod.hosts import Listed, Roster, hand_out
from scheduler.elastic.horovod.say import say
from scheduler.elastic.horovod.workspace import Desk
from scheduler.elastic.membership.agent import EXIT_DRAINED
from scheduler.elastic.membership.client import Client

#: Asks the scheduler to start the job again, without blame: whose failure it was, was counted already.
_EXIT_REPLACE = 65
_EXIT_FAILED = 1
_POLL_SECONDS = 30
_RETRY_SECONDS = 0.2
_LOOK_SECONDS = 0.5
#: How long after a process's failure horovodrun may take to fail because of it.
_BLAME_SECONDS = 60.0
#: How long horovodrun waits for enough workers, and how much longer before it counts as deadlocked.
_ELASTIC_SECONDS = 600
_DEADLOCK_SECONDS = _ELASTIC_SECONDS + 60.0
#: Bounds of the time for which horovodrun trusts no worker on which a process ended: it may need it again.
_COOLDOWN_SECONDS = ("1", "10")
_SIOCGIFADDR = 0x8915
#: What horovodrun needs of the environment, which it writes into command lines for all to see.
_ENVIRONMENT = frozenset(
    ("PATH", "HOME", "USER", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SCHED_WORKER_ID", "SCHED_LOCAL_STATE")
)
_ENVIRONMENT_PREFIXES = ("HOROVOD_", "PYTHON", "CONDA_", "LC_")


def drive(environment: Environment, launcher: Sequence[str], arguments: Sequence[str]) -> int:
    """Runs horovodrun to its end; the exit status that the scheduler takes for the job's.

    Args:
        launcher: how horovodrun is called.
        arguments: its options and program, as the user gave them.
    """
    missing = _missing(launcher)
    if missing:
        say(f"driver: {missing}")
        return _EXIT_FAILED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_DRAINED))
    try:
        with tempfile.TemporaryDirectory(prefix="horovod-", ignore_cleanup_errors=True) as directory:
            desk = Desk(Path(directory))
            desk.prepare(environment.token)
            return _Driver(environment, desk).run(launcher, arguments)
    except OSError as error:
        say(f"driver: cannot run horovodrun: {error}")
        return _EXIT_FAILED


class _Driver:
    def __init__(self, environment: Environment, desk: Desk) -> None:
        self._environment = environment
        self._desk = desk
        self._changed = threading.Condition()
        self._roster: Roster | None = None
        self._handed: tuple[Listed, ...] = ()
        #: What the disk said last, where it did not take the list.
        self._disk_error = ""
        #: Since when fewer processes run than Horovod needs.
        self._short_since: float | None = None

    def run(self, launcher: Sequence[str], arguments: Sequence[str]) -> int:
        threading.Thread(target=self._follow_forever, daemon=True).start()
        with self._changed:
            while self._roster is None:
                self._changed.wait(_LOOK_SECONDS)
        first = self._roster
        self._write(first.workers)
        processes_min = first.fewest * first.workers[0].slots
        command = [*launcher, *self._options(first, arguments), *arguments]
        with subprocess.Popen(command, env=_environment(self._desk.path), stdin=subprocess.DEVNULL) as horovodrun:
            threading.Thread(target=self._wait_for, args=(horovodrun,), daemon=True).start()
            try:
                return self._look_after(horovodrun, processes_min)
            finally:
                horovodrun.kill()

    def _look_after(self, horovodrun: "subprocess.Popen[bytes]", processes_min: int) -> int:
        while horovodrun.poll() is None:
            roster = self._roster
            assert roster is not None, "there was one before horovodrun was started"
            if sum(worker.slots for worker in roster.workers) < processes_min:
                say(f"driver: the minimum of the job was lowered: restarting with --min-np {roster.fewest}")
                return _EXIT_REPLACE
            self._hand_out(roster)
            if self._deadlocked(processes_min):
                say(f"driver: fewer than {processes_min} processes ran for {_DEADLOCK_SECONDS:g} s")
                return _EXIT_FAILED
            with self._changed:
                if self._roster is roster:
                    self._changed.wait(_LOOK_SECONDS)
        if horovodrun.returncode == 0:
            return 0
        say(f"driver: horovodrun ended with exit code {horovodrun.returncode}")
        return _EXIT_REPLACE if self._desk.failed_within(_BLAME_SECONDS) else _EXIT_FAILED

    def _hand_out(self, roster: Roster) -> None:
        handed = hand_out(roster, self._handed, self._desk.running_now())
        if handed == self._handed:
            return
        try:
            self._write(handed)
        except OSError as error:  # a full disk, which may have room again soon: horovodrun goes on with the last list
            if str(error) != self._disk_error:
                say(f"driver: the list of workers cannot be written, trying again: {error}")
            self._disk_error = str(error)

    def _write(self, handed: tuple[Listed, ...]) -> None:
        self._desk.write(handed)
        self._handed, self._disk_error = handed, ""

    def _deadlocked(self, processes_min: int) -> bool:
        """Whether fewer run than have to for longer than horovodrun itself would wait for them."""
        if self._desk.done or len(self._desk.running_now()) >= processes_min:
            self._short_since = None
            return False
        self._short_since = self._short_since or time.monotonic()
        return time.monotonic() - self._short_since > _DEADLOCK_SECONDS

    def _follow_forever(self) -> None:
        client = Client(self._environment)
        told = ""
        while True:
            known = self._roster.generation if self._roster is not None else 0
            published = client.discover(known, _POLL_SECONDS)
            if published.refusal not in ("", told):
                told = published.refusal
                say(f"driver: the scheduler refused the list of workers: {told}")
            # An older list, as of a replica that lags behind, names workers that are gone, and comes at once.
            if published.membership is None or published.membership.generation < known:
                time.sleep(_RETRY_SECONDS)
                continue
            with self._changed:
                self._roster = Roster.parse(published.body)
                self._changed.notify_all()

    def _wait_for(self, process: "subprocess.Popen[bytes]") -> None:
        process.wait()
        with self._changed:
            self._changed.notify_all()

    def _options(self, roster: Roster, given: Sequence[str]) -> list[str]:
        """horovodrun's options that are for the scheduler to say. There is no upper bound: the list is never longer."""
        processes_min = str(roster.fewest * roster.workers[0].slots)
        options = ["--gloo", "-np", processes_min, "--min-np", processes_min]
        options += ["--host-discovery-script", self._desk.discovery_script]
        options += ["--slots-per-host", str(roster.workers[0].slots)]
        options += ["--blacklist-cooldown-range", *_COOLDOWN_SECONDS, "--elastic-timeout", str(_ELASTIC_SECONDS)]
        interface = _interface_of(self._environment.own_address())
        if interface is not None and not any(word.startswith("--network-interface") for word in given):
            options += ["--network-interface", interface]
        return options


def _missing(launcher: Sequence[str]) -> str | None:
    """What keeps horovodrun from running here."""
    if len(launcher) > 1:
        if importlib.util.find_spec("horovod") is None:
            return (
                f"Horovod is not installed in {sys.executable}: install it there, or use another Python in the command"
            )
    elif shutil.which(launcher[0]) is None:
        return f"{launcher[0]} not found: install horovod, or give the path of horovodrun"
    return None


def _environment(path: Path) -> Mapping[str, str]:
    named = {name: value for name, value in os.environ.items() if _needed(name)}
    return {**named, "PATH": f"{path}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def _needed(name: str) -> bool:
    return name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)


def _interface_of(address: str) -> str | None:
    """The network interface with this address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # it has none
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None
