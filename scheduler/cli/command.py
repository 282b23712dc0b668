"""How a command is declared: each gets the same options for connection and output, and a `Session` made of them."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import ArgumentInfo

from scheduler.cli.client.certificates import TlsFiles
from scheduler.cli.client.client import Client
from scheduler.cli.client.connection import Connection, find_daemon
from scheduler.cli.exits import Exit
from scheduler.cli.input.source import options_named
from scheduler.cli.render.output import Format
from scheduler.clock import SystemClock

JOBS = "Jobs"
WATCH = "Watching"
NODES = "Nodes"
BOOKINGS = "Bookings"
QUEUES = "Queues"
USERS = "Users"
DAEMON = "Daemon"
COMMON_PANEL = "Connection and output"

UrlOption = Annotated[
    str | None,
    typer.Option(
        envvar="SCHED_URL",
        metavar="URL",
        help="Address of the daemon (default: from sched login, or daemon.json in the state directory).",
        rich_help_panel=COMMON_PANEL,
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        envvar="SCHED_TOKEN",
        metavar="TEXT",
        help="Bearer token (default: from sched login, or the file `token` in the state directory).",
        rich_help_panel=COMMON_PANEL,
    ),
]
StateDirOption = Annotated[
    Path | None,
    typer.Option(
        envvar="SCHED_STATE_DIR",
        metavar="DIR",
        help="State directory of the daemon on this machine (default: ~/.sched).",
        rich_help_panel=COMMON_PANEL,
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        envvar="SCHED_CA",
        metavar="FILE",
        help="Certificates that vouch for an https:// address (default: from sched login, or those of the system).",
        rich_help_panel=COMMON_PANEL,
    ),
]
CertOption = Annotated[
    Path | None,
    typer.Option(
        envvar="SCHED_CERT",
        metavar="FILE",
        help="Your own certificate, where an https:// address asks for one (default: from sched login).",
        rich_help_panel=COMMON_PANEL,
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        envvar="SCHED_KEY",
        metavar="FILE",
        help="Private key of --cert (default: in the same file).",
        rich_help_panel=COMMON_PANEL,
    ),
]
FormatOption = Annotated[
    Format,
    typer.Option("-o", "--output", case_sensitive=False, help="Output format.", rich_help_panel=COMMON_PANEL),
]


@dataclass(frozen=True)
class Session:
    """One run of a command: where the daemon is, how to print, what time it is."""

    state_dir: Path | None = None
    output: Format = Format.TABLE
    url: str | None = None
    token: str | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    clock: SystemClock = SystemClock()

    @property
    def json(self) -> bool:
        return self.output is Format.JSON

    @cached_property
    def connection(self) -> Connection:
        return find_daemon(self.url, self.token, self.state_dir, self.tls)

    @property
    def tls(self) -> TlsFiles:
        return TlsFiles(self.ca, self.cert, self.key)

    @cached_property
    def client(self) -> Client:
        return Client(self.connection)

    def close(self) -> None:
        """Close the connection if one was made."""
        if "client" in self.__dict__:
            self.client.close()


def _option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


#: What a command that asks the daemon can be told, in the order of the help page.
CLIENT = (
    _option("output", FormatOption, Format.TABLE),
    _option("url", UrlOption),
    _option("token", TokenOption),
    _option("state_dir", StateDirOption),
    _option("ca", CaOption),
    _option("cert", CertOption),
    _option("key", KeyOption),
)
#: What a command can be told that does its work here.
LOCAL = tuple(each for each in CLIENT if each.name in ("output", "state_dir"))
#: What a command can be told that names its daemon itself.
NAMED = tuple(each for each in CLIENT if each.name in ("output", "ca", "cert", "key"))
OUTPUT = tuple(each for each in CLIENT if each.name == "output")
SILENT = tuple(each for each in CLIENT if each.name == "state_dir")


def command(
    app: typer.Typer,
    name: str,
    panel: str | None = None,
    *,
    common: Sequence[inspect.Parameter] = CLIENT,
    negative_numbers: bool = False,
    words_end_options: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command: its first parameter is the `Session`, the others are Typer's.

    A parameter whose type is a dataclass stands for one option per field. Where the daemon refuses a field that has the
    name of a parameter, the message names the option.
    `negative_numbers`: an argument may look like -5. `words_end_options`: what follows the first argument is no option.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        own = list(signature.parameters.values())[1:]
        groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}
        mine = [part for each in own for part in _parts(each)]
        named = {each.name: _spelt(each) for each in mine}
        parameters = [*mine, *common]

        @wraps(function)
        def run(**given: Any) -> None:
            session = Session(**{each.name: given.pop(each.name) for each in common})
            for key, group in groups.items():
                given[key] = group(**{each.name: given.pop(each.name) for each in fields(group)})
            try:
                with options_named(named):
                    function(session, **given)
            except BrokenPipeError:
                raise typer.Exit(Exit.BROKEN_PIPE) from None
            finally:
                session.close()

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        settings = {"ignore_unknown_options": negative_numbers, "allow_interspersed_args": not words_end_options}
        app.command(name, help=_paragraphs(function), rich_help_panel=panel, context_settings=settings)(run)
        return function

    return register


def _paragraphs(function: Callable[..., None]) -> str:
    """The docstring with one line a paragraph: a terminal folds it to its own width."""
    text = inspect.getdoc(function) or ""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _spelt(parameter: inspect.Parameter) -> str:
    """How messages name what sets the parameter: `--share-users`, or `PATH` for an argument."""
    info = parameter.annotation.__metadata__[0]
    if isinstance(info, ArgumentInfo):
        return (info.metavar or parameter.name).removesuffix("...")
    named = (each.partition("/")[0] for each in info.param_decls or () if each.startswith("--"))
    return next(named, f"--{parameter.name.replace('_', '-')}")


def _parts(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The parameter itself, or one for each field of its dataclass."""
    if not is_dataclass(parameter.annotation):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    return [_option(each.name, each.type, each.default) for each in fields(parameter.annotation)]
