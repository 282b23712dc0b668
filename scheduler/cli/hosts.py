"""`sched hosts`: what discover_hosts answers, for use as a host discovery script."""

import sys

import typer

from scheduler.cli.command import JOBS, Session, command
from scheduler.cli.exits import Unreachable
from scheduler.cli.resolve import JobArgument, job_id


def hosts(session: Session, job: JobArgument) -> None:
    """Print the hosts of a running job, one host:slots a line.

    The output is exactly what discover_hosts answers, so that Horovod takes "sched hosts JOB" as its
    --host-discovery-script. While nothing is published the exit status is not 0 and nothing is printed.
    """
    accept = "application/json" if session.json else "text/plain"
    response = session.client.exchange("GET", f"/v1/jobs/{job_id(session.client, job)}/discover_hosts", accept=accept)
    if accept not in response.headers.get("content-type", ""):
        raise Unreachable(f"what answers at {session.connection.url} is no scheduler: set SCHED_URL to its address")
    sys.stdout.write(response.text + ("\n" if session.json else ""))


def register(app: typer.Typer) -> None:
    command(app, "hosts", JOBS)(hosts)
