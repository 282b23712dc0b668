"""Every command explains itself, and the README says the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from scheduler.cli.reference import BEGIN, END, reference
from scheduler.cli.root import root

README = Path(__file__).parent.parent.parent / "README.md"


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{path} {name}")


EVERY = list(commands(typer.main.get_command(root), "sched"))


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[path for path, _ in EVERY])
def test_every_command_and_option_has_a_help_text(path: str, command: Any) -> None:
    assert (command.help or "").strip()
    silent = [each.name for each in command.params if not (each.help or "").strip()]
    assert not silent


@pytest.mark.parametrize("path", [path for path, command in EVERY if not hasattr(command, "commands")])
def test_the_reference_holds_every_command(path: str) -> None:
    assert f"#### `{path}" in reference()


def test_the_readme_holds_the_reference_as_it_is_made() -> None:
    text = README.read_text() if README.exists() else ""
    if BEGIN not in text:
        pytest.skip(f"README.md has no {BEGIN!r} yet")
    section = text.partition(BEGIN)[2].partition(END)[0]
    assert section.strip() == reference().strip(), "run: python -m scheduler.cli.reference"
