"""Output of workers: from the API server as long as their pods are there, afterwards from what was kept of it."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import structlog
import urllib3

from scheduler.clusters.kubernetes.answers import BAD_REQUEST, NOT_FOUND, RefusedError
from scheduler.clusters.kubernetes.connection import Connection
from scheduler.clusters.kubernetes.picture import KnownWorker
from scheduler.clusters.local_log_files import log_path, save_log
from scheduler.clusters.local_logs import LocalLogs
from scheduler.config import KubernetesSettings
from scheduler.errors import ClusterError
from scheduler.model.ids import WorkerId, job_key

log = structlog.get_logger(__name__)

_CHUNK = 64 * 1024
#: The end of a log that is kept when its pod goes.
KEPT_BYTES_MAX = 4 * 1024 * 1024
#: The API gives a log from its start, so reading on from an offset means skipping; no log is skipped further.
_BYTES_MAX = 256 * 1024 * 1024


class KubernetesLogs:
    """The logs of all workers, stdout and stderr together. What was kept is on the disk of the daemon that did it."""

    def __init__(
        self,
        connection: Connection,
        settings: KubernetesSettings,
        state_dir: Path,
        find: Callable[[WorkerId], KnownWorker | None],
    ) -> None:
        """`find` gives the pod of a worker, as far as it is known."""
        self._connection = connection
        self._settings = settings
        self._state_dir = state_dir
        self._find = find
        self._kept = LocalLogs(state_dir)

    def keep(self, known: KnownWorker, seconds: float) -> None:
        """Keep the end of a log whose pod is about to go, if that can be done in so many seconds."""
        worker, key = known.who.worker_id, job_key(known.who.job_id, known.who.nonce)
        try:
            with closing(self._connection.log(known.who.namespace, known.name, known.container, seconds)) as stream:
                data, end = _part(stream, -KEPT_BYTES_MAX, KEPT_BYTES_MAX)
            if data:
                save_log(log_path(self._state_dir, key, worker), data, end - len(data))
        except (ClusterError, urllib3.exceptions.HTTPError, OSError) as error:
            log.warning("kubernetes: the log of a worker could not be kept", worker=worker, error=str(error))

    def read(self, worker: WorkerId, offset: int = 0, limit: int = 65536, *, nonce: str = "") -> tuple[bytes, int]:
        """At most `limit` bytes from `offset` (negative: from the end), and the offset to go on from.

        `nonce` is that of the worker's job.

        A worker that has not begun to write has an empty log. Raises `ClusterError`.
        """
        known = self._find(worker)
        if known is None or known.gone or known.who.nonce != nonce:
            return self._kept.read(worker, offset, limit, nonce=nonce)
        seconds = self._settings.request_seconds
        try:
            response = self._connection.log(known.who.namespace, known.name, known.container, seconds)
        except RefusedError as error:
            if error.status == NOT_FOUND:
                return self._kept.read(worker, offset, limit, nonce=nonce)
            if error.status == BAD_REQUEST:  # it has not started
                return b"", 0
            raise
        try:
            with closing(response):
                return _part(response, offset, limit)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterError(f"the log of {worker} could not be read: {error}") from None


def _part(response: urllib3.BaseHTTPResponse, offset: int, limit: int) -> tuple[bytes, int]:
    """What is asked for of a stream: from an offset on, or from so many bytes before its end."""
    kept = bytearray()
    position = 0  # of the first byte that is kept
    wanted = limit if offset >= 0 else -offset
    for chunk in response.stream(_CHUNK):
        kept += chunk
        if offset >= 0:
            skipped = min(max(offset - position, 0), len(kept))
            del kept[:skipped]
            position += skipped
            if len(kept) >= wanted:
                break
        elif len(kept) > wanted:
            position += len(kept) - wanted
            del kept[: len(kept) - wanted]
        if position > _BYTES_MAX:
            break
    data = bytes(kept[:limit])
    return data, position + len(data)
