"""Log files of local workers, and how they are kept small while their workers write.

A worker appends to one file for all of its life. The file's beginning is given back to the disk as it grows, by
punching a hole into it: no byte is copied, none is lost between a copy and a truncation, nobody has to reopen anything,
and offsets stay what they were. Where the file system has no holes it is truncated and a base offset is kept.
A worker may exceed the limit by what it writes between two looks, at most `LOOK_SECONDS_MAX` apart.
Standard library only.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOOK_SECONDS_MIN = 0.05
LOOK_SECONDS_MAX = 0.25

_BLOCK_BYTES = 4096
_RANGE_BYTES_MAX = 100
#: FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_PUNCH_HOLE = 0x01 | 0x02
_NO_HOLES = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class LogRange:
    """The remaining range of a log, in bytes counted since its worker started."""

    #: Offset of the file's first byte; 0 unless the file was truncated.
    base: int = 0
    #: Offset of the first byte that is still there.
    start: int = 0


def log_dir(state_dir: Path) -> Path:
    return state_dir / "logs"


def log_path(state_dir: Path, job: str | int, worker: str) -> str:
    """`job` is its `JobKey`."""
    return f"{log_dir(state_dir)}/{job}/{worker}.log"


def open_log(path: str) -> int:
    """A descriptor to append to. Raises `OSError`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return os.open(path, flags, 0o600)


def open_existing(path: str, flags: int) -> int:
    """A descriptor of a log, which the owner of its directory may have put there. Raises `OSError`.

    That owner may be a user, and this process root: neither a link is followed, nor is anything opened that is no
    ordinary file or belongs to somebody else.
    """
    opened = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(opened)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.stat(os.path.dirname(path)).st_uid:
            raise PermissionError(errno.EPERM, "not a file of the owner of its directory", path)
    except OSError:
        os.close(opened)
        raise
    return opened


def read_range(path: str) -> LogRange:
    """Counts only as this process wrote it: a user who owns the directory may have put another one there."""
    try:
        opened = os.open(_range_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return LogRange()
    try:
        if os.fstat(opened).st_uid != os.geteuid():
            return LogRange()
        base, start = os.read(opened, _RANGE_BYTES_MAX).split()
        return LogRange(int(base), int(start))
    except (OSError, ValueError):
        return LogRange()
    finally:
        os.close(opened)


def save_log(path: str, data: bytes, start: int) -> None:
    """Write a complete log, of which only the bytes from `start` on are left. Raises `OSError`."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if start and not _try_save_range(path, LogRange(start, start)):
        raise OSError(errno.EIO, "cannot record the start of the log")
    try:
        with open(f"{path}.new", "wb") as file:
            file.write(data)
        os.rename(f"{path}.new", path)
    except OSError:
        with suppress(OSError):  # a full disk keeps no half of it
            os.unlink(f"{path}.new")
        raise


def punch_hole(descriptor: int, hole_bytes: int) -> bool:
    """Give the first `hole_bytes` back to the disk; False if the file system cannot. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(descriptor, _PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(hole_bytes)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_HOLES:
        return False
    raise OSError(number, os.strerror(number))


def trim_log(
    path: str, keep_bytes_max: int, keep_bytes_min: int, punch: Callable[[int, int], bool] = punch_hole
) -> int:
    """Cut a log that holds more than `keep_bytes_max` to about `keep_bytes_min`. Returns its end, 0 for none."""
    try:
        descriptor = open_existing(path, os.O_RDWR)
    except OSError:
        return 0  # removed by hand
    try:
        span = read_range(path)
        size = os.fstat(descriptor).st_size
        if span.base + size - span.start > keep_bytes_max:
            hole = (size - keep_bytes_min) // _BLOCK_BYTES * _BLOCK_BYTES
            _cut(descriptor, path, LogRange(span.base, span.base + hole), hole, punch)
        return span.base + size
    finally:
        os.close(descriptor)


def _cut(descriptor: int, path: str, span: LogRange, hole_bytes: int, punch: Callable[[int, int], bool]) -> None:
    # Readers look at the range first, so it is written first; on a full disk it may need the room that the hole gives.
    saved = _try_save_range(path, span)
    if not punch(descriptor, hole_bytes):
        size = os.fstat(descriptor).st_size
        span = LogRange(span.base + size, span.base + size)
        os.ftruncate(descriptor, 0)
        saved = False
    if not saved:
        _try_save_range(path, span)


def _try_save_range(path: str, span: LogRange) -> bool:
    target = _range_path(path)
    new = f"{target}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(new)
        # In a directory of a user: never through a link, nor into a file that is there.
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(f"{span.base} {span.start}\n".encode())
        os.rename(new, target)
    except OSError:
        return False
    return True


def _range_path(path: str) -> str:
    return f"{path.removesuffix('.log')}.range"


class LogTrimmer:
    """Decides when to look at logs: the faster they grow, the more often."""

    def __init__(self, bytes_max: int, files_max: int) -> None:
        self._keep_max = bytes_max * files_max
        # As if the oldest of several files had gone; half of it where only one is kept.
        self._keep_min = bytes_max * (files_max - 1) if files_max > 1 else bytes_max // 2
        self._sizes: dict[str, int] = {}
        self._looked_at = 0.0
        self.due_at = 0.0

    def began(self, now: float) -> None:
        """Note a new log, whose growth is unknown."""
        self.due_at = min(self.due_at, now + LOOK_SECONDS_MIN)

    def trim(self, path: str, size: int | None = None) -> None:
        """Trim one log now if it is too large. `size` of the file, where it is known."""
        try:
            if (os.lstat(path).st_size if size is None else size) > self._keep_max:
                trim_log(path, self._keep_max, self._keep_min)
        except OSError as error:
            if error.errno != errno.ENOENT:  # removed by hand
                print(f"{path}: cannot be truncated: {error.strerror}", file=sys.stderr)

    def look(self, paths: Iterable[str], now: float) -> None:
        """Trim logs that are too large and set `due_at` for the next look."""
        step = max(now - self._looked_at, LOOK_SECONDS_MIN)
        sizes: dict[str, int] = {}
        fastest = 0
        for path in paths:
            try:
                sizes[path] = size = os.lstat(path).st_size
            except OSError:
                continue
            former = self._sizes.get(path, 0)
            fastest = max(fastest, size - former)
            if size != former:
                self.trim(path, size)
        self._sizes = sizes
        self._looked_at = now
        # Half of the time in which the fastest one could write one file's worth.
        seconds = (self._keep_max - self._keep_min) * step / (2 * fastest) if fastest else LOOK_SECONDS_MAX
        self.due_at = now + min(max(seconds, LOOK_SECONDS_MIN), LOOK_SECONDS_MAX)
