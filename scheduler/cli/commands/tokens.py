"""`sched token`: the tokens of users, for administrators."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler.cli.command import Session, command
from scheduler.cli.completion import complete_queue
from scheduler.cli.input.quantities import duration_seconds
from scheduler.cli.input.source import options_named
from scheduler.cli.render.output import Cell, Column, emit_json, note, say, show, table
from scheduler.cli.render.times import span, stamp

if TYPE_CHECKING:
    from rich.console import RenderableType

View = dict[str, Any]

_COLUMNS = (
    Column("ID", right=True),
    Column("USER"),
    Column("ROLE"),
    Column("NAME", fold=True),
    Column("CREATED"),
    Column("BY"),
    Column("STATE", fold=True),
)


class RoleChoice(StrEnum):
    """Roles, as the command line has them."""

    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    ADMIN = "admin"


def create(
    session: Session,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="User whose token it is.")],
    role: Annotated[
        RoleChoice,
        typer.Option(
            "--role",
            help="viewer: reads; user: submits jobs and changes its own; operator: changes all jobs, nodes and "
            "bookings; admin: also creates tokens.",
        ),
    ] = RoleChoice.USER,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="Time until it expires (default: never).")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="What it is for.")] = "",
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            metavar="PATH",
            help="Queue of the user's jobs that name none (default: the one of which the user is a member).",
            autocompletion=complete_queue,
        ),
    ] = None,
) -> None:
    """Create a token and print it; it is shown only this once.

    From the first token on, everybody needs one who does not come by the UNIX socket on the daemon's machine.
    """
    body: View = {"user": user, "role": role.value, "name": name}
    if expires is not None:
        body["expires_seconds"] = duration_seconds(expires, "--expires")
    if queue is not None:
        body["queue"] = queue
    with options_named({"expires_seconds": "--expires"}):
        answer = session.client.post("/v1/tokens", body)
    if session.json:
        emit_json(answer)
        return
    until = "never expires" if answer["expires_at"] is None else f"expires {stamp(answer['expires_at'])}"
    note(f"token {answer['id']} of {user} ({role.value}) {until}; it is not shown again:")
    say(answer["token"])


def show_all(session: Session) -> None:
    """List all tokens, without the tokens themselves, which are not stored."""
    view = session.client.get("/v1/tokens")
    if session.json:
        emit_json(view)
        return
    for row in view["unreadable"]:
        note(f"token {row['key']} cannot be read, and opens nothing: {row['reason']}")
    if view["tokens"]:
        show(_table(view["tokens"], session.clock.now()))
    else:
        note("no tokens: create one with sched token create --user NAME")


def revoke(
    session: Session,
    token_id: Annotated[int, typer.Argument(metavar="ID", min=1, help='Id of the token (see "sched token list").')],
) -> None:
    """Revoke a token: it opens nothing from now on."""
    session.client.delete(f"/v1/tokens/{token_id}")
    if session.json:
        emit_json({"id": token_id})
    else:
        say(f"token {token_id} revoked")


def _table(tokens: list[View], now: float) -> "RenderableType":
    """The queue has a column where a token names one."""
    rows = [_row(each, now) for each in tokens]
    if not any(each["queue"] for each in tokens):
        return table(_COLUMNS, [row[:-1] for row in rows])
    return table((*_COLUMNS, Column("QUEUE", fold=True)), rows)


def _row(each: View, now: float) -> list[Cell]:
    return [
        str(each["id"]),
        each["user"],
        each["role"],
        each["name"] or "-",
        stamp(each["created_at"]),
        each["created_by"] or "-",
        _state(each, now),
        each["queue"] or "-",
    ]


def _state(each: View, now: float) -> Cell:
    if each["revoked_at"] is not None:
        return "revoked", "dim"
    if not each["valid"]:
        return "expired", "dim"
    if each["expires_at"] is None:
        return "valid", "green"
    return f"valid for {span(each['expires_at'] - now)}", "green"


def register(app: typer.Typer) -> None:
    command(app, "create")(create)
    command(app, "list")(show_all)
    command(app, "revoke")(revoke)
