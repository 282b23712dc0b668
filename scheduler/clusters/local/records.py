"""Records of local workers on disk, so that a new supervisor knows the actions of the former one.

One directory per worker: `spec` before the fork, `process` after it, `stop` when asked to leave, `exit` at the end.
Nothing is synced to the disk: records that a crash of the machine loses describe processes that the crash has ended.
Standard library only.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The requested worker, without its environment, which holds secrets."""

    id: str
    #: Its `JobKey`; a number where it was recorded before jobs had a nonce.
    job_id: str | int
    node: str
    slot_ids: tuple[int, ...]
    cpus: float
    memory_mib: int
    grace_seconds: float
    shared: bool = False
    #: The user whose processes it has; None: that of the supervisor.
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """Identity of a worker's first process, and when it began in unix seconds."""

    pid: int
    start_ticks: int
    boot_id: str
    started_at: float


@dataclass(frozen=True, slots=True)
class StopRecord:
    """When the group is killed, on the monotonic clock of that boot, so that the deadline outlives the supervisor."""

    boot_id: str
    kill_at: float


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How a worker ended. `gone`: none of its processes is left; otherwise only its first process has ended."""

    phase: str
    gone: bool
    exit_code: int | None
    detail: str
    started_at: float | None
    ended_at: float | None
    #: An `EndCause`.
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    spec: WorkerSpec
    process: ProcessRecord | None
    stop: StopRecord | None
    exit: ExitRecord | None


Part = ProcessRecord | StopRecord | ExitRecord

_FILES: dict[type[Part], str] = {ProcessRecord: "process", StopRecord: "stop", ExitRecord: "exit"}


def any_recorded(state_dir: Path) -> bool:
    """Whether there is a worker on record, running or ended, that no daemon has told to forget."""
    root = f"{state_dir}/workers"
    with suppress(FileNotFoundError):
        return any(_read(f"{root}/{name}/spec") is not None for name in os.listdir(root))
    return False


class Records:
    """The directory of all workers' records. Methods raise `OSError` where the disk refuses."""

    def __init__(self, state_dir: Path) -> None:
        self._root = str(state_dir / "workers")
        os.makedirs(self._root, mode=0o700, exist_ok=True)

    def create(self, spec: WorkerSpec) -> None:
        """Write the spec, before the worker is forked. A torn one counts as none: nothing was forked then."""
        folder = f"{self._root}/{spec.id}"
        os.mkdir(folder, 0o700)
        _write(f"{folder}/spec", asdict(spec))

    def save(self, worker: str, part: Part) -> None:
        """Replace one part atomically; a reader sees the former or the new one."""
        path = f"{self._root}/{worker}/{_FILES[type(part)]}"
        _write(f"{path}.new", asdict(part))
        os.rename(f"{path}.new", path)

    def remove(self, worker: str) -> None:
        folder = f"{self._root}/{worker}"
        # The spec goes first: an interrupted removal leaves a directory that `load` ignores.
        for name in sorted(os.listdir(folder), key=lambda name: name != "spec"):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)

    def load(self) -> Iterator[WorkerRecord]:
        """Every recorded worker; directories without a complete spec are removed, since nothing was forked for them."""
        for name in sorted(os.listdir(self._root)):
            data = _read(f"{self._root}/{name}/spec")
            if data is None:
                self.remove(name)
                continue
            spec = WorkerSpec(**{**data, "slot_ids": tuple(data["slot_ids"])})
            parts = {kind: _read(f"{self._root}/{name}/{file}") for kind, file in _FILES.items()}
            process, stop, end = parts[ProcessRecord], parts[StopRecord], parts[ExitRecord]
            yield WorkerRecord(
                spec=spec,
                process=ProcessRecord(**process) if process else None,
                stop=StopRecord(**stop) if stop else None,
                exit=ExitRecord(**end) if end else None,
            )


def _write(path: str, data: dict[str, Any]) -> None:
    content = json.dumps(data).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(descriptor)


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            data = json.load(file)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
