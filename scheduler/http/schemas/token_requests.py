"""Requests about the tokens of users."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from scheduler.config.numbers import Duration
from scheduler.http.schemas.fields import PLAIN, PRINTABLE, Line, QueuePath, Request, UserName


class PageLoginRequest(Request):
    """What a live page logs in with."""

    #: From `POST /v1/page-codes`.
    code: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PLAIN), PRINTABLE]


class TokenRequest(Request):
    """A token to create."""

    #: Whose it is: the user of the jobs that are submitted with it.
    user: UserName
    #: What it may do: `viewer` reads, `user` changes its own jobs, `operator` all jobs and nodes, `admin` everything.
    role: Literal["viewer", "user", "operator", "admin"] = "user"
    #: What it is for.
    name: Line = ""
    #: When it expires, from now on; null: never.
    expires_seconds: Duration | None = None
    #: The queue of its user's jobs that name none; null: the one of which the user is a member.
    queue: QueuePath | None = None
