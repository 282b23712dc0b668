"""Every command explains itself, and the page holds all of them."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from docs.generate.commands import page
from scheduler.cli.exits import Exit
from scheduler.cli.root import root


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


@pytest.mark.parametrize(("path", "command"), [each for each in EVERY if not hasattr(each[1], "commands")])
def test_the_page_holds_every_command_with_its_options(path: str, command: Any) -> None:
    sections = re.split(r"^## ", page(), flags=re.MULTILINE)
    (section,) = [each for each in sections if each.startswith(f"{path}\n")]
    shared = next(each for each in sections if each.startswith("Options of every command"))
    for each in command.params:
        names = [name for name in each.opts if name.startswith("-") and each.name != "help"]
        assert all(f"`{name}`" in section or f"`{name}`" in shared for name in names), each.name


def test_the_page_holds_every_exit_status() -> None:
    section = page().partition("## Exit statuses")[2]
    assert [int(status) for status in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == [
        each.value for each in Exit
    ]
