"""Output of workers, read from the API server as long as their pods are there."""

from contextlib import closing

import urllib3

from scheduler.clusters.kubernetes.connection import Connection, RefusedError
from scheduler.clusters.kubernetes.ends import worker_container
from scheduler.clusters.kubernetes.manifest import pod_name
from scheduler.config import KubernetesSettings
from scheduler.errors import ClusterError
from scheduler.model.ids import WorkerId

_CHUNK = 64 * 1024
#: The API gives a log from its start, so reading on from an offset means skipping; no log is skipped further.
_BYTES_MAX = 256 * 1024 * 1024


class KubernetesLogs:
    """The logs of workers whose pods the API still has; stdout and stderr together."""

    def __init__(self, connection: Connection, settings: KubernetesSettings) -> None:
        self._connection = connection
        self._settings = settings

    def read(self, worker: WorkerId, offset: int = 0, limit: int = 65536) -> tuple[bytes, int]:
        """At most `limit` bytes from `offset` (negative: from the end), and the offset to go on from.

        A worker that has not begun to write, or whose pod is gone, has an empty log. Raises `ClusterError`.
        """
        name = pod_name(self._settings.instance, worker)
        until = self._settings.request_seconds
        try:
            pod = self._connection.read_pod(name, self._connection.now() + until)
            response = self._connection.log(name, worker_container(pod))
        except RefusedError as error:
            if error.status in (400, 404):  # 400: its container waits to start
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
