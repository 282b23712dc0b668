"""Which job a user means: an id, or a name."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from scheduler.cli.client.client import Client
from scheduler.cli.completion import complete_any_job, complete_job
from scheduler.errors import NotFound, UserError
from scheduler.model.job_state import JobState

#: States of jobs that have not ended, as query values.
LIVE_STATES = [state.value for state in JobState if not state.terminal]
_LISTED_MAX = 10
#: Digits of an id.
_ID_LENGTH_MAX = 18

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id or name of a job.", autocompletion=complete_job)]
JobsArgument = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="Ids or names of jobs.", autocompletion=complete_job)
]
AnyJobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="Id or name of a job, or id of a recurring job such as r1.", autocompletion=complete_any_job
    ),
]
SomeJobArgument = Annotated[
    str | None, typer.Argument(metavar="JOB", help="Id or name of a job.", autocompletion=complete_job)
]
AnyJobsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB...",
        help="Ids or names of jobs, or ids of recurring jobs such as r1.",
        autocompletion=complete_any_job,
    ),
]


def is_recurring(text: str) -> bool:
    """Whether the text is the id of a recurring job."""
    return text[:1] == "r" and text[1:].isdecimal() and text.isascii() and len(text) <= _ID_LENGTH_MAX + 1


def in_address(noun: str, name: str) -> str:
    """The name of a node or booking as a part of an address. Raises `NotFound` for one that would change the address.

    Nothing has such a name.
    """
    if name in ("", ".", "..") or "/" in name:
        raise NotFound(f"{noun} {name!r} not found")
    return quote(name, safe="", errors="replace")


def job_id(client: Client, text: str) -> int:
    """The id of the job that `text` means: an id; else the name of the one job that has not ended, else of the newest.

    Raises `NotFound`, or `UserError` naming the ids where several jobs that have not ended share the name.
    """
    if text.isascii() and text.isdecimal() and len(text) <= _ID_LENGTH_MAX and int(text) > 0:
        return int(text)
    if not text.strip():
        raise UserError('JOB is empty: give an id or a name (see "sched list")')
    live = _named(client, text, {"state": LIVE_STATES, "limit": _LISTED_MAX + 1})
    if len(live) > 1:
        ids = ", ".join(map(str, live[:_LISTED_MAX]))
        more = " and more" if len(live) > _LISTED_MAX else ""
        raise UserError(f"{text!r} is the name of several jobs ({ids}{more}): use an id")
    found = live or _named(client, text, {"limit": 1, "order": "desc"})
    if not found:
        raise NotFound(f'job {text!r} not found: "sched list --all" shows all jobs')
    return found[0]


def _named(client: Client, name: str, params: dict[str, Any]) -> list[int]:
    """Ids of jobs of this name, also of those that cannot be read: what is asked of them says why."""
    page = client.get("/v1/jobs", {"name": name, **params})
    return sorted([*(job["id"] for job in page["jobs"]), *(int(row["key"]) for row in page["unreadable"])])
