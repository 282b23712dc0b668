"""`sched explain`: why a job waits and when it starts, or why it has this size."""

from typing import Any

import typer

from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.forecast import forecast_facts
from scheduler.cli.output import emit_json, fields, say, show
from scheduler.cli.resolve import JobArgument, job_id
from scheduler.cli.tables import size
from scheduler.cli.times import stamp


def explain(session: Session, job: JobArgument) -> None:
    """Say why a job waits and when it may start, or why it has this size."""
    client = session.client
    view = client.get(f"/v1/jobs/{job_id(client, job)}/explain")
    if session.json:
        emit_json(view)
        return
    for line in str(view["summary"]).splitlines():
        say(line)
    show(fields(_facts(view)))


def _facts(view: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts behind the summary, without those that are not known."""
    details = view["details"]
    facts = [
        ("reason", view["reason"]),
        ("for job", view["for_job"]),
        ("workers", size(details)),
        ("slots of each", details["slots_per_worker"]),
        ("slots that suit it", details["slots_suitable"]),
        ("of these free", details["slots_free"]),
        ("free to share", details["extra_slots_free"]),
        ("reserved for it", ", ".join(f"{node} ×{count}" for node, count in details["reservation"]) or None),
        ("free slots held for job", details["reserved_by"]),
        ("not before", stamp(details["not_before"]) if details["not_before"] else None),
        *(forecast_facts(forecast, "estimated start") if (forecast := view["forecast"]) else ()),
    ]
    return [(name, str(value)) for name, value in facts if value is not None]


def register(app: typer.Typer) -> None:
    command(app, "explain", JOBS)(explain)
