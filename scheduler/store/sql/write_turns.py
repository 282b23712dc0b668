"""Whose turn it is to write: in the order of arrival, the engine before users."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """A lock that is handed on to who waits longest, so that many users cannot hold up the engine."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._taken = False
        #: One lock for each who waits, released when the turn is handed to it; all of the first go before the others.
        self._urgent: deque[threading.Lock] = deque()
        self._waiting: deque[threading.Lock] = deque()

    @contextmanager
    def taken(self, timeout_seconds: float, *, urgent: bool) -> Iterator[bool]:
        """Hold the turn inside the block; False if it did not come in time. Who is urgent goes first."""
        if not self._acquire(timeout_seconds, urgent=urgent):
            yield False
            return
        try:
            yield True
        finally:
            self._release()

    def _acquire(self, timeout_seconds: float, *, urgent: bool) -> bool:
        with self._mutex:
            if not self._taken:
                self._taken = True
                return True
            turn = threading.Lock()
            turn.acquire()
            (self._urgent if urgent else self._waiting).append(turn)
        try:
            if turn.acquire(timeout=timeout_seconds):
                return True
        except BaseException:
            if not self._leave(turn):
                self._release()
            raise
        return not self._leave(turn)

    def _leave(self, turn: threading.Lock) -> bool:
        """Stop waiting; False if the turn was handed over in the meantime."""
        with self._mutex:
            for queue in (self._urgent, self._waiting):
                if turn in queue:
                    queue.remove(turn)
                    return True
            return False

    def _release(self) -> None:
        with self._mutex:
            if queue := self._urgent or self._waiting:
                queue.popleft().release()
            else:
                self._taken = False
