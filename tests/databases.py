"""SQLite files with all tables, copied from one that each process migrates once."""

import tempfile
from functools import cache
from pathlib import Path

from scheduler.store import SqlStore


def migrated_sqlite(path: Path) -> str:
    """The URL of the database at `path`: an empty one with all tables, where there was none."""
    if not path.exists():
        path.write_bytes(_migrated())
    return f"sqlite:///{path}"


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "template.db"
        store = SqlStore(f"sqlite:///{path}", durable=False)
        store.upgrade()
        store.close()
        # With its journal beside it, the file alone would not be all of it.
        assert list(path.parent.iterdir()) == [path]
        return path.read_bytes()
