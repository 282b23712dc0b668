"""Which database the workers of a directory belong to. A daemon of another one would take them for strays and end them.

The directory holds a mark of that database, and every daemon that uses the directory holds a shared lock beside it. A
daemon of another database takes the directory over only where nobody holds the lock and no worker is recorded.
"""

import fcntl
import hashlib
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scheduler.clusters.local.records import any_recorded
from scheduler.config import Settings
from scheduler.engine.ports import Place
from scheduler.errors import ConfigError, Conflict, NotFound
from scheduler.store.sqlstore import SqlStore

MARK_FILE = "database"
LOCK_FILE = "database.lock"

#: Another daemon holds the lock alone only while it reads and writes the mark.
_WAIT_SECONDS_MAX = 10.0
_LOOK_SECONDS = 0.05
_PATTERN = re.compile(r"([0-9a-f]{32}) ([0-9]{1,20}|-) (\S.*)\n")
#: The identity of no database.
_DAMAGED = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """What names a database."""

    #: It stays the same wherever the database is moved, upgraded or restored.
    identity: str
    #: The number of its file, which a copy has another one of; None: it has no file.
    file: int | None
    #: For people.
    name: str


def mark_of(store: SqlStore) -> Mark:
    """It follows from a secret that databases of older versions have too, and so have their backups."""
    identity = hashlib.sha256(b"owner of a directory" + store.secret("worker-token")).hexdigest()[:32]
    return Mark(identity, None if store.file is None else store.file.stat().st_ino, " ".join(store.where.split()))


@contextmanager
def owned(settings: Settings, store: SqlStore, place: Place, monotonic: Callable[[], float]) -> Iterator[None]:
    """The directory of this daemon's workers belongs to its database as long as this lasts.

    Raises `Conflict` where it belongs to another one.
    """
    if settings.cluster == "kubernetes":
        yield
        return
    directory = settings.workers_path
    with writable(directory):
        lock = _open_lock(directory, os.O_CREAT)
    try:
        seen = store.read_lease().place
        owner = _Owner(directory, lock, mark_of(store), seen is not None and seen.identity == place.identity)
        with writable(directory):
            owner.claim(monotonic)
        yield
    finally:
        os.close(lock)


def disown(directory: Path) -> None:
    """Any database may use the directory from now on. Raises `Conflict` while a daemon uses it, and `NotFound`."""
    with writable(directory):
        try:
            lock = _open_lock(directory)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"{directory}: no database is known to have workers there") from None
        try:
            if not _locked(lock, fcntl.LOCK_EX):
                raise Conflict(f"a daemon uses {directory}: stop it first")
            (directory / MARK_FILE).unlink(missing_ok=True)
            _sync(directory)
        finally:
            os.close(lock)


@contextmanager
def writable(directory: Path) -> Iterator[None]:
    """Where the directory does not allow what has to be done, say so in one line."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"local.directory {directory}: {error.strerror}: use a directory that the daemon can write to"
        ) from None


@dataclass(frozen=True, slots=True)
class _Owner:
    """One daemon's claim for its database."""

    directory: Path
    lock: int
    mark: Mark
    #: Whether the database says that its workers are here.
    led_here: bool

    def claim(self, monotonic: Callable[[], float]) -> None:
        """Hold the lock with others of this database, once the mark is its."""
        since = monotonic()
        while True:
            if _locked(self.lock, fcntl.LOCK_EX):
                self._take()
            # Between the two locks another one may have taken the directory, so the mark is read again.
            if _locked(self.lock, fcntl.LOCK_SH):
                return self._check_company()
            if monotonic() - since > _WAIT_SECONDS_MAX:
                raise Conflict(f"another daemon is starting in {self.directory} and does not go on: stop it first")
            threading.Event().wait(_LOOK_SECONDS)

    def _take(self) -> None:
        """Nobody else uses the directory: mark it, unless it has workers of another database."""
        known = _read(self.directory)
        if known is not None and not self._is_ours(known) and any_recorded(self.directory):
            raise Conflict(
                f"{self.directory} has workers of another database, {known.name}, and this daemon would end them: use "
                "that database, or another directory (local.directory or --state-dir); if that database is lost, run "
                f"`sched db disown --directory {shlex.quote(str(self.directory))}`"
            )
        if known != self.mark:
            _write(self.directory, self.mark)

    def _is_ours(self, known: Mark) -> bool:
        return known.identity == self.mark.identity or (known.identity == _DAMAGED and self.led_here)

    def _check_company(self) -> None:
        """Others may use the directory, and the mark is theirs."""
        known = _read(self.directory) or _unknown("missing")
        if (known.identity, known.file) != (self.mark.identity, self.mark.file):
            which = "with a copy of this database" if known.identity == self.mark.identity else "with another database"
            raise Conflict(
                f"another daemon uses {self.directory} {which}, {known.name}: use that database, or "
                "another directory (local.directory or --state-dir), or stop that daemon first"
            )


def _open_lock(directory: Path, flags: int = 0) -> int:
    return os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)


def _locked(lock: int, kind: int) -> bool:
    """Whether the lock is held now, at once or not at all."""
    with suppress(BlockingIOError):
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        return True
    return False


def _read(directory: Path) -> Mark | None:
    """None: there is none, as in a directory of an older version."""
    try:
        found = _PATTERN.fullmatch((directory / MARK_FILE).read_bytes().decode(errors="replace"))
    except FileNotFoundError:
        return None
    if found is None:
        return _unknown("damaged")
    identity, file, name = found.groups()
    return Mark(identity, None if file == "-" else int(file), name)


def _unknown(why: str) -> Mark:
    return Mark(_DAMAGED, None, f"unknown since the file {MARK_FILE!r} there is {why}")


def _write(directory: Path, mark: Mark) -> None:
    """Replace it whole and for good: the former one or this one is there after a crash."""
    new = directory / f"{MARK_FILE}.new"
    file = "-" if mark.file is None else mark.file
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as opened:
        opened.write(f"{mark.identity} {file} {mark.name}\n".encode(errors="replace"))
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(directory / MARK_FILE)
    _sync(directory)


def _sync(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
