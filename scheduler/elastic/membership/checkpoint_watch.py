"""Notices when a script writes a checkpoint, by the files in the job's directory for checkpoints.

For runtimes whose scripts write checkpoints themselves and tell nobody. Standard library only.
"""

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from scheduler.elastic.environment import Environment

#: What a worker's report says: how long ago a file was written last.
FIELD = "checkpoint_seconds_ago"
#: At most this many files and directories are looked at each time.
ENTRIES_MAX = 2000
#: The scheduler takes no longer time.
SECONDS_MAX = 1e9
#: How long a file must stay unchanged to count as complete.
COMPLETE_SECONDS = 2.0
#: A file with a later time than that has a wrong one.
AHEAD_SECONDS_MAX = 3600.0
#: Pause between two looks: at least this many seconds, and for slow file systems a multiple of the last look's time.
_LOOK_SECONDS = 1.0
_LOOK_FACTOR = 20.0
#: Names of what is being written, and of logs; also of directories.
_IGNORED = re.compile(
    r"""\..*                                         # .model.pt.123
    | te?mp([^a-z].*)? | .*[._-]te?mp([^a-z].*)?      # tmp-checkpoint-500, model.pt.tmp, model_tmp.pt
    | tmp[a-z0-9_]{8}                                 # as Python names temporary files
    | .*\.(new|part|partial|swp|lock|log)\d* | .*~
    | .*\.tfevents\..*""",
    re.IGNORECASE | re.VERBOSE,
)


class _File(NamedTuple):
    """One file, as it was found last."""

    #: By the clock of the file system; nanoseconds.
    modified: int
    size: int
    inode: int
    #: When it was first found like this, on the monotonic clock.
    seen_at: float
    #: When it was written, on the monotonic clock; None: not known.
    written_at: float | None

    def was_complete_before(self, later: "_File") -> bool:
        """Whether what the path has now took the place of a complete file: it is another one, or of the same size."""
        return self.modified != later.modified and (self.inode != later.inode or self.size == later.size)


class CheckpointWatch:
    """Looks at a directory and the directories in it, from a thread of its own: a file system may never answer.

    A checkpoint counts from when its file was complete. Times of files are compared with each other only, and with the
    clock of this machine for files that were there before: file systems may have clocks of their own.
    """

    def __init__(
        self,
        directory: Path,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._monotonic = monotonic
        self._wall = wall
        self._files: dict[str, _File] | None = None
        #: Time of the newest complete file by the file system's clock, and by `monotonic`.
        self._newest = -1
        self._written_at: float | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        """Looks from now on, until `stop` or the end of the process."""
        threading.Thread(target=self._look_forever, name="checkpoint_watch", daemon=True).start()

    def stop(self) -> None:
        """Looks no more."""
        self._stopped.set()

    def seconds_ago(self) -> float | None:
        """How long ago the last checkpoint was written; None: none is known. It does not wait for the file system."""
        written_at = self._written_at
        return None if written_at is None else round(min(max(self._monotonic() - written_at, 0.0), SECONDS_MAX), 3)

    def look(self) -> None:
        """Looks once. A directory that cannot be read tells nothing."""
        known, files, complete = self._files or {}, {}, []
        try:
            for path, found in _files_in(self._directory):
                before = known.get(path)
                file = files[path] = self._as_found(before, found)
                if before is not None and before.was_complete_before(file):
                    complete.append(before)
        except OSError:
            return
        self._files = files
        complete_at = self._monotonic() - COMPLETE_SECONDS
        complete += (file for file in files.values() if file.seen_at <= complete_at)
        self._count(complete)

    def _as_found(self, before: _File | None, found: os.stat_result) -> _File:
        """The file as it is, and since when."""
        if before is not None and (before.modified, before.size) == (found.st_mtime_ns, found.st_size):
            return before
        now = self._monotonic()
        written_at: float | None = now
        if self._files is None:  # it was there before the first look
            age_seconds = self._wall() - found.st_mtime
            written_at = now - age_seconds if age_seconds >= 0 else None
        return _File(found.st_mtime_ns, found.st_size, found.st_ino, now, written_at)

    def _count(self, complete: Sequence[_File]) -> None:
        """Take notice of the newest of these files, if it is newer than all before."""
        last_possible = (self._wall() + AHEAD_SECONDS_MAX) * 1e9
        possible = (file for file in complete if file.modified <= last_possible)
        newest = max(possible, key=lambda file: file.modified, default=None)
        if newest is not None and newest.modified > self._newest:
            self._newest = newest.modified
            self._written_at = newest.written_at if newest.written_at is not None else self._written_at

    def _look_forever(self) -> None:
        pause_seconds = 0.0
        while not self._stopped.wait(pause_seconds):
            began = time.monotonic()
            self.look()
            pause_seconds = max(_LOOK_SECONDS, _LOOK_FACTOR * (time.monotonic() - began))


def watch_of(environment: Environment) -> CheckpointWatch | None:
    """A watch over the checkpoints of the worker's job; None where it has no directory for them."""
    return None if environment.checkpoint_dir is None else CheckpointWatch(environment.checkpoint_dir)


def _files_in(directory: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Files that may be checkpoints: those of the directory, and of the newest directories in it.

    OSError where the directory cannot be read.
    """
    budget = iter(range(ENTRIES_MAX))
    directories: list[tuple[int, str]] = []
    for path, found in _entries(directory, budget):
        if stat.S_ISDIR(found.st_mode):
            directories.append((found.st_mtime_ns, path))
        elif _has_content(found):
            yield path, found
    for _, below in sorted(directories, reverse=True):
        with suppress(OSError):  # it may be gone, or not for this user
            yield from (entry for entry in _entries(below, budget) if _has_content(entry[1]))


def _entries(directory: Path | str, budget: Iterator[int]) -> Iterator[tuple[str, os.stat_result]]:
    """Entries of one directory, each of which takes one of the budget."""
    with os.scandir(directory) as entries:
        for _, entry in zip(budget, entries, strict=False):
            if _IGNORED.fullmatch(entry.name) is None:
                with suppress(OSError):  # it is gone
                    yield entry.path, entry.stat(follow_symlinks=False)


def _has_content(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_size > 0
