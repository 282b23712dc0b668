"""docs/simulate.md: the example shows the rows that the command prints."""

import re

import pytest

from tests.cli.calls import Call
from tests.docs.blocks import ROOT, blocks

EXAMPLE = next(each.text for each in blocks(ROOT / "docs" / "simulate.md") if each.text.startswith("$ sched simulate"))
_NAME = re.compile(r"^(\S.*?)  +\S")


def names(table: str) -> list[str]:
    """The first column."""
    return [found[1] for line in table.splitlines() if (found := _NAME.match(line))]


def test_the_rows_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    command, _, shown = EXAMPLE.partition("\n")
    fewer = command.removeprefix("$ sched ").replace("jobs=100", "jobs=3")
    assert names(shown) == names(Call.run(fewer.split(), capsys).ok().out)
