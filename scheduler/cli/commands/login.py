"""`sched login`, `sched logout` and `sched whoami`: who the user is to the daemon."""

import sys
from dataclasses import replace
from typing import Annotated, Any

import typer

from scheduler.cli.client.client import Client
from scheduler.cli.client.connection import checked_token, checked_url, connection_to
from scheduler.cli.client.login import Login, forget_login, login_file, write_login
from scheduler.cli.command import NAMED, OUTPUT, USERS, Session, command
from scheduler.cli.render.output import emit_json, fields, note, say, show
from scheduler.cli.render.times import stamp
from scheduler.errors import UserError

View = dict[str, Any]

_HOW = {
    "nothing": "not at all: the daemon is open to its machine",
    "http.token": "by http.token",
    "login": "by the login on its machine",
    "oidc": "by a token of its issuer (OpenID Connect)",
}
#: Longer lines are no token.
_TOKEN_LENGTH_MAX = 16 * 1024
#: What a terminal takes as one line; the rest is lost without a word.
_TYPED_LENGTH_MAX = 4095


def login(
    session: Session,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the daemon.")],
) -> None:
    """Store the address of a daemon, a token, and --ca, --cert and --key, which other commands then use.

    The token is asked for without being shown, or read from stdin where that is no terminal. The daemon must accept it.
    --url, --token and --state-dir, and their variables, go before the stored login.
    """
    connection = replace(connection_to(checked_url(url), _read_token()), tls=session.tls)
    if not connection.url.startswith("https:") and not connection.loopback:
        note(f"the token travels unencrypted to {connection.url}: use https where others share the network")
    with Client(connection) as client:
        view = client.get("/v1/whoami")
    if view["identified_by"] in ("nothing", "login"):
        raise UserError(f"{connection.url} has no tokens: it takes you for {_who(view)} without one, nothing is stored")
    path = write_login(Login(connection.url, connection.token or "", connection.tls))
    if session.json:
        emit_json(view)
    else:
        say(f"logged in to {connection.url} as {_who(view)}; stored in {path}")


def logout(session: Session) -> None:
    """Remove the stored address and token. The token itself stays valid until it is revoked."""
    removed = forget_login()
    if session.json:
        emit_json({"removed": removed})
    else:
        say(f"removed {login_file()}" if removed else "not logged in")


def whoami(session: Session) -> None:
    """Show the user and role that the daemon takes you for, how it knows, and when the token expires."""
    view = session.client.get("/v1/whoami")
    if session.json:
        emit_json(view)
        return
    rows = [("user", view["user"] or "-"), ("role", view["role"]), ("known", _how(view))]
    if view["identified_by"] in ("token", "oidc"):
        rows.append(("expires", _expiry(view["expires_at"])))
    if view.get("queue") is not None:
        rows.append(("queue", view["queue"]))
    if view.get("jobs_run_as") is not None:
        rows.append(("jobs run as", view["jobs_run_as"]))
    rows.append(("daemon", session.connection.url))
    show(fields(rows))


def _read_token() -> str:
    """Raises `UserError` where there is none."""
    if sys.stdin.isatty():
        text = str(typer.prompt("Token", hide_input=True, err=True))
        if len(text) >= _TYPED_LENGTH_MAX:
            raise UserError("the token is longer than a line of a terminal: use sched login URL < token-file")
    else:
        text = sys.stdin.readline(_TOKEN_LENGTH_MAX)
    token = checked_token(text, "stdin")
    if token is None:
        raise UserError("no token: type it, or pass it on stdin, as in: sched login URL < token-file")
    return token


def _who(view: View) -> str:
    return f"{view['user']} ({view['role']})" if view["user"] else str(view["role"])


def _how(view: View) -> str:
    return _HOW.get(view["identified_by"], f"by token {view['token_id']}")


def _expiry(at: float | None) -> str:
    return "never" if at is None else stamp(at)


def register(app: typer.Typer) -> None:
    command(app, "login", USERS, common=NAMED)(login)
    command(app, "logout", USERS, common=OUTPUT)(logout)
    command(app, "whoami", USERS)(whoami)
