"""`python -m scheduler.cli` is `sched`."""

from scheduler.cli.main import app

app()
