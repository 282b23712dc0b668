"""`sched page`: the live page, in a browser that is logged in."""

import sys
import webbrowser
from typing import Annotated

import typer

from scheduler.cli.command import USERS, Session, command
from scheduler.cli.render.output import emit_json, note, say
from scheduler.errors import UserError


def page(
    session: Session,
    open_browser: Annotated[
        bool | None, typer.Option("--open/--no-open", help="Open a browser (default: where the output is a terminal).")
    ] = None,
) -> None:
    """Print the address of the live page, and open a browser with it.

    Where the daemon asks for tokens, the address holds a code that logs the browser in as you. It is good for one use,
    within a minute.
    """
    connection = session.connection
    if not connection.url.startswith("http"):
        raise UserError(f"{connection.url} is not an address for a browser: set --url to that of the daemon")
    code = session.client.post("/v1/page-codes")["code"]
    address = f"{connection.url}/" if code is None else f"{connection.url}/#code={code}"
    if session.json:
        emit_json({"url": address})
    else:
        say(address)
    wanted = sys.stdout.isatty() if open_browser is None else open_browser
    if wanted and not webbrowser.open(address):
        note("no browser was found: open the address in one of your own")


def register(app: typer.Typer) -> None:
    command(app, "page", USERS)(page)
