"""The tree of commands, put together from the modules that declare them."""

import typer

from scheduler.cli.command import DAEMON, QUEUES, USERS
from scheduler.cli.commands import (
    audit,
    bookings,
    database,
    events,
    explain,
    health,
    hosts,
    jobs,
    login,
    logs,
    nodes,
    page,
    queues,
    report,
    requests,
    serve,
    simulate,
    submit,
    tokens,
    top,
    usage,
    webhooks,
    whatif,
)
from scheduler.cli.exits import Exit

_HELP = (
    "Submit and manage training jobs on the elastic GPU scheduler.\n\n"
    "All commands except serve, simulate and db connect to the daemon: at --url or SCHED_URL if set, else at the "
    "address of sched login, else at that in daemon.json in the state directory, else, unless that directory is given, "
    "at http://127.0.0.1:8470.\n\n"
    "JOB is the id or the name of a job. A name selects the job that has not ended, or else the newest one."
)
_STATUSES = "\b\nExit status:\n" + "\n".join(f"{status.value:>5}  {status.meaning}" for status in Exit)

root = typer.Typer(
    name="sched",
    help=_HELP,
    epilog=_STATUSES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
db = typer.Typer(help="Manage the database schema.", no_args_is_help=True)
queue = typer.Typer(help="Manage the queues among which the slots are divided.", no_args_is_help=True)
token = typer.Typer(help="Manage the tokens of users.", no_args_is_help=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        from scheduler import __version__

        typer.echo(f"sched {__version__}")
        raise typer.Exit


@root.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", callback=_print_version, is_eager=True
    ),
) -> None:
    """Options of `sched` itself."""


for module in (
    submit,
    whatif,
    jobs,
    requests,
    explain,
    hosts,
    logs,
    events,
    top,
    report,
    usage,
    nodes,
    bookings,
    login,
    page,
    audit,
    serve,
    health,
    webhooks,
    simulate,
):
    module.register(root)
queues.register(queue)
root.add_typer(queue, name="queue", rich_help_panel=QUEUES)
tokens.register(token)
root.add_typer(token, name="token", rich_help_panel=USERS)
database.register(db)
root.add_typer(db, name="db", rich_help_panel=DAEMON)
