"""`sched list` and `sched show`."""

from typing import Annotated, Any

import typer

from scheduler.cli.client import Client
from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.output import emit_json, note, show
from scheduler.cli.quantities import pairs
from scheduler.cli.resolve import LIVE_STATES, AnyJobArgument, is_recurring, job_id
from scheduler.cli.tables import job_fields, job_table, recurring_fields, worker_table
from scheduler.model.job import JobState

_PAGE = 500


def list_jobs(
    session: Session,
    states: Annotated[
        list[JobState] | None, typer.Option("--state", "-s", case_sensitive=False, help="Only this state; repeatable.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs of this name.")] = None,
    user: Annotated[str | None, typer.Option(help="Only jobs of this user.")] = None,
    labels: Annotated[
        list[str] | None, typer.Option("--label", "-l", metavar="KEY=VALUE", help="Only with this label; repeatable.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Jobs that have ended, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many, the newest ones.")] = 1000,
) -> None:
    """List jobs: those that have not ended, unless --all or --state says otherwise.

    Recurring jobs are listed too, unless --state or --label is given; their SINCE column tells the next run.
    """
    wanted = pairs(labels or [], "--label")
    query: dict[str, Any] = {"order": "desc"}
    if states:
        query["state"] = [state.value for state in states]
    elif not everything:
        query["state"] = LIVE_STATES
    query |= {key: value for key, value in (("name", name), ("user", user)) if value is not None}
    if wanted:
        query["label"] = [f"{key}={value}" for key, value in wanted.items()]
    jobs, more = _newest(session.client, query, limit)
    recurring = [] if states or wanted else _recurring(session.client, name, user)
    if session.json:
        emit_json({"jobs": jobs, "recurring": recurring})
        return
    if not jobs and not recurring:
        note("no jobs" if everything or states else 'no jobs now: "sched list --all" shows ended ones')
        return
    show(job_table(jobs, recurring, session.clock.now()))
    if more:
        note(f"the newest {limit} are shown: --limit shows more")


def _newest(client: Client, query: dict[str, Any], limit: int) -> tuple[list[dict[str, Any]], bool]:
    """The newest `limit` jobs in ascending order, and whether there are more."""
    found: list[dict[str, Any]] = []
    after: Any = None
    while len(found) < limit:
        page = client.get(
            "/v1/jobs",
            {**query, "limit": min(_PAGE, limit - len(found)), **({"after": after} if after is not None else {})},
        )
        found += page["jobs"]
        after = page["next"]
        if after is None or not page["jobs"]:
            break
    return found[::-1], after is not None


def _recurring(client: Client, name: str | None, user: str | None) -> list[dict[str, Any]]:
    """Recurring jobs of this name and user."""
    every: list[dict[str, Any]] = client.get("/v1/recurring")["recurring"]
    return [each for each in every if name in (None, each["name"]) and user in (None, each["user"])]


def show_job(session: Session, job: AnyJobArgument) -> None:
    """Show all that is known of a job and its workers."""
    client = session.client
    if is_recurring(job):
        view = client.get(f"/v1/recurring/{job}")
        if session.json:
            emit_json(view)
        else:
            show(recurring_fields(view, session.clock.now()))
        return
    view = client.get(f"/v1/jobs/{job_id(client, job)}")
    if session.json:
        emit_json(view)
        return
    now = session.clock.now()
    show(job_fields(view, now))
    if view.get("live_workers"):
        show("", worker_table(view["live_workers"], now))


def register(app: typer.Typer) -> None:
    command(app, "list", JOBS)(list_jobs)
    command(app, "show", JOBS)(show_job)
