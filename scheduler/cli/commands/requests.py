"""Commands that ask for a change of jobs: `priority`, `scale`, `cancel`, `suspend`, `resume`."""

from typing import Annotated

import typer

from scheduler.cli.client.client import Client
from scheduler.cli.client.resolve import AnyJobsArgument, JobArgument, JobsArgument, is_recurring, job_id
from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.commands.batch import ask_each
from scheduler.cli.input.source import options_named
from scheduler.cli.render.output import emit_json, fields, say, show
from scheduler.cli.render.repricing import repricing_facts
from scheduler.errors import UserError


def priority(
    session: Session,
    job: JobArgument,
    value: Annotated[int, typer.Argument(metavar="N", help="New priority; higher is more important.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; show the effect, and which jobs would lose workers.")
    ] = False,
) -> None:
    """Change the priority of a job, or show the effect with --dry-run."""
    client = session.client
    number = job_id(client, job)
    with options_named({"priority": "N"}):
        if dry_run:
            answer = client.get(f"/v1/jobs/{number}/whatif", {"priority": value})
        else:
            client.patch(f"/v1/jobs/{number}", {"priority": value})
    if dry_run:
        if session.json:
            emit_json(answer)
        else:
            show(fields(repricing_facts(answer)))
        return
    if session.json:
        emit_json({"id": number, "priority": value})
    else:
        say(f"job {number}: priority set to {value}")


def scale(
    session: Session,
    job: JobArgument,
    low: Annotated[int | None, typer.Option("--min", min=1, help="New minimum number of workers.")] = None,
    high: Annotated[int | None, typer.Option("--max", min=1, help="New maximum number of workers.")] = None,
) -> None:
    """Change the minimum and maximum number of workers of a job."""
    if low is None and high is None:
        raise UserError("nothing to change: give --min, --max or both")
    if low is not None and high is not None and low > high:
        raise UserError(f"--min: must not exceed --max ({high})")
    client = session.client
    number = job_id(client, job)
    change = {key: value for key, value in (("min_workers", low), ("max_workers", high)) if value is not None}
    with options_named({"min_workers": "--min", "max_workers": "--max"}):
        client.patch(f"/v1/jobs/{number}", change)
    if session.json:
        emit_json({"id": number, **change})
    else:
        said = " and ".join(f"{key[:3]} {value}" for key, value in change.items())
        say(f"job {number}: bounds set to {said} workers")


def cancel(session: Session, jobs: AnyJobsArgument) -> None:
    """Cancel jobs, or remove a recurring job (r1)."""

    def ask(text: str) -> int | str:
        if is_recurring(text):
            session.client.delete(f"/v1/recurring/{text}")
            return text
        return _post(session.client, text, "cancel")

    def told(key: int | str) -> str:
        return f"job {key}: cancelling" if isinstance(key, int) else f"recurring job {key} removed"

    ask_each(session, jobs, ask, told)


def suspend(session: Session, jobs: JobsArgument) -> None:
    """Suspend jobs; they keep their progress until "sched resume"."""
    ask_each(session, jobs, lambda text: _post(session.client, text, "suspend"), "job {}: suspending".format)


def resume(session: Session, jobs: JobsArgument) -> None:
    """Resume suspended jobs, which go back to the queue, and held ones, which go on as they were."""
    ask_each(session, jobs, lambda text: _post(session.client, text, "resume"), "job {}: resuming".format)


def _post(client: Client, text: str, verb: str) -> int:
    number = job_id(client, text)
    client.post(f"/v1/jobs/{number}/{verb}")
    return number


def register(app: typer.Typer) -> None:
    command(app, "priority", JOBS, negative_numbers=True)(priority)
    command(app, "scale", JOBS)(scale)
    command(app, "cancel", JOBS)(cancel)
    command(app, "suspend", JOBS)(suspend)
    command(app, "resume", JOBS)(resume)
