"""Where a daemon's workers run. Two daemons of different places on one database would start each worker twice.

Local workers belong to the state directory (or to `local.directory`) whose supervisor started them; a daemon of another
one, on this machine or elsewhere, does not see them. So the leader's place stands in the database, and a daemon of
another one neither starts beside it nor takes the lead while workers live there.
"""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

from scheduler.config import Settings
from scheduler.daemon.directory_owner import writable
from scheduler.daemon.state_dir import identity, private_directory
from scheduler.engine.ports import Place
from scheduler.errors import Conflict
from scheduler.store.sqlstore import SqlStore

_LOOK_SECONDS = 0.2
#: A leader is not watched for longer than this; one that then may still live counts as living.
_WATCH_SECONDS_MAX = 30.0


def place_of(settings: Settings, store: SqlStore) -> Place:
    """Where the workers of this daemon run."""
    if settings.cluster == "kubernetes":
        return Place("kubernetes", "Kubernetes")
    directory = settings.workers_path
    name = f"state directory {directory} on {socket.gethostname()}"
    with writable(directory):
        private_directory(directory, passable=settings.system.enabled)
        within = _within(store.file, directory)
        return Place(identity(directory) if within is None else str("beside the database" / within), name)


def _within(file: Path | None, directory: Path) -> Path | None:
    """Where the database lies in the directory, which is moved and restored with it; None: elsewhere."""
    if file is None or not file.resolve().is_relative_to(directory.resolve()):
        return None
    return file.resolve().parent.relative_to(directory.resolve())


def check_place(store: SqlStore, place: Place, monotonic: Callable[[], float]) -> None:
    """Raise `WorkersElsewhere` while workers live at another place, `Conflict` while a daemon of another one lives."""
    store.check_place(place)
    seen = store.read_lease()
    if seen.place is not None and seen.place.identity != place.identity and leader_lives(store, monotonic):
        raise Conflict(
            f"another daemon, {seen.holder}, runs workers of this database at {seen.place.name}: stop it first, use "
            f"its directory (local.directory) for a standby, or use another database; this is {place.name}"
        )


def leader_lives(store: SqlStore, monotonic: Callable[[], float]) -> bool:
    """Whether any daemon leads: known at once where none does, else when its lease is renewed or outlived."""
    seen, since = store.read_lease(), monotonic()
    while seen.holder is not None and monotonic() - since <= seen.ttl_seconds:
        threading.Event().wait(_LOOK_SECONDS)
        if store.read_lease() != seen or monotonic() - since > _WATCH_SECONDS_MAX:
            return True
    return False
