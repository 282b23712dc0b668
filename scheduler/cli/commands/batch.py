"""One request per job or node of a list; a refusal does not stop the rest."""

from collections.abc import Callable
from typing import Any

import typer

from scheduler.cli.command import Session
from scheduler.cli.exits import Exit, Unreachable, status_of
from scheduler.cli.render.output import emit_json, note, say
from scheduler.errors import SchedulerError

Key = int | str


def ask_each(session: Session, texts: list[str], ask: Callable[[str], Key], told: Callable[[Key], str]) -> None:
    """Ask for each text and say what was accepted; ends with the first refusal's exit status.

    JSON: `{"accepted": [ids or names], "refused": [{"name", "message"}]}`. Where the daemon goes away, the rest is not
    asked and counts as refused, and `Unreachable` is raised.
    """
    accepted: list[Key] = []
    refused: list[dict[str, Any]] = []
    status = Exit.OK
    gone: Unreachable | None = None
    for text in dict.fromkeys(texts):
        if gone is not None:
            refused.append({"name": text, "message": f"not asked: {gone}"})
            continue
        try:
            key = ask(text)
        except Unreachable as error:
            gone = error
            refused.append({"name": text, "message": str(error)})
            continue
        except SchedulerError as error:
            note(f"sched: {error}")
            refused.append({"name": text, "message": str(error)})
            status = status or status_of(error)
            continue
        accepted.append(key)
        if not session.json:
            say(told(key))
    if session.json:
        emit_json({"accepted": accepted, "refused": refused})
    if gone is not None:
        raise gone
    if status:
        raise typer.Exit(status)
