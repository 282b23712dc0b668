"""`sched hosts`: what discover_hosts answers, for use as a host discovery script."""

import sys

import typer

from scheduler.cli.client.resolve import JobArgument, job_id
from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.exits import Unreachable


def hosts(session: Session, job: JobArgument) -> None:
    """Print the hosts of a running job, one host:slots per line.

    The output is that of discover_hosts, so "sched hosts JOB" can be the --host-discovery-script of Horovod. While no
    hosts are published, nothing is printed and the exit status is not 0.
    """
    accept = "application/json" if session.json else "text/plain"
    response = session.client.exchange("GET", f"/v1/jobs/{job_id(session.client, job)}/discover_hosts", accept=accept)
    if accept not in response.headers.get("content-type", ""):
        raise Unreachable(f"{session.connection.url} is not a scheduler: set SCHED_URL to the address of the daemon")
    sys.stdout.write(response.text + ("\n" if session.json else ""))


def register(app: typer.Typer) -> None:
    command(app, "hosts", JOBS)(hosts)
