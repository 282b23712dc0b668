"""What is decided while a case is played: events and host lists, as text.

It holds nothing that differs between two machines, or between two layouts of the same code.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scheduler.engine.board import Board
from scheduler.model.event import Event
from scheduler.model.ids import JobId
from scheduler.store.sqlstore import SqlStore

#: Hexadecimal digits of a digest.
DIGITS = 16
#: Where in the code a tick failed, as a detail ends.
_PLACE = re.compile(r", in \S+:\d+ \(\S+\)")
#: Sums of floats end with other digits elsewhere.
_DECIMALS = 6
_PAGE = 1000


class Decided:
    """Lines, in order: events of stores that were read, then host lists of boards that are followed."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.hosts: list[str] = []
        #: Why the case was not played to its end.
        self.trouble: str | None = None
        #: What each board answers at present, by job.
        self._answers: dict[Board, dict[JobId, str]] = {}

    @property
    def text(self) -> str:
        lines = self.events + self.hosts + ([] if self.trouble is None else [self.trouble])
        return "".join(f"{line}\n" for line in lines)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:DIGITS]

    def read(self, store: SqlStore) -> None:
        """Add every event of the store."""
        last: int | None = None
        while page := store.list_events(last, limit=_PAGE):
            self.events += (line_of(event) for _, event in page)
            last = page[-1][0]

    def follow(self, board: Board) -> None:
        """Add what the board answers from now on, whenever that changes."""
        board.subscribe(lambda changed: self._note(board, changed))

    def _note(self, board: Board, changed: frozenset[JobId]) -> None:
        answers = self._answers.setdefault(board, {})
        number = list(self._answers).index(board) + 1
        for job_id in sorted(changed):
            answer = _answer(board, job_id)
            if answer != answers.get(job_id, ""):
                self.hosts.append(f"board {number}, job {job_id}: {answer or 'nothing'}")
            answers[job_id] = answer


@contextmanager
def deciding() -> Iterator[Decided]:
    """What all engines of this process decide meanwhile; a store is read before it is closed."""
    decided = Decided()
    make, close = Board.__init__, SqlStore.close

    def make_followed(board: Board) -> None:
        make(board)
        decided.follow(board)

    def close_read(store: SqlStore) -> None:
        decided.read(store)
        close(store)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Board, "__init__", make_followed)
        patch.setattr(SqlStore, "close", close_read)
        yield decided


def line_of(event: Event) -> str:
    """The event, without the place in the code that a failed tick names."""
    about = (event.kind, event.job_id, event.worker_id, event.node, event.cause, event.for_job)
    amount = None if event.amount is None else _rounded(event.amount)
    return json.dumps((_rounded(event.at), *about, _PLACE.sub("", event.detail), amount))


def _answer(board: Board, job_id: JobId) -> str:
    """What discover_hosts answers, as plain text and as JSON; empty: no list is published."""
    posting = board.posting(job_id)
    if posting is None or not posting.text:
        return ""
    return json.dumps((posting.text.decode(), json.loads(posting.body, parse_float=_rounded)))


def _rounded(number: Any) -> float:
    return round(float(number), _DECIMALS)
