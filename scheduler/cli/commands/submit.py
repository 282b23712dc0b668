"""`sched submit`: a job from options, from a file, or from both; now, or again and again."""

import secrets
from typing import Annotated, Any

import typer

from scheduler.cli.client.follow import View, exit_of, follow_log, outcome, wait_for_end, write_log_aside, write_plain
from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.exits import Cut, Exit, TooMany, Unavailable
from scheduler.cli.input.flags import FileOption, Flags
from scheduler.cli.input.request import read_request
from scheduler.cli.render.output import emit_json, note, say
from scheduler.cli.render.times import stamp
from scheduler.errors import InvalidInput, UserError

_AFTER = "After submitting"


def submit(
    session: Session,
    flags: Flags,
    file: FileOption = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Wait for the end of the job; exit with status 1 if it fails.", rich_help_panel=_AFTER
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Print the output until the job ends; exit as with --wait.", rich_help_panel=_AFTER
        ),
    ] = False,
) -> None:
    """Submit a job. Options come first, then the command or a job file.

    A job file contains the fields of the job request of the API, and "cron" and "timezone" for a recurring job. Options
    override the file; --env, --label and --node-selector add to it.

    A relative --workdir is relative to this directory, that of a job file to the file. Pods, and a daemon on another
    machine, need an absolute one.

    On the daemon's own machine the job takes the variables of your environment that --export chooses, and runs in this
    directory. If "sched" runs from a virtual environment that is not activated, its programs come first.
    """
    request, source = read_request(flags, file)
    with source.pointed_at():
        _send(session, request, wait=wait, follow=follow)


def _send(session: Session, request: dict[str, Any], *, wait: bool, follow: bool) -> None:
    cron, timezone = request.pop("cron", None), request.pop("timezone", None)
    if cron is not None:
        if wait or follow:
            raise UserError("--wait, --follow: cannot be used with a recurring job")
        _submit_recurring(session, cron, timezone, request)
        return
    if timezone is not None:
        raise InvalidInput("timezone", "requires --cron")
    answer = _submit_once(session, "/v1/jobs", request, "job")
    _warn(answer)
    if not session.json:
        say(f"job {answer['id']} submitted")
    if wait or follow:
        _stay(session, answer, follow=follow)
    elif session.json:
        emit_json(answer)


def _submit_once(session: Session, path: str, request: dict[str, Any], what: str) -> dict[str, Any]:
    """The daemon's answer to one new job, or recurring job, however often it has to be asked."""
    key = request.get("client_key") or secrets.token_hex(16)
    try:
        answer: dict[str, Any] = session.client.post_once(path, {**request, "client_key": key})
    except TooMany:
        raise
    except (Cut, Unavailable) as error:
        hint = f"the {what} may have been submitted: to repeat this safely, add --client-key {key}"
        raise type(error)(f"{error}; {hint}") from None
    return answer


def _submit_recurring(session: Session, cron: Any, timezone: Any, request: dict[str, Any]) -> None:
    zone = {} if timezone is None else {"timezone": timezone}
    key = request.pop("client_key", None)  # each run of it has its own
    body = {"cron": cron, **zone, "job": request, "client_key": key}
    answer = _submit_once(session, "/v1/recurring", body, "recurring job")
    _warn(answer)
    if session.json:
        emit_json(answer)
    else:
        at = answer.get("next_run_at")
        say(f"recurring job {answer['id']} created, " + (f"next run {stamp(at)}" if at else "it will never run"))


def _warn(answer: dict[str, Any]) -> None:
    for warning in answer.get("warnings") or ():
        note(f"sched: job {answer['id']}: {warning}")


def _stay(session: Session, answer: dict[str, Any], *, follow: bool) -> None:
    """Until the job ends; then exit as it did. Ctrl-C leaves the job running."""
    number = answer["id"]
    try:
        if follow:
            view: View = follow_log(session.client, number, None, write_log_aside if session.json else write_plain)
        else:
            view = wait_for_end(session.client, number)
    except KeyboardInterrupt:
        note("")
        note(f'detached: job {number} keeps running; to stop it, run "sched cancel {number}"')
        raise typer.Exit(Exit.INTERRUPTED) from None
    if session.json:
        emit_json({**answer, "job": view})
    elif follow:
        note(outcome(view))
    else:
        say(outcome(view))
    raise typer.Exit(exit_of(view))


def register(app: typer.Typer) -> None:
    command(app, "submit", JOBS, words_end_options=True)(submit)
