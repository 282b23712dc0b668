"""Checkpoints on disk: atomic, fenced by generation, newest first. Imports torch."""

import logging
import os
import pickle
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"checkpoint-(\d+)-(\d+)\.pt")
#: The last one, and the one before in case the last cannot be read.
_KEPT = 2


class CheckpointDirectory:
    """The checkpoints of one job.

    A file is named for the generation that wrote it and the number of commits in it. Generations grow for the life of
    the job, so one written by a group that the scheduler had already given up never hides one by its successor.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, generation: int, commits: int, tree: Any) -> Path:
        """Writes atomically: after a crash at any moment the file is whole or absent. OSError when the disk is full."""
        self._path.mkdir(parents=True, exist_ok=True)
        target = self._path / f"checkpoint-{generation}-{commits}.pt"
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with partial.open("wb") as file:
                torch.save(tree, file)
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
        for _, _, old in self._found()[_KEPT:]:
            old.unlink(missing_ok=True)
        return target

    def read(self) -> tuple[int, Any] | None:
        """Number of commits and content of the newest readable checkpoint, or None where there is none.

        The directory belongs to this job alone, so its content is trusted and may hold any Python value.
        """
        for _, commits, path in self._found():
            try:
                return commits, torch.load(path, map_location="cpu", weights_only=False)
            except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
                _LOG.warning("cannot read checkpoint %s, trying the previous one: %s", path, error)
        return None

    def _found(self) -> list[tuple[int, int, Path]]:
        found: list[tuple[int, int, Path]] = []
        with suppress(FileNotFoundError):
            found = [
                (int(match[1]), int(match[2]), path)
                for path in self._path.iterdir()
                if (match := _NAME.fullmatch(path.name))
            ]
        return sorted(found, reverse=True)
