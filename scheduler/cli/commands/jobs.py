"""`sched list` and `sched show`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import typer

from scheduler.cli.client.client import Client
from scheduler.cli.client.resolve import LIVE_STATES, AnyJobArgument, is_recurring, job_id
from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.completion import complete_queue
from scheduler.cli.input.quantities import pairs
from scheduler.cli.render.live import redraw
from scheduler.cli.render.output import emit_json, note, show
from scheduler.cli.render.sparkline import Recent
from scheduler.cli.render.tables import job_fields, job_table, recurring_fields, worker_table
from scheduler.errors import NotFound
from scheduler.model.job_state import JobState
from scheduler.model.queue import ROOT, ancestry
from scheduler.model.queue_tree import unknown_queue
from scheduler.model.words import counted

View = dict[str, Any]

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Chosen:
    """The jobs to list."""

    states: Annotated[
        list[JobState] | None,
        typer.Option("--state", "-s", case_sensitive=False, help="Only jobs in this state; repeatable."),
    ] = None
    name: Annotated[str | None, typer.Option(help="Only jobs with this name.")] = None
    user: Annotated[str | None, typer.Option(help="Only jobs of this user.")] = None
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            metavar="PATH",
            help="Only jobs of this queue and of the queues inside it.",
            autocompletion=complete_queue,
        ),
    ] = None
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", "-l", metavar="KEY=VALUE", help="Only jobs with this label; repeatable."),
    ] = None
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include jobs that have ended.")] = False
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of jobs; the newest are shown.")] = (
        1000
    )

    def look(self, client: Client) -> "_Found":
        """Ask for them, and for recurring jobs where these may be meant, too.

        Raises `NotFound` where there are none and no such queue: jobs may outlive the one that they were in.
        """
        jobs, unreadable, more = _newest(client, self._query(), self.limit)
        recurring = [] if self.states or self.labels else _recurring(client, self._named())
        found = _Found(jobs, recurring, unreadable, more)
        if self.queue is not None and found.nothing:
            _check_queue(client, self.queue)
        return found

    def _query(self) -> View:
        query: View = {"order": "desc"}
        if self.states:
            query["state"] = [state.value for state in self.states]
        elif not self.everything:
            query["state"] = LIVE_STATES
        query |= self._named()
        if self.labels:
            query["label"] = [f"{key}={value}" for key, value in pairs(self.labels, "--label").items()]
        return query

    def _named(self) -> dict[str, str]:
        given = {"name": self.name, "user": self.user, "queue": self.queue}
        return {key: value for key, value in given.items() if value is not None}


def list_jobs(
    session: Session,
    chosen: Chosen,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh the list, with the utilization, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-d", min=0.1, help="Seconds between refreshes with --watch.")
    ] = 2.0,
) -> None:
    """List jobs that have not ended, or others with --all or --state.

    Recurring jobs are included unless --state or --label is given; their SINCE column shows the next run. With --watch,
    the list is printed only once if the output is not a terminal.
    """
    if watch and not session.json and sys.stdout.isatty():
        watch_jobs(session, lambda: chosen.look(session.client), interval_seconds=interval, screen=True)
        return
    found = chosen.look(session.client)
    if session.json:
        emit_json(found._asdict())
    else:
        _show_found(found, session.clock.now(), all_states=bool(chosen.everything or chosen.states))
    if found.more:
        note(f"{counted(chosen.limit, 'job')} shown, the newest: use --limit for more")


class _Found(NamedTuple):
    jobs: list[View]
    recurring: list[View]
    #: Rows of the jobs that cannot be read from the database.
    unreadable: list[View]
    #: Whether there are older jobs.
    more: bool

    @property
    def nothing(self) -> bool:
        return not (self.jobs or self.recurring or self.unreadable)


def _show_found(found: _Found, now: float, *, all_states: bool) -> None:
    for row in found.unreadable:
        note(f"job {row['key']} cannot be read: {row['reason']}")
    if found.nothing:
        note("no jobs" if all_states else 'no active jobs: "sched list --all" shows those that have ended')
    elif found.jobs or found.recurring:
        show(job_table(found.jobs, found.recurring, now))


def watch_jobs(
    session: Session,
    look: Callable[[], _Found],
    *,
    interval_seconds: float,
    screen: bool = False,
    go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Redraw the table on stdout while `go_on()` holds, as many of its jobs as fit, the newest ones."""
    from rich.console import Group, RenderableType
    from rich.text import Text

    recent = Recent.asked(session.client, session.clock.now())

    def draw(height: int) -> RenderableType:
        now, found = session.clock.now(), look()
        recent.see(session.client.get("/v1/cluster"), now)
        rows = max(5, height - 3 - len(found.recurring))
        hidden = len(found.jobs) - rows
        above = f"   {hidden} older jobs not shown" if hidden > 0 else ""
        above += f"   {counted(len(found.unreadable), 'job')} cannot be read" if found.unreadable else ""
        return Group(Text(recent.line() + above), job_table(found.jobs[-rows:], found.recurring, now))

    redraw(draw, interval_seconds=interval_seconds, screen=screen, go_on=go_on)


def _newest(client: Client, query: View, limit: int) -> tuple[list[View], list[View], bool]:
    """The newest `limit` jobs in ascending order, rows among them that cannot be read, and whether there are more."""
    found: list[View] = []
    unreadable: list[View] = []
    after: Any = None
    while len(found) <= limit:
        page = client.get(
            "/v1/jobs",
            {**query, "limit": min(_PAGE, limit + 1 - len(found)), **({"after": after} if after is not None else {})},
        )
        found += page["jobs"]
        unreadable += page["unreadable"]
        after = page["next"]
        if after is None:
            break
    return found[:limit][::-1], unreadable[::-1], len(found) > limit


def _check_queue(client: Client, path: str) -> None:
    paths = [each["path"] for each in client.get("/v1/queues")["queues"]]
    if path not in paths:
        raise NotFound(unknown_queue(path, paths))


def _recurring(client: Client, wanted: dict[str, str]) -> list[View]:
    """Recurring jobs of this name, user and queue, as far as these are given."""
    every: list[View] = client.get("/v1/recurring")["recurring"]

    def chosen(each: dict[str, Any]) -> bool:
        same = all(wanted.get(key) in (None, each[key]) for key in ("name", "user"))
        return same and ("queue" not in wanted or wanted["queue"] in ancestry(each["queue"] or ROOT))

    return [each for each in every if chosen(each)]


def show_job(session: Session, job: AnyJobArgument) -> None:
    """Show the details of a job and its workers."""
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
