"""Reading local workers' logs, by offsets that stay true while the logs are trimmed."""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scheduler.clusters.logs.files import log_dir, log_path, open_existing, read_range
from scheduler.model.ids import JobId, JobKey, WorkerId, job_key

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class WorkerLog:
    """The remaining output of one worker: bytes `start` to `end`, counted since it started."""

    worker_id: WorkerId
    start: int
    end: int


class LocalLogs:
    """The logs below one state directory, live and ended workers alike; stdout and stderr together."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def read(self, worker: WorkerId, offset: int = 0, limit: int = 65536, *, nonce: str = "") -> tuple[bytes, int]:
        """At most `limit` bytes from `offset`, and the offset to go on from. `nonce` is that of the worker's job.

        A negative offset counts from the end; one whose bytes are gone already moves to the first that is there, one
        past the end moves to the end. A worker that has written nothing, or that is unknown, has an empty log.
        """
        parts = _parts_of(worker)
        if parts is None:
            return b"", 0
        path = log_path(self._state_dir, job_key(JobId(parts[0]), nonce), worker)
        try:
            descriptor = open_existing(path, os.O_RDONLY)
        except OSError:
            return b"", 0
        try:
            # The supervisor may trim between a look at the range and the read: then the bytes read are zeros.
            for _ in range(_ATTEMPTS):
                span = read_range(path)
                end = span.base + os.fstat(descriptor).st_size
                first = min(max(offset if offset >= 0 else end + offset, span.start), end)
                data = os.pread(descriptor, max(limit, 0), first - span.base)
                if read_range(path) == span:
                    return data, first + len(data)
            return b"", first  # it is written faster than read; the caller asks again from where it is
        finally:
            os.close(descriptor)

    def of_job(self, job: JobKey) -> tuple[WorkerLog, ...]:
        """The logs of all workers that a job has had, in the order of their start."""
        folder = log_dir(self._state_dir) / job
        logs: list[WorkerLog] = []
        with suppress(FileNotFoundError):
            for path in folder.glob("*.log"):
                span = read_range(str(path))
                with suppress(FileNotFoundError):
                    logs.append(WorkerLog(WorkerId(path.stem), span.start, span.base + path.lstat().st_size))
        return tuple(sorted(logs, key=lambda log: _parts_of(log.worker_id) or (0, 0)))

    def remove(self, job: JobKey) -> None:
        """Remove a job's logs; no error if there are none."""
        shutil.rmtree(log_dir(self._state_dir) / job, ignore_errors=True)


def _parts_of(worker: str) -> tuple[int, int] | None:
    """Job id and ordinal of a well-formed worker id; others, which a person may have typed, name no file."""
    job, _, ordinal = worker.partition("-")
    if job.isascii() and job.isdecimal() and ordinal.isascii() and ordinal.isdecimal():
        return int(job), int(ordinal)
    return None
