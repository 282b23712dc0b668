"""`sched report`: what a span of time came to, as a table, JSON, or an HTML file with plots."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler.cli.command import WATCH, Session, command
from scheduler.cli.input.quantities import past_moment
from scheduler.cli.render.output import Column, emit_json, fields, note, say, show, table
from scheduler.cli.render.sparkline import shares, sparkline
from scheduler.cli.render.times import span, stamp
from scheduler.errors import UserError

if TYPE_CHECKING:
    from rich.console import RenderableType

View = dict[str, Any]

_NAME = re.compile(r"\b(?:jobs|events)_since\b")


def report(
    session: Session,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Start: an age such as 7d or 12h, or 2030-05-01T18:00.")
    ] = "7d",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="End, in the same form.")] = "now",
    users: Annotated[
        int,
        typer.Option("--users", min=1, max=1000, help="Number of users to list, those with the highest usage first."),
    ] = 10,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a self-contained HTML page with plots.")
    ] = None,
) -> None:
    """Summarize a time range: utilization, wait by priority, preemptions, lost work, top users."""
    now = session.clock.now()
    query = {"since": past_moment(since, "--since", now), "users": users}
    if until.strip().lower() != "now":  # the daemon knows best when that is
        query["until"] = past_moment(until, "--until", now)
    view = session.client.get("/v1/report", query)
    if html is not None:
        _write(html, view)
        note(f"report written to {html}")
    if session.json:
        emit_json(view)
    elif html is None:
        _show(view)
    for sentence in missing(view):
        note(f"sched: incomplete report: {sentence}")


def missing(view: View) -> list[str]:
    """What retention has removed of the span, with times in place of the names of the fields that hold them."""
    kept = view["kept"]
    times = {name: stamp(kept[name]) for name in ("jobs_since", "events_since") if kept[name] is not None}
    return [_NAME.sub(lambda name: times.get(name[0], name[0]), sentence) for sentence in kept["missing"]]


def _write(path: Path, view: View) -> None:
    from scheduler.cli.render.reportpage import page

    if path.is_dir():
        raise UserError(f"--html: {path} is a directory: give the name of a file")
    text = page(view, missing(view))
    try:
        if path.exists() and not path.is_file():  # a pipe or device, which stays what it is
            path.write_text(text, encoding="utf-8")
        else:
            _replace(Path(os.path.realpath(path)), text)
    except OSError as error:
        raise UserError(f"--html: {path}: {error.strerror or error}") from None


def _replace(path: Path, text: str) -> None:
    """Write the file as a whole, or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _show(view: View) -> None:
    say(f"{stamp(view['since'])} to {stamp(view['until'])}")
    show("", fields(summary(view)), "", waits(view))
    if view["users"]:
        show("", top_users(view))


def summary(view: View) -> list[tuple[str, str]]:
    """Names and values, in words."""
    lost, taken, events = view["lost_work"], view["preemptions"], view["events"]
    used = view["used_slot_seconds"]
    rows = [
        ("utilization", "no slots" if view["utilization"] is None else f"{view['utilization']:.1%} of slots used"),
        ("", sparkline(shares(view))),
        ("slots", _slots_since(view)),
        ("slot-hours", f"{used / 3600:,.1f} used of {view['slot_seconds'] / 3600:,.1f}"),
        ("shared", _hours(view["shared_slot_seconds"]) if view["shared_slot_seconds"] else ""),
        ("jobs", _jobs(events)),
        ("preemptions", f"{taken['shrinks']:,} shrinks, {taken['stops']:,} stops"),
        ("shrinks by cause", _causes(view["shrinks_by_cause"])),
        ("stops by cause", _causes(view["stops_by_cause"])),
        ("lost work", f"{_hours(lost['slot_seconds'])}{_share(lost['slot_seconds'], used)}"),
        ("lost by cause", ", ".join(f"{cause} {_hours(each)}" for cause, each in lost["by_cause"].items())),
        ("workers ended", _causes(view["workers_ended"])),
        ("workers replaced", _some(events, "WORKER_REPLACED")),
        ("nodes", ", ".join(filter(None, (_times(events, "NODE_DOWN"), _times(events, "NODE_QUARANTINED"))))),
    ]
    return [(name, text) for name, text in rows if text]


def _slots_since(view: View) -> str:
    """Where the span begins before the first of them."""
    since = view["slots_since"]
    return f"none before {stamp(since)}" if since is not None and since >= view["since"] + 1.0 else ""


def _hours(slot_seconds: float) -> str:
    return f"{slot_seconds / 3600:,.1f} slot-hours"


def _share(lost: float, used: float) -> str:
    return f" ({lost / used:.2%} of the slot-hours used)" if lost and used else ""


def _jobs(events: dict[str, int]) -> str:
    kinds = ("SUBMITTED", "STARTED", "SUCCEEDED", "FAILED", "CANCELLED", "REQUEUED")
    return ", ".join(f"{events.get(f'JOB_{kind}', 0):,} {kind.lower()}" for kind in kinds)


def _causes(counts: dict[str, int]) -> str:
    return ", ".join(f"{cause or 'no cause'} {count:,}" for cause, count in counts.items())


def _some(events: dict[str, int], kind: str) -> str:
    return f"{events[kind]:,}" if events.get(kind) else ""


def _times(events: dict[str, int], kind: str) -> str:
    return f"{events[kind]:,} × {kind}" if events.get(kind) else ""


def waits(view: View) -> "RenderableType":
    columns = [Column("PRIORITY", right=True), *(Column(name, right=True) for name in ("STARTS", "MEAN WAIT"))]
    columns += [Column(name, right=True) for name in ("MEDIAN", "P90", "P99", "LONGEST", "WAITING NOW")]
    return table(columns, wait_rows(view))


def wait_rows(view: View) -> list[list[str]]:
    return [[priority_name(each["priority_class"]), *_wait_cells(each)] for each in view["waits"]]


def _wait_cells(each: View) -> list[str]:
    times = ("mean", "p50", "p90", "p99", "max")
    waited = [span(each[f"seconds_{name}"]) if each["starts"] else "-" for name in times]
    longest = f" (longest {span(each['longest_now_seconds'])})" if each["waiting_now"] else ""
    waiting = "-" if each["waiting_now"] is None else f"{each['waiting_now']:,}{longest}"
    return [f"{each['starts']:,}", *waited, waiting]


def priority_name(name: str) -> str:
    """`10+`: from 10 up to the next class."""
    return f"{name}+" if name.lstrip("-").isdigit() else name


def top_users(view: View) -> "RenderableType":
    columns = [Column("USER", fold=True)]
    columns += [Column(name, right=True) for name in ("JOBS", "SLOT-HOURS", "SHARED", "SHARE")]
    return table(columns, user_rows(view))


def user_rows(view: View) -> list[list[str]]:
    return [
        [
            each["user"] or "-",
            f"{each['jobs']:,}",
            f"{each['slot_seconds'] / 3600:,.1f}",
            f"{each['shared_slot_seconds'] / 3600:,.1f}" if each["shared_slot_seconds"] else "-",
            f"{each['share']:.1%}",
        ]
        for each in view["users"]
    ]


def register(app: typer.Typer) -> None:
    command(app, "report", WATCH)(report)
