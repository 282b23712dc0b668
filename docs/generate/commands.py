"""docs/commands.md: every command of `sched` with its options, from their own help texts, and the exit statuses."""

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from docs.generate.markdown import heading, table
from scheduler.cli.command import COMMON_PANEL
from scheduler.cli.exits import Exit
from scheduler.cli.root import root

_HEAD = """
`sched --help` and `sched COMMAND --help` show the same texts. Every command also takes the
[options of every command](#options-of-every-command).
"""


def page() -> str:
    commands = list(_commands(typer.main.get_command(root), "sched"))
    shared = next(command for path, command in commands if path == "sched list")
    parts = [heading("Commands") + _HEAD.rstrip(), *(_section(path, command) for path, command in commands)]
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
    lines = [f"## {path}", "", "```text", words, "```", "", inspect.cleandoc(command.help or "")]
    if arguments or options:
        lines += ["", *_rows([*arguments, *options])]
    return "\n".join(lines)


def _is_shared(parameter: Any) -> bool:
    return parameter.name == "help" or getattr(parameter, "rich_help_panel", None) == COMMON_PANEL


def _rows(parameters: list[Any]) -> Iterator[str]:
    yield from table(("option", "meaning"), ((_spelling(each), each.help) for each in parameters))


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar}`"
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag or not parameter.metavar else f"{names} `{parameter.metavar}`"


def _shared(command: Any) -> str:
    """Options that every command has."""
    shared = [each for each in command.params if _is_shared(each)]
    lines = ["## Options of every command", "", *_rows([each for each in shared if each.name != "help"])]
    return "\n".join(lines)


def _statuses() -> str:
    rows = table(("status", "meaning"), ((str(status.value), status.meaning) for status in Exit))
    return "\n".join(["## Exit statuses", "", *rows])
