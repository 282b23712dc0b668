"""Staying with a job until it ends: `--wait` and `--follow`. Outlives a restart of the daemon."""

import sys
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from scheduler.cli.client.client import Client
from scheduler.cli.exits import Exit, Unavailable, Unreachable
from scheduler.cli.render.output import emit_json, note
from scheduler.model.job_state import JobState

View = dict[str, Any]
P = ParamSpec("P")
Answer = TypeVar("Answer")

_EVENTS_HOLD_SECONDS = 30.0
_POLL_SECONDS = 0.3
_LOG_BYTES = 256 * 1024
_AWAY_PAUSE_SECONDS = 1.0
#: How long the daemon may be away before we give up on it.
_AWAY_TRIES_MAX = 600
_TERMINAL = frozenset(state.value for state in JobState if state.terminal)
_ENDS = frozenset(f"JOB_{state}" for state in _TERMINAL)


def ended(view: View) -> bool:
    return view["state"] in _TERMINAL


def exit_of(view: View) -> Exit:
    """The exit status that tells how a job ended."""
    match JobState(view["state"]):
        case JobState.SUCCEEDED:
            return Exit.OK
        case JobState.CANCELLED:
            return Exit.JOB_CANCELLED
        case _:
            return Exit.JOB_FAILED


def outcome(view: View) -> str:
    """One line on how a job ended."""
    detail = f": {view['detail']}" if view.get("detail") else ""
    return f"job {view['id']} {view['state']}{detail}"


@dataclass
class Patience:
    """Repeats requests while the daemon is away, up to a limit, and says so once."""

    tries_left: int = _AWAY_TRIES_MAX
    told: bool = False

    def ask(self, request: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """What the request answers once the daemon is there; its error if that takes too long."""
        while True:
            try:
                answer = request(*args, **kwargs)
            except (Unreachable, Unavailable) as error:
                self.tries_left -= 1
                if self.tries_left <= 0:
                    raise
                if not self.told:
                    note(f"sched: {error}; retrying")
                    self.told = True
                time.sleep(_AWAY_PAUSE_SECONDS)
            else:
                self.tries_left, self.told = _AWAY_TRIES_MAX, False
                return answer


def wait_for_end(client: Client, number: int) -> View:
    """The job's view once it has ended."""
    patience = Patience()
    after, told = 0, False
    while True:
        view: View = patience.ask(client.get, f"/v1/jobs/{number}")
        if ended(view):
            return view
        if told:  # the view follows the event a moment later, and no other event will tell of that
            time.sleep(_POLL_SECONDS)
            continue
        query = {"job": number, "after": after, "wait": _EVENTS_HOLD_SECONDS, "limit": 1000}
        page = patience.ask(client.get, "/v1/events", query, wait_seconds=_EVENTS_HOLD_SECONDS)
        after, told = page["next"], any(event["kind"] in _ENDS for event in page["events"])


@dataclass(frozen=True, slots=True)
class Piece:
    """Output of one worker; `offset` is where it ends in the worker's log, in bytes."""

    worker: str
    offset: int
    data: bytes


def read_piece(client: Client, number: int, worker: str | None, offset: int, limit: int = _LOG_BYTES) -> Piece:
    """The next piece of a log from `offset` on; a negative one counts from the end. No worker: the newest of rank 0."""
    query: dict[str, Any] = {"offset": offset, "limit": limit}
    if worker is not None:
        query["worker"] = worker
    response = client.exchange("GET", f"/v1/jobs/{number}/logs", params=query, accept="text/plain")
    headers = response.headers
    return Piece(headers.get("x-sched-worker", worker or ""), int(headers["x-sched-offset"]), response.content)


def read_log(client: Client, number: int, worker: str | None, offset: int = 0) -> Iterator[Piece]:
    """What a log holds from `offset` on."""
    while True:
        piece = read_piece(client, number, worker, offset)
        if not piece.data:
            return
        yield piece
        worker, offset = piece.worker or worker, piece.offset


def first_member(view: View) -> str | None:
    """The worker of rank 0; the oldest live one, a fixed one last, where none is published."""
    live: list[View] = view.get("live_workers") or []
    workers = _members(view) or sorted(live, key=lambda worker: worker.get("fixed_index") is not None)
    return workers[0]["id"] if workers else None


def _members(view: View) -> list[View]:
    """Live workers by rank, without those that have none."""
    live: list[View] = view.get("live_workers") or []
    return sorted((each for each in live if each.get("rank") is not None), key=lambda member: member["rank"])


class _Reader:
    """Where we are in the output of a job: which worker's, and how far."""

    def __init__(
        self, client: Client, number: int, worker: str | None, write: Callable[[Piece], None], offset: int
    ) -> None:
        self._client, self._number, self._write = client, number, write
        self.worker = worker
        self._offset = offset
        #: Members that run beside this worker, by rank, and how long the output of each was; None: not known.
        self._beside: dict[str, int | None] = {}

    def next_output(self, patience: Patience) -> tuple[str, int] | None:
        """The member that takes over if this worker ends, and how long its output is."""
        worker = next(iter(self._beside), None)
        return (worker, self._length(worker, patience)) if worker is not None else None

    def stay(self, view: View, measured: tuple[str, int] | None) -> None:
        """This worker is of rank 0 still, so what the next one had written before is not the output of rank 0."""
        self._beside = {member["id"]: None for member in _members(view)[1:]}
        if measured is not None and measured[0] in self._beside:
            self._beside[measured[0]] = measured[1]

    def turn_to(self, worker: str, patience: Patience) -> None:
        """Read another worker: from its beginning, or if it ran beside this one, from where it took over."""
        if self.worker is not None:
            note(f"-- output of worker {worker} --")
        length = self._beside.get(worker, 0)
        self.worker, self._offset = worker, self._length(worker, patience) if length is None else length

    def read_on(self, patience: Patience) -> None:
        """Write what is there."""
        while self.worker is not None:
            piece = patience.ask(read_piece, self._client, self._number, self.worker, self._offset)
            if not piece.data:
                return
            self._write(piece)
            self._offset = piece.offset

    def _length(self, worker: str, patience: Patience) -> int:
        return patience.ask(read_piece, self._client, self._number, worker, -1, 1).offset


def follow_log(
    client: Client, number: int, worker: str | None, write: Callable[[Piece], None], after: Piece | None = None
) -> View:
    """Write a worker's output as it comes until the job ends; the job's view then.

    No worker: the one of rank 0, and its successors when it is replaced or the job starts again. `after` was written
    before.
    """
    patience = Patience()
    first = worker if after is None else after.worker or worker
    reader = _Reader(client, number, first, write, 0 if after is None else after.offset)
    while True:
        measured = reader.next_output(patience)
        view: View = patience.ask(client.get, f"/v1/jobs/{number}")
        reader.read_on(patience)
        if worker is None and (ended(view) or first_member(view) != reader.worker):
            for successor in patience.ask(_successors, client, view, reader.worker):
                reader.turn_to(successor, patience)
                reader.read_on(patience)
        elif worker is None:
            reader.stay(view, measured)
        if ended(view):
            return view
        time.sleep(_POLL_SECONDS)


def _successors(client: Client, view: View, worker: str | None) -> list[str]:
    """The workers of rank 0 that came after this one, even those that have gone again.

    In a job of one that is any but those of its fixed group, also before it has a rank.
    """
    after = int(worker.partition("-")[2]) if worker is not None else 0
    found: list[str] = []
    while True:
        page = client.get(f"/v1/jobs/{view['id']}/workers", {"after": after, "limit": 1000})
        scaled = (each for each in page["workers"] if each.get("fixed_index") is None)
        found += [each["id"] for each in scaled if each["rank"] == 0 or view["max_workers"] == 1]
        if page["next"] is None:
            break
        after = page["next"]
    if not found and worker is None and ended(view):
        # It ended before anybody had a rank.
        newest = read_piece(client, view["id"], None, 0, 1).worker
        return [newest] if newest else []
    return found


def write_plain(piece: Piece) -> None:
    """The bytes as the worker wrote them, on stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(piece.data)
    sys.stdout.buffer.flush()


class JsonLines:
    """Pieces as JSON, one object a line. A character that a later piece ends is a part of that one."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._last: Piece | None = None

    def write(self, piece: Piece) -> None:
        if self._last is not None and self._last.worker != piece.worker:
            self.end()
        self._last = piece
        text = self._decoder.decode(piece.data)
        begun, _ = self._decoder.getstate()
        emit_json({"worker": piece.worker, "offset": piece.offset - len(begun), "text": text})

    def end(self) -> None:
        """Write what was begun of a character that nothing ended."""
        text = self._decoder.decode(b"", final=True)
        if self._last is not None and text:
            emit_json({"worker": self._last.worker, "offset": self._last.offset, "text": text})


def write_log_aside(piece: Piece) -> None:
    """The bytes as the worker wrote them, on stderr: stdout is for a JSON document."""
    sys.stderr.flush()
    sys.stderr.buffer.write(piece.data)
    sys.stderr.buffer.flush()
