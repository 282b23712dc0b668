"""One run of a command line and what came of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.cli.main import run


@dataclass(frozen=True, slots=True)
class Call:
    """Exit status, and what stood on stdout and stderr."""

    status: int
    out: str
    err: str

    @staticmethod
    def run(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> "Call":
        capsys.readouterr()
        status = run(list(words))
        said = capsys.readouterr()
        return Call(int(status), said.out, said.err)

    @property
    def document(self) -> Any:
        """Stdout, which must be one JSON document and nothing else."""
        return json.loads(self.out)

    def ok(self) -> "Call":
        assert self.status == 0, self
        return self

    def failed(self, status: int, *words: str) -> "Call":
        """It ended with this status, one line on stderr that holds these words, and nothing on stdout."""
        assert self.status == status, self
        assert self.out == "", self
        assert len(self.err.splitlines()) == 1, self
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, self
        return self
