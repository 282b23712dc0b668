"""`sched events`: what happened, why, and for whom."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from scheduler.cli.client.follow import Patience
from scheduler.cli.client.resolve import job_id
from scheduler.cli.command import WATCH, Session, command
from scheduler.cli.completion import complete_job
from scheduler.cli.render.output import Cell, Column, emit_json, note, say, show, table
from scheduler.cli.render.times import clock, stamp

View = dict[str, Any]

_HOLD_SECONDS = 30.0
_PAGE = 1000
_KIND_WIDTH = 20


def events(
    session: Session,
    job: Annotated[
        str | None,
        typer.Option("--job", "-j", metavar="JOB", help="Only events of this job.", autocompletion=complete_job),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_PAGE, help="Maximum number of events.")] = 50,
    after: Annotated[
        int | None,
        typer.Option("--after", min=0, metavar="ID", help="Show the events after this one instead of the newest."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new events until Ctrl-C.")] = False,
) -> None:
    """Show the newest events in order of time: what happened, why, and for which job.

    With -o json, print one document; pass its "next" to --after for the following page. With --follow, print one event
    per line.
    """
    client = session.client
    query: View = {} if job is None else {"job": job_id(client, job)}
    page = client.get("/v1/events", {**query, "after": -1 if after is None else after, "limit": limit})
    if follow:
        _emit(session, page["events"])
        _follow(session, query, page["next"])
    elif session.json:
        emit_json(page)
    elif page["events"]:
        show(_event_table(page["events"]))
    else:
        note("no events")


def _follow(session: Session, query: View, after: int) -> None:
    patience = Patience()
    while True:
        asked = {**query, "after": after, "wait": _HOLD_SECONDS, "limit": _PAGE}
        page = patience.ask(session.client.get, "/v1/events", asked, wait_seconds=_HOLD_SECONDS)
        _emit(session, page["events"])
        after = page["next"]


def _emit(session: Session, page: Iterable[View]) -> None:
    for event in page:
        if session.json:
            emit_json(event)
        else:
            say(event_line(event))


def event_line(event: View) -> str:
    """One event as one line."""
    return f"{clock(event['at'])}  {event['kind']:<{_KIND_WIDTH}}  {_about(event)}  {_reason(event)}".rstrip()


def _about(event: View) -> str:
    """What it is about: the worker, else the job, else the node; what is none of them its detail names."""
    if event.get("worker_id"):
        return f"worker {event['worker_id']}"
    if event.get("job_id"):
        return f"job {event['job_id']}"
    return f"node {event['node']}" if event.get("node") else "-"


def _reason(event: View) -> str:
    behind = f"for job {event['for_job']}" if event.get("for_job") else ""
    where = f"on {event['node']}" if event.get("node") and event.get("job_id") else ""
    return " ".join(part for part in (event.get("cause") or "", behind, where, event.get("detail") or "") if part)


def _event_table(page: list[View]) -> Any:
    columns = (Column("TIME"), Column("EVENT"), Column("ABOUT"), Column("WHY", fold=True))
    rows: list[list[Cell]] = [[stamp(each["at"]), each["kind"], _about(each), _reason(each)] for each in page]
    return table(columns, rows)


def register(app: typer.Typer) -> None:
    command(app, "events", WATCH)(events)
