"""`sched logs`: what a worker wrote."""

import re
from collections.abc import Callable
from typing import Annotated

import typer

from scheduler.cli.client.client import Client
from scheduler.cli.client.follow import JsonLines, Piece, follow_log, read_log, read_piece, write_plain
from scheduler.cli.client.resolve import JobArgument, job_id
from scheduler.cli.command import WATCH, Session, command

_TAIL_BYTES = 64 * 1024
#: The daemon gives no more at once.
_TAIL_BYTES_MAX = 4 * 1024 * 1024


def logs(
    session: Session,
    job: JobArgument,
    worker: Annotated[
        str | None, typer.Option("--worker", "-w", help="Worker, such as 12-3 (default: the newest of rank 0).")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new output until the job ends or Ctrl-C.")
    ] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Begin with the last N lines.")] = None,
) -> None:
    """Print the output of a worker of a job.

    With -o json, print parts of the output as one JSON object per line with worker, offset and text.
    """
    client = session.client
    number = job_id(client, job)
    if worker is not None and worker.isdecimal():
        worker = f"{number}-{worker}"
    if not session.json:
        _write(client, number, worker, tail, write_plain, follow=follow)
        return
    lines = JsonLines()
    try:
        _write(client, number, worker, tail, lines.write, follow=follow)
    finally:
        lines.end()


def _write(
    client: Client, number: int, worker: str | None, tail: int | None, write: Callable[[Piece], None], *, follow: bool
) -> None:
    last = None if tail is None else _last_lines(client, number, worker, tail)
    if last is not None:
        write(last)
    if follow:
        follow_log(client, number, worker, write, after=last)
    elif last is None:
        for piece in read_log(client, number, worker):
            write(piece)


def _last_lines(client: Client, number: int, worker: str | None, count: int) -> Piece:
    """The last lines of a log, as far back as is reasonable to look."""
    size = _TAIL_BYTES
    while True:
        piece = read_piece(client, number, worker, -size, limit=size)
        lines = re.findall(rb"[^\n]*\n|[^\n]+", piece.data)  # a progress bar's carriage returns end no line
        if len(lines) > count or len(piece.data) < size or size >= _TAIL_BYTES_MAX:
            return Piece(piece.worker, piece.offset, b"".join(lines[-count:] if count else []))
        size *= 4


def register(app: typer.Typer) -> None:
    command(app, "logs", WATCH)(logs)
