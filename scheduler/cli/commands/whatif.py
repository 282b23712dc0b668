"""`sched whatif`: when a job would start, without submitting it."""

from typing import Any

import typer

from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.input.flags import FileOption, Flags
from scheduler.cli.input.request import read_request
from scheduler.cli.render.forecast import forecast_facts
from scheduler.cli.render.output import emit_json, fields, note, show


def whatif(session: Session, flags: Flags, file: FileOption = None) -> None:
    """Show when a job would start and which jobs would lose workers; nothing is submitted.

    Accepts the options of "sched submit", followed by the command or a job file.
    """
    request, source = read_request(flags, file)
    recurring = request.pop("cron", None) is not None
    request.pop("timezone", None)
    request.pop("export", None)  # no answer depends on it
    with source.pointed_at():
        answer = session.client.post("/v1/whatif", request)
    if recurring:
        note("sched: the job is recurring: the answer is for a run submitted now")
    if session.json:
        emit_json(answer)
    else:
        show(fields((name, text) for name, text in _facts(answer) if text))


def _facts(answer: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [*forecast_facts(answer["forecast"], "would start"), ("waits because", answer["wait"])]


def register(app: typer.Typer) -> None:
    command(app, "whatif", JOBS, words_end_options=True)(whatif)
