"""One slot for long computations: they run one at a time, beside the engine and other requests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.http.errors import RETRY_AFTER_SECONDS, ErrorCode, Refusal

#: Limit on the requests that wait for their turn.
WAITING_MAX = 4


class ComputeSlot:
    """Turns for long computations. Used from the threads that serve requests."""

    def __init__(self) -> None:
        self._turn = threading.BoundedSemaphore(1)
        self._places = threading.BoundedSemaphore(1 + WAITING_MAX)

    @contextmanager
    def turn(self, wait_seconds: float) -> Iterator[None]:
        """Hold the turn. Raises `Refusal` (503) if it does not come in time, or too many requests wait."""
        if not self._places.acquire(blocking=False):
            raise _busy()
        try:
            if not self._turn.acquire(timeout=wait_seconds):
                raise _busy()
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._places.release()


def _busy() -> Refusal:
    return Refusal(
        503,
        ErrorCode.UNAVAILABLE,
        "too many requests of this kind at the moment: try again",
        headers={"retry-after": str(RETRY_AFTER_SECONDS)},
    )
