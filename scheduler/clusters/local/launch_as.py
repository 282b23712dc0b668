"""Start one worker's first process as the user of its job. Standard library only.

Whatever names something of the user's (the working directory, the program, the checkpoints) is looked up by the new
process once it is the user, with the user's rights and at the user's expense: a file system that never answers keeps
nobody but that user waiting.
"""

import json
import os
import resource
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from scheduler.clusters.local.launch import DEFAULT_SIGNALS, LaunchError, enter, find_program, program_error
from scheduler.clusters.local.wire import AccountFields

#: The exit code of a process that could not become the program.
_NO_PROGRAM = 127
#: It has its own session, so that its group can be signalled.
_READY = b"r"
_GO = b"g"
#: Of characters, each of which may take twelve bytes.
_MESSAGE_MAX = 1000
_REPORT_BYTES_MAX = 16384
#: As in every login: programs that call select() fail with more, others raise it themselves.
_OPEN_FILES = 1024


@dataclass(frozen=True, slots=True)
class Launch:
    """What a process of a user begins with."""

    account: AccountFields
    command: Sequence[str]
    env: Mapping[str, str]
    workdir: str
    #: Made by the process itself, if need be.
    checkpoint_dir: str | None


class Birth:
    """A process that waits for the word to become the user's program, and then tells whether it could."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self._link = link

    def fileno(self) -> int:
        """Readable once it has told."""
        return self._link.fileno()

    def go(self) -> None:
        """To be said once the process is on record: without the word it ends by itself."""
        with suppress(OSError):  # it has been killed
            self._link.send(_GO)

    def failure(self) -> LaunchError | None:
        """Why it ends without becoming the program; None if it became that, or was killed before."""
        with self._link:
            try:
                report = self._link.recv(_REPORT_BYTES_MAX)
            except OSError:
                return None
        return _failure(report) if report else None


def _failure(report: bytes) -> LaunchError:
    """What a process has told, which is that of a user."""
    try:
        told = json.loads(report)
        return LaunchError(str(told["message"]), for_good=bool(told["for_good"]))
    except (ValueError, KeyError, TypeError):
        return LaunchError("it could not become its program, and told nothing that can be read", for_good=False)


def launch_as(launch: Launch, output: int) -> Birth:
    """Fork the process; this one must have no other thread. Raises `OSError`."""
    ours, theirs = socket.socketpair()
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid == 0:
        _child(launch, output, ours, theirs)
    theirs.close()
    ours.recv(len(_READY))
    ours.setblocking(False)
    return Birth(pid, ours)


def _child(launch: Launch, output: int, ours: socket.socket, link: socket.socket) -> NoReturn:
    """Never returns into the supervisor's code, whatever happens."""
    try:
        ours.close()
        _leave_the_supervisor(output, link.fileno())
        link.send(_READY)
        if link.recv(len(_GO)):
            _become(launch)
    except BaseException as error:
        with suppress(BaseException):
            link.send(_report(error))
    finally:
        os._exit(_NO_PROGRAM)


def _report(error: BaseException) -> bytes:
    for_good = isinstance(error, LaunchError) and error.for_good
    message = str(error) if isinstance(error, LaunchError) else f"internal error: {type(error).__name__}: {error}"
    return json.dumps({"message": message[:_MESSAGE_MAX], "for_good": for_good}).encode()


def _become(launch: Launch) -> None:
    """Become the user, then the program. Raises `LaunchError`."""
    account = launch.account
    _take_limits()
    os.umask(account["umask"])
    os.setgroups(account["groups"])
    os.setresgid(account["gid"], account["gid"], account["gid"])
    os.setresuid(account["uid"], account["uid"], account["uid"])
    if launch.checkpoint_dir is not None:
        try:
            os.makedirs(launch.checkpoint_dir, mode=0o700, exist_ok=True)
        except OSError as error:
            raise LaunchError(f"{launch.checkpoint_dir}: {error.strerror}", for_good=False) from None
    enter(launch.workdir, f"user {account['login']}")
    program = launch.command[0]
    try:
        os.execve(find_program(program, launch.env.get("PATH", os.defpath)), list(launch.command), dict(launch.env))
    except (OSError, ValueError) as error:
        raise program_error(program, error) from None


def _leave_the_supervisor(output: int, link: int) -> None:
    """Its own session and group, its log as output, the kernel's defaults for signals, and nothing else open.

    What the supervisor has open, its lock above all, must not outlive it here, however long the user's program takes
    to be found.
    """
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.set_wakeup_fd(-1)
    os.closerange(3, link)
    os.closerange(link + 1, os.sysconf("SC_OPEN_MAX"))
    for number in DEFAULT_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _take_limits() -> None:
    """Those of the service, which the daemon raised for itself as far as open files go."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
