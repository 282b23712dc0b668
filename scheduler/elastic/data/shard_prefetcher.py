"""Holds shards for a process that reads them. Standard library only.

A thread keeps some at hand, renews them, and reports what is done; it refers to nothing of those who read.
"""

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType

from scheduler.elastic.data.shard_source import Answer, Call, Shard, ShardSource
from scheduler.elastic.errors import ElasticError, UsageError
from scheduler.elastic.membership.agent import EXIT_DRAINED, leave_fenced
from scheduler.elastic.membership.sigterm import Sigterm

#: Longest delay before finished shards are reported, even if no new ones are needed.
REPORT_SECONDS = 0.5
#: Where others hold all that is left, how often to ask.
IDLE_SECONDS = 0.5
#: Leases are renewed after this part of their time.
RENEW_SHARE = 1 / 3
#: Part of the grace period in which a leaving worker may go on telling the scheduler.
GRACE_SHARE = 0.8


class Holder:
    """What is behind a `ShardQueue`, which says what its methods mean."""

    def __init__(self, source: ShardSource, ahead: int, grace_seconds: float) -> None:
        self._source = source
        self._ahead = ahead
        self._grace_seconds = grace_seconds
        self._process = os.getpid()
        # Its lock may be taken again by the signal handler, which runs in the main thread.
        self._changed = threading.Condition(threading.RLock())
        self._ready: deque[Shard] = deque()
        self._in_hand: dict[int, Shard] = {}
        #: Of what is in hand: the thread whose `commit` reports it, as it does one shard after the other.
        self._taken_by: dict[int, int] = {}
        #: In hand when a loop was left.
        self._left: set[int] = set()
        self._done: list[int] = []
        self._failed: list[tuple[int, str]] = []
        self._returned: list[int] = []
        self._refused: set[int] = set()
        self._requests = self._answered = 0
        self._dry = self._end = self._leave = self._closed = False
        self._error: ElasticError | None = None
        self._last = Answer()
        self._called_at = time.monotonic()
        self._give_up_at: float | None = None
        self._thread = threading.Thread(target=self._serve, name="shards", daemon=True)
        self._sigterm = Sigterm(self._on_sigterm)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # else it is for somebody else to handle
            self._sigterm.take()
        self._thread.start()

    @property
    def deals(self) -> bool:
        """Whether it may hold shards, or get some."""
        return not (self._closed or self._end or self._error is not None)

    def take(self, stopped: Callable[[], bool], *, in_parts: bool) -> Shard | None:
        with self._changed:
            request = self._request() if not self._ready else 0
            self._changed.wait_for(lambda: self._ready or self._answered >= request or self._going() or stopped())
            self._check()
            if self._leave or not self._ready:
                return None
            shard = self._ready.popleft()
            self._in_hand[shard.position] = shard
            if not in_parts:
                self._taken_by[shard.position] = threading.get_ident()
            self._changed.notify_all()
            return shard

    def leave(self, positions: Iterable[int]) -> None:
        with self._changed:
            self._left.update(self._in_hand.keys() & positions)

    def take_up(self) -> None:
        with self._changed:
            if self._closed:
                return
            again = [shard for position in sorted(self._left) if (shard := self._put_down(position)) is not None]
            self._ready.extendleft(reversed(again))
            self._left.clear()

    def done(self, shard: Shard) -> None:
        with self._changed:
            if self._put_down(shard.position) is not None:
                self._done.append(shard.position)
                self._changed.notify_all()

    def failed(self, shard: Shard, detail: str) -> None:
        with self._changed:
            if self._put_down(shard.position) is not None:
                self._failed.append((shard.position, detail))
                self._changed.notify_all()

    def failed_with(self, error: Exception) -> None:
        """This error is the fault of the shard in hand, where that is one."""
        if len(self._in_hand) == 1:
            [shard] = self._in_hand.values()
            self.failed(shard, f"{type(error).__name__}: {error}")

    def commit(self) -> list[int]:
        with self._changed:
            self._check_open()
            mine = [position for position, thread in self._taken_by.items() if thread == threading.get_ident()]
            self._done += [position for position in mine if self._put_down(position) is not None]
            request = self._request()
            self._changed.wait_for(lambda: self._answered >= request or self._error is not None or self._closed)
            self._check()
            if self._answered < request:
                self._check_open()
            refused, self._refused = sorted(self._refused), set()
            return refused

    def close(self) -> None:
        if self._begin_to_close():
            self._thread.join()
            self._sigterm.give_back()

    def let_go(self) -> None:
        """As `close`, where nobody is left who could read or wait. From any thread, and within any call of this one."""
        # A process forked from this one has a copy whose lock may be held for ever.
        if os.getpid() == self._process and self._begin_to_close():
            self._sigterm.give_back()

    def over(self) -> bool:
        with self._changed:
            self._changed.wait_for(self._going, IDLE_SECONDS)
            self._check()
        if self._leave:
            self.close()
            raise SystemExit(EXIT_DRAINED)
        if not self._end:
            self._check_open()
        return self._end

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _put_down(self, position: int) -> Shard | None:
        """Take it out of the reader's hand; None if it is not there."""
        self._taken_by.pop(position, None)
        self._left.discard(position)
        return self._in_hand.pop(position, None)

    def _begin_to_close(self) -> bool:
        """Whether it was open."""
        with self._changed:
            if self._closed:
                return False
            self._give_up_at = time.monotonic() + self._grace_seconds * GRACE_SHARE
            self._closed = True
            self._changed.notify_all()
            return True

    def _going(self) -> bool:
        return self._end or self._leave or self._closed or self._error is not None

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this ShardQueue is closed: create another one to continue")

    def _request(self) -> int:
        """Number of an exchange that begins from now on; its answer is there when `_answered` has come so far."""
        self._requests += 1
        self._changed.notify_all()
        return self._requests

    def _serve(self) -> None:
        """The thread: say what there is to say, hear what comes of it."""
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(self._due, self._seconds_to_next_call())
                    closing, request = self._closed, self._requests
                    call = self._prepare()
                self._called_at = time.monotonic()
                answer = self._source.exchange(call, self._goes_on)
                if answer is not None and answer.fenced:
                    leave_fenced()
                with self._changed:
                    self._absorb(call, answer or self._last)
                    self._answered = request
                    self._changed.notify_all()
                if closing and (answer is None or not self._ready):
                    return
        except Exception as error:
            told = error if isinstance(error, ElasticError) else ElasticError(f"no more shards can be had: {error!r}")
            told.__cause__ = error if told is not error else error.__cause__
            with self._changed:
                self._error = told
                self._changed.notify_all()
        finally:
            self._source.close()

    def _goes_on(self) -> bool:
        return self._give_up_at is None or time.monotonic() < self._give_up_at

    def _due(self) -> bool:
        low = len(self._ready) <= self._ahead // 2 and not (self._dry or self._end or self._leave)
        leaving = self._leave and bool(self._ready)
        return self._closed or leaving or self._requests > self._answered or low

    def _seconds_to_next_call(self) -> float:
        pause = REPORT_SECONDS if self._unsaid() else self._last.lease_seconds * RENEW_SHARE
        return max(self._called_at + pause - time.monotonic(), 0.0)

    def _unsaid(self) -> list[int]:
        return [*self._done, *(position for position, _ in self._failed), *self._returned]

    def _prepare(self) -> Call:
        """All that was not said yet. A call is repeated until it is answered, so nothing of it is kept here."""
        if self._closed or self._leave:
            self._returned += [shard.position for shard in self._ready]
            self._ready.clear()
        wanted = 0 if self._closed or self._leave else self._ahead + len(self._in_hand)
        details = "; ".join(detail for _, detail in self._failed)
        call = Call(wanted, self._done, [position for position, _ in self._failed], self._returned, details)
        self._done, self._failed, self._returned = [], [], []
        return call

    def _absorb(self, call: Call, answer: Answer) -> None:
        self._last = answer
        self._refused |= answer.refused
        self._end, self._leave = answer.end, self._leave or answer.leave
        self._ready = deque(shard for shard in self._ready if shard.position in answer.held)
        known = {shard.position for shard in self._ready} | self._in_hand.keys() | set(self._unsaid())
        fresh = [shard for shard in answer.given if shard.position not in known]
        self._ready += fresh
        self._dry = not fresh and call.want > len(answer.held)

    def _on_sigterm(self, number: int, _frame: FrameType | None) -> None:
        if self._closed and not self._thread.is_alive():  # closed where the signal could not be given back
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        with self._changed:
            self._leave = True
            self._changed.notify_all()
