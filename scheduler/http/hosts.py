"""discover_hosts: answers from the board alone, so that it neither waits for SQL nor for a tick.

200 with the list; 304 if the client has it; 503 while nothing is published; 410 for a job that has ended; 404 for one
that never existed. Never 200 with an empty list: Horovod takes that for the loss of all hosts.
"""

import zlib
from dataclasses import dataclass

from scheduler.engine.board import Board, Known, Posting
from scheduler.http.errors import ErrorCode, Refusal
from scheduler.model.ids import JobId
from scheduler.model.job_state import JobState

#: Retry hint while nothing is published: about the time that a job takes to start once there is room.
RETRY_AFTER_SECONDS = 1

#: Ends the message to a client that asked too early.
_WAIT = "ask again, or with wait=60&generation=0 to be answered as soon as they are"

#: Answers of ended jobs are dropped each time this many answers were built.
SWEEP_BUILDS = 1024

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """A published list in one of its two forms, ready to be sent."""

    etag: bytes
    body: bytes
    headers: tuple[Header, ...]
    #: Headers of a 304, which has no body.
    headers_unchanged: tuple[Header, ...]
    #: Headers and body as they are sent.
    wire: bytes


@dataclass(frozen=True, slots=True)
class _Ready:
    posting: Posting
    text: HostAnswer
    json: HostAnswer


class HostAnswers:
    """Answers for published jobs, built once per posting. Used on the event loop only."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._ready: dict[JobId, _Ready] = {}
        self._built = 0

    def published(self, job_id: JobId, *, as_json: bool) -> HostAnswer | None:
        """The answer for the job's list; None where nothing is published."""
        posting = self._board.posting(job_id)
        if posting is None or not posting.text:
            self._ready.pop(job_id, None)
            return None
        ready = self._ready.get(job_id)
        if ready is None or ready.posting is not posting:
            ready = self._ready[job_id] = _build(posting)
            self._built += 1
            if self._built % SWEEP_BUILDS == 0:
                self._sweep()
        return ready.json if as_json else ready.text

    def generation(self, job_id: JobId) -> int:
        """The published generation, 0 for none."""
        posting = self._board.posting(job_id)
        return posting.generation if posting is not None and posting.text else 0

    def refusal(self, job_id: JobId) -> Refusal:
        """Why there is no list."""
        posting = self._board.posting(job_id)
        if posting is not None and posting.state is JobState.STARTING:
            return _not_now(f"job {job_id} is STARTING: its hosts are published when its workers are ready; {_WAIT}")
        if posting is not None:
            return _not_now(f"job {job_id} is {posting.state} and has no published hosts")
        match self._board.known(job_id):
            case Known.NOT_LOADED:
                return _not_now("the daemon has not loaded its jobs yet, or another replica leads")
            case Known.WAITING:
                return _not_now(f"job {job_id} is waiting and has no hosts yet; {_WAIT}")
            case Known.ENDED:
                return Refusal(410, ErrorCode.CONFLICT, f"job {job_id} has ended")
            case Known.UNREADABLE:
                return _not_now(f"job {job_id} cannot be read from the database: see sched health")
            case Known.UNKNOWN:
                return Refusal(404, ErrorCode.NOT_FOUND, f"job {job_id} not found")

    def _sweep(self) -> None:
        """Drop answers of ended jobs."""
        for job_id in [job_id for job_id in self._ready if self._board.posting(job_id) is None]:
            del self._ready[job_id]


def wants_json(accept: bytes) -> bool:
    """Whether an `Accept` header asks for JSON; all other clients get plain text."""
    return b"json" in accept and not accept.startswith(b"text/plain")


def unchanged(answer: HostAnswer, if_none_match: bytes) -> bool:
    """Whether the client has this answer already."""
    tags = (tag.strip().removeprefix(b"W/") for tag in if_none_match.split(b","))
    return any(tag in (answer.etag, b"*") for tag in tags)


def _build(posting: Posting) -> _Ready:
    generation = str(posting.generation).encode()
    # The JSON form also names leaving workers, which change within a generation.
    json_etag = f'{posting.etag[:-1]}-{zlib.crc32(posting.body):08x}"'
    return _Ready(
        posting,
        text=_answer(posting.etag.encode(), posting.text, b"text/plain; charset=utf-8", generation),
        json=_answer(json_etag.encode(), posting.body, b"application/json", generation),
    )


def _answer(etag: bytes, body: bytes, media_type: bytes, generation: bytes) -> HostAnswer:
    shared = (
        (b"etag", etag),
        (b"x-sched-generation", generation),
        (b"vary", b"accept"),
        (b"cache-control", b"no-cache"),
    )
    own = ((b"content-type", media_type), (b"content-length", str(len(body)).encode()))
    headers = (*own, *shared)
    wire = b"".join(b"%b: %b\r\n" % header for header in headers) + b"\r\n" + body
    return HostAnswer(etag, body, headers, shared, wire)


def _not_now(message: str) -> Refusal:
    return Refusal(503, ErrorCode.UNAVAILABLE, message, headers={"retry-after": str(RETRY_AFTER_SECONDS)})
