"""Commands that ask for a change of jobs: `priority`, `scale`, `cancel`, `suspend`, `resume`."""

from typing import Annotated

import typer

from scheduler.cli.batch import ask_each
from scheduler.cli.client import Client
from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.output import emit_json, fields, say, show
from scheduler.cli.repricing import repricing_facts
from scheduler.cli.resolve import AnyJobsArgument, JobArgument, JobsArgument, is_recurring, job_id
from scheduler.errors import UserError


def priority(
    session: Session,
    job: JobArgument,
    value: Annotated[int, typer.Argument(metavar="N", help="The new priority; higher is more important.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; say what that would do, and who would lose workers.")
    ] = False,
) -> None:
    """Change the priority of a job, or say what that would do."""
    client = session.client
    number = job_id(client, job)
    if dry_run:
        answer = client.get(f"/v1/jobs/{number}/whatif", {"priority": value})
        if session.json:
            emit_json(answer)
        else:
            show(fields(repricing_facts(answer)))
        return
    client.patch(f"/v1/jobs/{number}", {"priority": value})
    if session.json:
        emit_json({"id": number, "priority": value})
    else:
        say(f"job {number} has priority {value}")


def scale(
    session: Session,
    job: JobArgument,
    low: Annotated[int | None, typer.Option("--min", min=1, help="The new least number of workers.")] = None,
    high: Annotated[int | None, typer.Option("--max", min=1, help="The new greatest number of workers.")] = None,
) -> None:
    """Change how many workers a job may have."""
    if low is None and high is None:
        raise UserError("nothing to change: give --min or --max, or both")
    if low is not None and high is not None and low > high:
        raise UserError(f"--min: must be at most --max ({high})")
    client = session.client
    number = job_id(client, job)
    change = {key: value for key, value in (("min_workers", low), ("max_workers", high)) if value is not None}
    client.patch(f"/v1/jobs/{number}", change)
    if session.json:
        emit_json({"id": number, **change})
    else:
        said = " and ".join(f"{key[:3]} {value}" for key, value in change.items())
        say(f"job {number} may have {said} workers")


def cancel(session: Session, jobs: AnyJobsArgument) -> None:
    """Cancel jobs; a recurring job (r1) is not submitted any more."""

    def ask(text: str) -> int | str:
        if is_recurring(text):
            session.client.delete(f"/v1/recurring/{text}")
            return text
        return _post(session.client, text, "cancel")

    def told(key: int | str) -> str:
        return f"job {key} is being cancelled" if isinstance(key, int) else f"recurring job {key} is removed"

    ask_each(session, jobs, ask, told)


def suspend(session: Session, jobs: JobsArgument) -> None:
    """Stop jobs and keep their progress until "sched resume"."""
    ask_each(session, jobs, lambda text: _post(session.client, text, "suspend"), "job {} is being suspended".format)


def resume(session: Session, jobs: JobsArgument) -> None:
    """Put suspended jobs back into the queue."""
    ask_each(session, jobs, lambda text: _post(session.client, text, "resume"), "job {} is back in the queue".format)


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
