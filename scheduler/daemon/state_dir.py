"""The daemon's directory: private to its user, claimed by one daemon at a time, and where clients learn its address."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scheduler.errors import ConfigError, Conflict

LOCK_FILE = "daemon.lock"
ADDRESS_FILE = "daemon.json"
TOKEN_FILE = "token"
JOBS_DIR = "jobs"
IDENTITY_FILE = "identity"


@contextmanager
def claimed(path: Path) -> Iterator[Path]:
    """The directory, made if need be, ours alone inside. Raises `Conflict` naming the process that has it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
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


def identity(path: Path) -> str:
    """Names the daemon of this directory among all replicas, over restarts too: made once, by chance.

    Only inside the claim, since nobody else of this name may live.
    """
    file = path / IDENTITY_FILE
    if not file.exists():
        _write_private(file, secrets.token_hex(4) + "\n")
    return file.read_text().strip()


@contextmanager
def announced(path: Path, url: str, token: str | None) -> Iterator[None]:
    """Tell clients of the same user where the daemon is, and its token, as long as it runs."""
    _write_private(path / ADDRESS_FILE, json.dumps({"url": url, "pid": os.getpid()}) + "\n")
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
