"""Checkpoints on disk: atomic, fenced by generation, newest first, and this job's alone. Imports torch."""

import errno
import logging
import os
import pickle
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch

from scheduler.elastic.errors import ElasticError, UsageError
from scheduler.elastic.training.allowed import read, reason, refusal, require_allowed, strangers

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"checkpoint-(\d+)-(\d+)\.pt")
#: A file that is being written, or whose writer was killed meanwhile.
_PARTIAL = re.compile(r"\.checkpoint-(\d+)-(\d+)\.pt\.\d+")
#: The last one, and the one before in case the last cannot be read.
_KEPT = 2
#: What a file holds: the `JobKey` of the job that wrote it (None: no scheduler had started it), and its state.
_JOB, _STATE = "sched_job", "sched_state"


class CheckpointDirectory:
    """The checkpoints of one job.

    A file is named for the generation that wrote it and the number of commits in it. Generations grow for the life of
    the job, so one written by a group that the scheduler had already given up never hides one by its successor.
    """

    def __init__(self, path: Path, job: str | None = None) -> None:
        """`job` is the key of the job that reads and writes; None where no scheduler has started it."""
        self._path = path
        self._job = job

    def write(self, generation: int, commits: int, tree: Any) -> Path:
        """Writes atomically: after a crash at any moment the file is whole or absent.

        OSError when the disk is full, `UsageError` for a type that could not be read back.
        """
        require_allowed(_without_tensors(tree))
        self._path.mkdir(parents=True, exist_ok=True)
        for found, step, leftover in self._found(_PARTIAL):
            if (found, step) < (generation, commits):  # its writer was killed, or given up
                leftover.unlink(missing_ok=True)
        target = self._path / f"checkpoint-{generation}-{commits}.pt"
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with partial.open("wb") as file:
                _save({_JOB: self._job, _STATE: tree}, file)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        directory = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        # What is newer than this one is another's: a successor's, or another job's.
        older = [path for found, step, path in self._found(_NAME) if (found, step) < (generation, commits)]
        for path in older[_KEPT - 1 :]:
            path.unlink(missing_ok=True)
        return target

    def read(self) -> tuple[int, Any] | None:
        """Number of commits and content of the newest readable checkpoint of this job, or None where there is none.

        Nothing that a file says is run. To begin anew would lose what a file holds: `UsageError` for a type that is
        not allowed, `ElasticError` where the only ones left may be whole, but the system does not give them now.
        """
        withheld = ""
        for _, commits, path in self._found(_NAME):
            try:
                content = read(path)
            except pickle.UnpicklingError as error:
                if names := strangers(path):
                    raise UsageError(refusal(f"checkpoint {path}", names)) from None
                _LOG.warning("cannot read checkpoint %s, trying the previous one: %s", path, reason(error))
            except FileNotFoundError:
                continue  # its successor has taken its place
            except Exception as error:
                if not withheld and _is_withheld(error):
                    withheld = f"checkpoint {path} cannot be read, and may be whole: {reason(error)}"
                _LOG.warning("cannot read checkpoint %s, trying the previous one: %s", path, reason(error))
            else:
                if not (isinstance(content, dict) and content.keys() == {_JOB, _STATE}):
                    return commits, content  # an earlier version wrote it, which named no job
                if content[_JOB] in (self._job, None) or self._job is None:
                    return commits, content[_STATE]
                _LOG.error(
                    "checkpoint %s is not loaded: job %s wrote it, and this is job %s", path, content[_JOB], self._job
                )
        if withheld:
            raise ElasticError(f"{withheld}. Make it readable, or remove it to begin anew")
        return None

    def _found(self, name: re.Pattern[str]) -> list[tuple[int, int, Path]]:
        """Generation, commits and path of the files of such a name, newest first."""
        found: list[tuple[int, int, Path]] = []
        with suppress(FileNotFoundError):
            found = [
                (int(match[1]), int(match[2]), path)
                for path in self._path.iterdir()
                if (match := name.fullmatch(path.name))
            ]
        return sorted(found, reverse=True)


def _is_withheld(error: Exception) -> bool:
    """Whether it is the system that does not give a file's content: that may pass, and says nothing about the file."""
    if isinstance(error, OSError):
        return error.errno not in (None, errno.EINVAL, errno.EISDIR)  # of what damaged bytes make torch do
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


def _save(content: Any, file: BinaryIO) -> None:
    """Writes with torch, whose own error hides that of the disk."""
    try:
        torch.save(content, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def _without_tensors(tree: Any) -> Any:
    """What there is beside tensors, which are large and always allowed."""
    if isinstance(tree, torch.Tensor):
        return None
    if isinstance(tree, dict):
        return {key: _without_tensors(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple) and type(tree) in (list, tuple):
        return [_without_tensors(value) for value in tree]
    return tree
