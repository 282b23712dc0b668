"""The daemon's directory: private to its user, claimed by one daemon at a time, and where clients learn its address."""

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import structlog

from scheduler.errors import ConfigError, Conflict

log = structlog.get_logger(__name__)

LOCK_FILE = "daemon.lock"
ADDRESS_FILE = "daemon.json"
TOKEN_FILE = "token"
IDENTITY_FILE = "identity"
#: Group and others may use names in the directory, without seeing them.
_PASSING = 0o011


@contextmanager
def claimed(path: Path, *, passable: bool = False) -> Iterator[Path]:
    """The directory, made if need be, ours alone inside. Raises `Conflict` naming the process that has it.

    `passable`: whether other users may pass through it, to directories of their own.
    """
    try:
        private_directory(path, passable=passable)
        for name in (IDENTITY_FILE, TOKEN_FILE, ADDRESS_FILE, LOCK_FILE):
            make_private(path / name)
        lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"state directory {path}: {error.strerror}: use another directory with --state-dir or state_dir"
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise Conflict(
                f"another daemon (pid {holder}) uses the state directory {path}: "
                "stop it first, or use another directory with --state-dir"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield path
    finally:
        os.close(lock)


def private_directory(path: Path, *, passable: bool = False) -> None:
    """Make it, if need be, and close it to all other users. Raises `OSError`, and `ConfigError` as `make_private`.

    `passable`: they may pass through it, and see nothing of what is in it.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_private(path, _PASSING if passable else 0)
    if passable:
        path.chmod(stat.S_IMODE(path.stat().st_mode) | _PASSING)


def make_private(path: Path, allowed: int = 0) -> None:
    """Close a file or directory to all other users. Raises `ConfigError` where that cannot be done.

    `allowed`: permissions that they keep.
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        return
    others = stat.S_IMODE(facts.st_mode) & 0o077 & ~allowed
    if facts.st_uid == os.geteuid():
        if others:
            path.chmod(stat.S_IMODE(facts.st_mode) & ~others)
            log.warning("others could read this; it is private now", path=str(path), mode=f"{facts.st_mode & 0o777:o}")
    elif facts.st_uid != 0 or (others and not _is_volume(path, facts)):
        raise ConfigError(
            f"{path}: belongs to user {facts.st_uid} and the daemon runs as user {os.geteuid()}: "
            "it holds secrets, so use a directory of the daemon's own user with --state-dir or state_dir"
        )


def _is_volume(path: Path, facts: os.stat_result) -> bool:
    """Whether root has mounted it for the daemon's container; directories of all users have the sticky bit."""
    return path.is_mount() and not facts.st_mode & stat.S_ISVTX


def identity(path: Path) -> str:
    """Names the daemon of this directory among all replicas, over restarts too: made once, by chance.

    The file says which file it is, so that the daemon of a copy of the directory is another one.
    """
    file = path / IDENTITY_FILE
    name = _identity_in(file)
    while name is None:
        file.unlink(missing_ok=True)
        new = file.with_name(f"{file.name}.{os.getpid()}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as opened:
            opened.write(f"{secrets.token_hex(4)} {_number(opened)}\n")
            opened.flush()
            os.fsync(opened.fileno())  # an empty one after a power failure would be another name
        with suppress(FileExistsError):  # a replica that shares the directory was faster
            os.link(new, file)
        new.unlink()
        name = _identity_in(file)
    return name


def _identity_in(file: Path) -> str | None:
    """None: there is none, it is damaged, or it is a copy. Older versions did not write the number."""
    with suppress(FileNotFoundError, UnicodeDecodeError), open(file, "r+", encoding="ascii") as opened:
        name, _, number = opened.read().strip().partition(" ")
        if name and not number:
            number = _number(opened)
            opened.seek(0)
            opened.write(f"{name} {number}\n")
        return name if name and number == _number(opened) else None
    return None


def _number(file: IO[str]) -> str:
    """Names this file in its file system; a copy has another one."""
    return str(os.fstat(file.fileno()).st_ino)


@contextmanager
def announced(path: Path, url: str, token: str | None, unix_socket: str | None = None) -> Iterator[None]:
    """Tell clients of the same user where the daemon is, and its token, as long as it runs."""
    where = {"url": url, "pid": os.getpid()} | ({} if unix_socket is None else {"socket": unix_socket})
    _write_private(path / ADDRESS_FILE, json.dumps(where) + "\n")
    if token is not None:
        _write_private(path / TOKEN_FILE, token + "\n")
    else:
        (path / TOKEN_FILE).unlink(missing_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):
            (path / ADDRESS_FILE).unlink(missing_ok=True)


def _write_private(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # an older one may have another mode
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
    new.replace(path)
