"""An empty store for each seed, made once per process: building and migrating one takes longer than a seed."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scheduler.store.sqlstore import SqlStore

_MEMORY = Path("/dev/shm")


class Sandbox:
    """One database, emptied before each use."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "run.db"
        self._store = SqlStore(f"sqlite:///{self._path}", durable=False)
        self._store.upgrade()
        self._empty = sqlite3.connect(":memory:")
        with sqlite3.connect(self._path) as made:
            made.backup(self._empty)
        made.close()

    def fresh(self) -> SqlStore:
        """The store as it is after its migrations."""
        target = sqlite3.connect(self._path)
        self._empty.backup(target)
        target.close()
        return self._store

    def close(self) -> None:
        self._store.close()
        self._empty.close()


@contextmanager
def sandbox() -> Iterator[Sandbox]:
    """A sandbox in memory where the system has a place for that."""
    with tempfile.TemporaryDirectory(prefix="faults-", dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        box = Sandbox(Path(directory))
        try:
            yield box
        finally:
            box.close()
