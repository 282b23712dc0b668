"""Processes as the kernel shows them: identity, groups, and the worker of each. Linux; standard library only.

A process is identified by its pid, its start time and the boot: a pid alone may have been given to another.
"""

import ctypes
import errno
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: Set in the environment of every worker; together they identify its processes, whatever group these moved to.
STATE_VARIABLE = "SCHED_LOCAL_STATE"
WORKER_VARIABLE = "SCHED_WORKER_ID"

_PR_SET_CHILD_SUBREAPER = 36
#: Errors of this process, which say nothing about the one that was asked for.
_OWN_TROUBLE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/<pid>/stat."""

    pid: int
    parent: int
    group: int
    session: int
    start_ticks: int
    #: CPU time that it has used; in ticks of the kernel.
    cpu_ticks: int
    zombie: bool


def boot_id() -> str:
    """Id of this boot; it differs after every start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def become_subreaper() -> None:
    """Make descendants that lose their parent children of this process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def read_process(pid: int) -> Process | None:
    """The process with this pid; None if there is none."""
    try:
        return _read_stat(pid)
    except OSError:
        return None


def _read_stat(pid: int) -> Process:
    with open(f"/proc/{pid}/stat", "rb") as file:
        text = file.read()
    # The command name stands in parentheses and may hold anything, spaces and parentheses included.
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        cpu_ticks=sum(int(field) for field in fields[11:13]),
        zombie=fields[0] in (b"Z", b"X"),
    )


def may_be_of(pid: int, uid: int | None) -> bool:
    """Whether the process can be one of a worker that runs as this user; None: of one that runs as this process.

    Whose it is cannot be forged, unlike what its environment says. One that became root had the right to.
    """
    if uid is None:
        return True
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            real = next(int(line.split()[1]) for line in file if line.startswith(b"Uid:"))
    except (OSError, StopIteration):
        return False
    return real in (uid, 0)


def all_processes() -> Iterator[Process]:
    """Every process except zombies."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = read_process(int(name))
            if process is not None and not process.zombie:
                yield process


def worker_of(pid: int, state_dir: str) -> str | None:
    """Worker id in the environment that the process was started with; None for strangers and unreadable ones."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return None
    if f"{STATE_VARIABLE}={state_dir}".encode(errors="surrogateescape") not in variables:
        return None
    prefix = f"{WORKER_VARIABLE}=".encode()
    for variable in variables:
        if variable.startswith(prefix):
            return variable[len(prefix) :].decode(errors="replace")
    return None


def log_worker_of(pid: int, log_dir: str) -> str | None:
    """Worker whose log the process writes to: finds those that cleared their environment."""
    for descriptor in (1, 2):
        with suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            if target.startswith(log_dir) and target.endswith(".log"):
                return os.path.basename(target).removesuffix(".log")
    return None


def own_children() -> list[int]:
    """Pids of this process's children, adopted ones included, dead ones included until they are reaped."""
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [process.pid for process in all_processes() if process.parent == own]


def open_pidfd(pid: int, start_ticks: int) -> int | None:
    """A descriptor that means exactly this process and gets readable at its end; None if it is gone.

    Raises `OSError` where this process is out of resources: then it is not known whether the other one is gone.
    """
    pidfd = None
    try:
        pidfd = os.pidfd_open(pid)
        process = _read_stat(pid)
        if not process.zombie and process.start_ticks == start_ticks:
            return pidfd
    except OSError as error:
        if error.errno in _OWN_TROUBLE:
            if pidfd is not None:
                os.close(pidfd)
            raise
    if pidfd is not None:
        os.close(pidfd)
    return None


def kill_process(process: Process) -> None:
    """SIGKILL exactly this process; nothing if it is gone, or cannot be told from another that may have its pid now."""
    pidfd = None
    with suppress(OSError):
        pidfd = open_pidfd(process.pid, process.start_ticks)
    if pidfd is None:
        return
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        pass  # it ended just now, or it runs as another user since it gained rights
    finally:
        os.close(pidfd)


def signal_group(group: int, number: int) -> bool:
    """Signal a process group (0 only looks); False if it has no member left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
