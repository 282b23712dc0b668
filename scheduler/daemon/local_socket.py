"""The UNIX socket of the daemon: programs of its machine come without a token, since the kernel says who they are."""

import errno
import grp
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from scheduler.config import HttpSettings, Settings
from scheduler.errors import ConfigError
from scheduler.http.auth.access import Logins
from scheduler.http.auth.login_names import LoginNames
from scheduler.model.identity import Role

log = structlog.get_logger(__name__)

SOCKET_FILE = "sched.sock"
_BACKLOG = 128
_OWN = 0o600
_GROUP = 0o660


@contextmanager
def local_socket(settings: HttpSettings, state: Path) -> Iterator[socket.socket | None]:
    """A socket that listens at `http.socket`, else in the state directory; None where that one cannot be made.

    Its file is removed at the end. Raises `ConfigError` for `http.socket` where nothing can listen, and for
    `http.socket_group` where there is no such group.
    """
    path = state / SOCKET_FILE if settings.socket is None else settings.socket.expanduser().absolute()
    try:
        listening = _listen(path, _group(settings))
    except OSError as error:
        why = f"cannot listen on {path}: {error.strerror or error}"
        if settings.socket is not None:
            raise ConfigError(f"{why}: use another path with http.socket (SCHED_HTTP__SOCKET)") from None
        log.warning("no UNIX socket: programs of this machine come by the address, as others do", reason=why)
        listening = None
    made = None if listening is None else _file_of(path)
    try:
        yield listening
    finally:
        if listening is not None:
            listening.close()
            _remove_own(path, made)


def logins_of(settings: Settings) -> Logins:
    """What those may do who come by the socket."""
    shared = settings.system.enabled or settings.http.socket_group is not None
    return Logins(LoginNames(), Role(settings.http.socket_role), shared)


def _group(settings: HttpSettings) -> int | None:
    """The number of the group that may connect. Raises `ConfigError`."""
    if settings.socket_group is None:
        return None
    if settings.socket is None:
        raise ConfigError(
            "http.socket_group: no other user reaches the state directory: set http.socket too, as to "
            "/run/sched/sched.sock"
        )
    try:
        return grp.getgrnam(settings.socket_group).gr_gid
    except KeyError:
        raise ConfigError(f"http.socket_group: there is no group {settings.socket_group} on this machine") from None


def _listen(path: Path, group: int | None) -> socket.socket:
    """Raises `OSError`."""
    _remove_leftover(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o777 & ~_OWN)  # never open to others, not even before the next step
        try:
            bound.bind(str(path))
        finally:
            os.umask(before)
        if group is not None:
            _give(path, group)
        bound.listen(_BACKLOG)
    except (OSError, ConfigError):
        bound.close()
        raise
    return bound


def _give(path: Path, group: int) -> None:
    """Raises `ConfigError` where the daemon may not."""
    try:
        os.chown(path, -1, group)
    except PermissionError:
        path.unlink()
        name = grp.getgrgid(group).gr_name
        raise ConfigError(
            f"http.socket_group: the daemon's user must be a member of {name} to give it {path}"
        ) from None
    path.chmod(_GROUP)


def _file_of(path: Path) -> tuple[int, ...] | None:
    """What tells this file from a later one of its name; None where there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns  # numbers of files are given again


def _remove_own(path: Path, made: tuple[int, ...] | None) -> None:
    """Remove the socket, unless another daemon has taken its place."""
    if made is not None and _file_of(path) == made:
        with suppress(OSError):
            path.unlink()


def _remove_leftover(path: Path) -> None:
    """Remove the socket of a daemon that was killed. Raises `OSError` for other files, and while somebody listens."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "a file that is no socket is there")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        else:
            raise OSError(errno.EADDRINUSE, "another process listens there")
