"""The protocol of the local cluster and its supervisor: lines of JSON over a Unix socket in the state directory.

To the supervisor: one `Request` per `apply`. From it: a `Notice` with every worker at first, then with what changed.
Standard library only.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired, TypedDict

#: Version, raised when one side can no longer read the other: a supervisor outlives the daemon that launched it.
PROTOCOL = 2

_LINE_BYTES_MAX = 256 * 1024 * 1024


class AccountFields(TypedDict):
    """A user of this machine, as whom a worker runs."""

    login: str
    uid: int
    gid: int
    #: All groups, that of `gid` included.
    groups: list[int]
    home: str
    shell: str
    #: Permissions that files which it makes do not get.
    umask: int


class StartRequest(TypedDict):
    id: str
    #: Its `JobKey`.
    job_id: str
    node: str
    slot_ids: list[int]
    cpus: float
    memory_mib: int
    shared: bool
    grace_seconds: float
    command: list[str]
    env: dict[str, str]
    workdir: str
    #: The account that it runs as; missing: as the user of the daemon.
    account: NotRequired[AccountFields]
    #: Why its user has none, in one line: it is not started.
    no_account: NotRequired[str]


class StopRequest(TypedDict):
    id: str
    grace_seconds: float


class Request(TypedDict, total=False):
    """`shutdown`: kill all workers, then end."""

    #: ("start", StartRequest), ("stop", StopRequest) or ("forget", {"id": ...}), done in this order.
    actions: list[tuple[str, Any]]
    #: Variables of all starts; their own `env` overrides them.
    env: dict[str, str]
    #: `log_bytes_max`, `log_files_max`
    log_limits: tuple[int, int]
    shutdown: bool


class WorkerNotice(TypedDict):
    """One worker as the supervisor sees it; the fields of `WorkerObservation`."""

    id: str
    #: Its `JobKey`; a number if a supervisor without nonces started it.
    job_id: str | int
    node: str
    phase: str
    slot_ids: list[int]
    cpus: float
    memory_mib: int
    shared: bool
    exit_code: int | None
    detail: str
    #: An `EndCause`; an older supervisor does not send it.
    cause: NotRequired[str | None]
    started_at: float | None
    ended_at: float | None


class Notice(TypedDict, total=False):
    #: Only in the first notice, whose `workers` are complete.
    protocol: int
    pid: int
    #: Only in the first notice: whether it knows `StartRequest.account`. An older supervisor, which does not send it,
    #: would start the worker as its own user.
    starts_as_users: bool
    #: Only in the first notice, if the state directory was moved, so that records cannot be written.
    moved_from: str
    workers: list[WorkerNotice]
    forgotten: list[str]
    #: Whether another daemon has connected; this connection ends.
    replaced: bool


def encode(message: Request | Notice) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class LineReader:
    """Splits received bytes into messages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages that `data` completes. Raises `ValueError` for a line that is not JSON or far too long."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = b"".join([*self._parts, line])
            self._parts, self._size = [], 0
            yield json.loads(whole)
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > _LINE_BYTES_MAX:
                raise ValueError("line too long")


def connect(state_dir: Path) -> socket.socket:
    """Raises `OSError` if no supervisor listens."""
    with _short_path(state_dir) as path:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
            raise
        return connection


def listen(state_dir: Path) -> socket.socket:
    """Open the supervisor's socket; one left by a former supervisor is replaced."""
    with _short_path(state_dir) as path:
        if os.path.lexists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(mask)
        listener.listen(16)
        return listener


@contextmanager
def _short_path(state_dir: Path) -> Iterator[str]:
    """The socket's path by way of a descriptor: the kernel takes at most 108 bytes, a state directory may have more."""
    folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/supervisor.sock"
    finally:
        os.close(folder)
