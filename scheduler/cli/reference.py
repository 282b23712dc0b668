"""The command reference of the README: `python -m scheduler.cli.reference` prints it.

It stands in README.md between the two markers; a test compares them.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from scheduler.cli.command import COMMON_PANEL
from scheduler.cli.exits import Exit
from scheduler.cli.root import root

BEGIN = "<!-- commands: made by python -m scheduler.cli.reference -->"
END = "<!-- commands: end -->"


def reference() -> str:
    """Every command with its options, the options that all share, and the exit statuses, as Markdown."""
    commands = list(_commands(typer.main.get_command(root), "sched"))
    parts = [_section(path, command) for path, command in commands]
    shared = next(command for path, command in commands if path == "sched list")
    return "\n\n".join([*parts, _shared(shared), _statuses()]) + "\n"


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that can be run, with the words that run it."""
    inner: dict[str, Any] | None = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, each in inner.items():
        yield from _commands(each, f"{path} {name}")


def _section(path: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not _is_shared(each)]
    words = " ".join([path, *(each.metavar if each.required else f"[{each.metavar}]" for each in arguments)])
    lines = [f"#### `{words}`", "", inspect.cleandoc(command.help or "")]
    if arguments or options:
        lines += ["", *_rows([*arguments, *options])]
    return "\n".join(lines)


def _is_shared(parameter: Any) -> bool:
    return parameter.name == "help" or getattr(parameter, "rich_help_panel", None) == COMMON_PANEL


def _rows(parameters: list[Any]) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    for each in parameters:
        yield f"| {_spelling(each)} | {_cell(each.help)} |"


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_cell(parameter.metavar)}`"
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag or not parameter.metavar else f"{names} `{_cell(parameter.metavar)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _shared(command: Any) -> str:
    """Options that every command has."""
    shared = [each for each in command.params if _is_shared(each)]
    lines = ["#### Options of every command", "", *_rows([each for each in shared if each.name != "help"])]
    return "\n".join(lines)


def _statuses() -> str:
    rows = [f"| {status.value} | {status.meaning} |" for status in Exit]
    return "\n".join(["#### Exit statuses", "", "| | |", "|---|---|", *rows])


if __name__ == "__main__":
    print(reference(), end="")
