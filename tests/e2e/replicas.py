"""Two daemons over one PostgreSQL database that share the workers of this machine."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.daemon import Daemon


@contextmanager
def leader_and_standby(
    directory: Path, database_url: str, settings: Mapping[str, Any]
) -> Iterator[tuple[Daemon, Daemon]]:
    """Both run; the first leads."""
    workers = directory / "workers"
    both = {"local": {"slots": 4, "directory": str(workers)}, **settings}
    with ExitStack() as stack:
        pair = []
        for name in ("a", "b"):
            daemon = Daemon(directory / name, both, database_url=database_url, workers_dir=workers)
            stack.callback(daemon.close)
            daemon.start()
            pair.append(daemon)
        yield pair[0], pair[1]
        for daemon in pair:  # before workers are ended through the supervisor, which one that lives on would take over
            daemon.kill()
