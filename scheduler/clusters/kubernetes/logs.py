"""Output of workers: from the API server while their pods exist, afterwards from the kept end of the log.

A pod that ends by itself is there until its log is kept. One that is deleted takes its log with it as soon as its
containers have ended, so its log is followed from before the deletion until then.
"""

import re
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import urllib3

from scheduler.clusters.kubernetes.api.answer import Answer
from scheduler.clusters.kubernetes.api.connection import Connection
from scheduler.clusters.kubernetes.api.errors import BAD_REQUEST, NOT_FOUND, RefusedError
from scheduler.clusters.kubernetes.known_worker import KnownWorker
from scheduler.clusters.logs.files import log_path, save_log
from scheduler.clusters.logs.reader import LocalLogs
from scheduler.config import KubernetesSettings
from scheduler.errors import ClusterError
from scheduler.model.ids import WorkerId, job_key

log = structlog.get_logger(__name__)

#: Bytes that are kept from the end of a log when its pod is deleted.
KEPT_BYTES_MAX = 4 * 1024 * 1024
#: Logs that are followed to their end at a time; of further workers that are deleted meanwhile nothing is kept.
FOLLOWED_MAX = 16
#: A deletion waits for the log to be opened no longer than this, nor than this share of the time that it has itself: a
#: node that is away does not answer.
_OPEN_SECONDS_MAX = 1.0
_OPEN_SHARE_MAX = 0.25
#: How long after its grace period a container may take to end; after that its node counts as silent.
_END_SECONDS_MAX = 10.0
#: What a kubelet writes into a log, or instead of it, when the container is gone.
_KUBELET = re.compile(
    rb"(unable to retrieve container logs for |rpc error: code = NotFound desc = an error occurred when try to find "
    rb"container )[^\n]*\Z"
)
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
        self._lock = threading.Lock()
        #: Logs that are followed to their end.
        self._followed: dict[WorkerId, _Followed] = {}
        self._closed = False

    def keep(self, known: KnownWorker, seconds: float) -> None:
        """Save the end of a log whose pod is about to be deleted, if that takes at most `seconds`."""
        with self._lock:
            if known.who.worker_id in self._followed:
                return
        try:
            with closing(self._connection.log(known.who.namespace, known.name, known.container, seconds)) as stream:
                self._save(known, _End(stream))
        except (ClusterError, urllib3.exceptions.HTTPError, OSError) as error:
            _not_kept(known, error)

    def keep_to_end(self, known: KnownWorker, grace_seconds: float, seconds: float) -> None:
        """Keep the end of a log whose pod is about to be deleted, with what it writes in its grace period.

        Returns when the log is open, or after a part of the `seconds` that there are for log and deletion.
        """
        worker = known.who.worker_id
        with self._lock:
            if self._closed or worker in self._followed or len(self._followed) >= FOLLOWED_MAX:
                return
            followed = self._followed[worker] = _Followed()
        # No pool: threads of those are waited for when the process ends, as long as a kubelet is silent.
        end_seconds = grace_seconds + _END_SECONDS_MAX
        threading.Thread(target=self._follow, args=(known, end_seconds, followed), daemon=True).start()
        followed.opened.wait(min(seconds * _OPEN_SHARE_MAX, _OPEN_SECONDS_MAX))

    def close(self) -> None:
        """Stop following logs, and keep what was read of each."""
        with self._lock:
            self._closed = True
            followed = list(self._followed.values())
        for each in followed:
            each.end()
            each.saved.wait(_OPEN_SECONDS_MAX)

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
            answer = self._connection.log(known.who.namespace, known.name, known.container, seconds)
        except RefusedError as error:
            if error.status == NOT_FOUND:
                return self._kept.read(worker, offset, limit, nonce=nonce)
            if error.status == BAD_REQUEST:  # it has not started
                return b"", 0
            raise
        try:
            with closing(answer):
                data, end = read_part(answer.pieces(), offset, limit)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterError(f"the log of {worker} could not be read: {error}") from None
        if _KUBELET.search(data):
            return self._kept.read(worker, offset, limit, nonce=nonce)
        return data, end

    def _follow(self, known: KnownWorker, seconds: float, followed: "_Followed") -> None:
        who = known.who
        try:
            stream = self._connection.log(who.namespace, known.name, known.container, seconds, follow=True)
            with closing(stream):
                followed.stream = stream
                followed.opened.set()
                if self._closed:
                    followed.end()
                self._save(known, _End(stream))
        except (ClusterError, urllib3.exceptions.HTTPError, OSError) as error:
            _not_kept(known, error)
        finally:
            followed.opened.set()
            followed.saved.set()
            with self._lock:
                del self._followed[who.worker_id]

    def _save(self, known: KnownWorker, end: "_End") -> None:
        """Raises `OSError`."""
        if end.data:
            key = job_key(known.who.job_id, known.who.nonce)
            save_log(log_path(self._state_dir, key, known.who.worker_id), end.data, end.start)


@dataclass(eq=False, slots=True)
class _Followed:
    """A log that a thread reads to its end."""

    stream: Answer | None = None
    opened: threading.Event = field(default_factory=threading.Event)
    saved: threading.Event = field(default_factory=threading.Event)

    def end(self) -> None:
        """End the stream, so that its thread reads no more."""
        with suppress(OSError, RuntimeError, ValueError):  # it has ended meanwhile
            if self.stream is not None:
                self.stream.stop()


class _End:
    """The end of a log as it was read until the stream ended or broke."""

    def __init__(self, stream: Answer) -> None:
        kept = bytearray()
        #: Of its first byte.
        self.start = 0
        try:
            for chunk in stream.pieces():
                kept += chunk
                dropped = max(len(kept) - KEPT_BYTES_MAX, 0)
                self.start += dropped
                del kept[:dropped]
        except (urllib3.exceptions.HTTPError, OSError):
            pass  # what came is better than nothing
        self.data = _KUBELET.sub(b"", bytes(kept))


def _not_kept(known: KnownWorker, error: Exception) -> None:
    log.warning("kubernetes: the log of a worker could not be kept", worker=known.who.worker_id, error=str(error))


def read_part(pieces: Iterable[bytes], offset: int, limit: int) -> tuple[bytes, int]:
    """Read a part of a stream, and return it with the offset of its end.

    A negative offset counts back from the stream's end.

    A stream that ends before the offset is that of a log which the kubelet has begun anew, and is read from its start:
    it gives what it has rotated away to nobody.
    """
    if offset < 0:
        return _last(pieces, -offset, limit)
    head, kept = bytearray(), bytearray()
    position = 0  # of the first byte that is kept
    for chunk in pieces:
        head += chunk[: max(limit - len(head), 0)]
        kept += chunk
        skipped = min(offset - position, len(kept))
        del kept[:skipped]
        position += skipped
        if len(kept) >= limit or position > _BYTES_MAX:
            break
    else:
        if position < offset:
            return bytes(head), len(head)
    data = bytes(kept[:limit])
    return data, position + len(data)


def _last(pieces: Iterable[bytes], wanted: int, limit: int) -> tuple[bytes, int]:
    kept = bytearray()
    position = 0  # of the first byte that is kept
    for chunk in pieces:
        kept += chunk
        dropped = max(len(kept) - wanted, 0)
        position += dropped
        del kept[:dropped]
        if position > _BYTES_MAX:
            break
    data = bytes(kept[:limit])
    return data, position + len(data)
