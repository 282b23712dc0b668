"""`sched explain`: why a job waits or has its size, since when, who gave up workers, and what would change that."""

from typing import Any

import typer

from scheduler.cli.client.resolve import SomeJobArgument, job_id
from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.render.forecast import forecast_facts
from scheduler.cli.render.output import emit_json, fields, say, show
from scheduler.cli.render.tables import size
from scheduler.cli.render.times import ago, lost_work, stamp

View = dict[str, Any]


def explain(session: Session, job: SomeJobArgument = None) -> None:
    """Explain why a job waits and when it may start, or why it has its size, since when, and what would change that.

    Without a job, explain why slots are idle.
    """
    client = session.client
    if job is None:
        _idle(session, client.get("/v1/explain"))
        return
    view = client.get(f"/v1/jobs/{job_id(client, job)}/explain")
    if session.json:
        emit_json(view)
        return
    for line in str(view["summary"]).splitlines():
        say(line)
    show(fields(_facts(view, session.clock.now())))


def _idle(session: Session, view: View) -> None:
    if session.json:
        emit_json(view)
        return
    say(view["summary"])
    for part in view["idle"]:
        say(part["sentence"])


def _facts(view: View, now: float) -> list[tuple[str, str]]:
    """The facts behind the summary, without those that are not known."""
    details = view["details"]
    facts = [
        ("since", _when(view["since"], now) if view["since"] is not None else None),
        ("reason", view["reason"]),
        ("for job", view["for_job"]),
        *(("gave up", f"{_taking(each, now)} for job {each['for_job']}") for each in view["gave"]),
        *(("got", f"{_taking(each, now)} from job {each['job_id']}") for each in view["got"]),
        *(("lost", f"{_when(each['at'], now)}: {each['sentence'].replace('->', '→')}") for each in view["lost"]),
        *(("what would change it", way) for way in view["would_change"]),
        ("workers", size(details)),
        ("slots per worker", details["slots_per_worker"]),
        ("suitable slots", details["slots_suitable"]),
        ("suitable and free", details["slots_free"]),
        ("free to share", details["extra_slots_free"]),
        ("reserved for it", ", ".join(f"{node} ×{count}" for node, count in details["reservation"]) or None),
        ("free slots reserved for job", details["reserved_by"]),
        ("not before", stamp(details["not_before"]) if details["not_before"] else None),
        *(forecast_facts(forecast, "estimated start") if (forecast := view["forecast"]) else ()),
    ]
    return [(name, str(value)) for name, value in facts if value is not None]


def _when(at: float, now: float) -> str:
    return f"{stamp(at)} ({ago(at, now)})"


def _taking(taking: View, now: float) -> str:
    what = taking["detail"].replace("->", "→") if taking["kind"] == "JOB_SHRANK" else "all workers"
    return f"{_when(taking['at'], now)}: {what}{lost_work(taking['lost_slot_seconds'])}"


def register(app: typer.Typer) -> None:
    command(app, "explain", JOBS)(explain)
