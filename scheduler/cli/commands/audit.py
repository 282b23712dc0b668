"""`sched audit`: who changed what, and who was refused."""

from typing import Annotated, Any

import typer

from scheduler.cli.command import USERS, Session, command
from scheduler.cli.input.quantities import past_moment
from scheduler.cli.render.output import Cell, Column, emit_json, note, show, table
from scheduler.cli.render.times import stamp

View = dict[str, Any]

_PAGE = 1000
_COLUMNS = (
    Column("WHEN"),
    Column("USER"),
    Column("FROM"),
    Column("REQUEST", fold=True),
    Column("ABOUT", fold=True),
    Column("STATUS", right=True),
    Column("TIMES", right=True),
)


def audit(
    session: Session,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Start: an age such as 7d or 12h, or 2030-05-01T18:00."),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Only records of this user.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_PAGE, help="Maximum number of records.")] = 50,
    before: Annotated[
        int | None, typer.Option("--before", min=1, metavar="ID", help="Show the records before this one.")
    ] = None,
) -> None:
    """Show the newest changes and refusals in order of time: who asked, from where, for what, and with which result.

    With -o json, pass "next" to --before for the page of older records.
    """
    query: View = {"limit": limit, "user": user, "before": before}
    if since is not None:
        query["since"] = past_moment(since, "--since", session.clock.now())
    page = session.client.get("/v1/audit", {key: value for key, value in query.items() if value is not None})
    if session.json:
        emit_json(page)
        return
    for row in page["unreadable"]:
        note(f"record {row['key']} cannot be read: {row['reason']}")
    if page["records"]:
        show(table(_COLUMNS, [_row(each) for each in page["records"]]))
    else:
        note("no records")


def _row(each: View) -> list[Cell]:
    status = str(each["status"])
    return [
        stamp(each["at"]),
        each["user"] or f"({each['known_by']})",
        each["address"],
        f"{each['method']} {each['route']}".rstrip(),
        each["object"] or "-",
        (status, "red") if each["status"] in (401, 403) else status,
        str(each["times"]),
    ]


def register(app: typer.Typer) -> None:
    command(app, "audit", USERS)(audit)
