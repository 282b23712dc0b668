"""Bounds on the memory of requests: a total for all bodies, and turns for large ones."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from scheduler.http.errors import RETRY_AFTER_SECONDS, ErrorCode, Refusal

HELD_BYTES_MAX = 256 * 1024 * 1024
#: A body larger than this takes a turn: parsed, it needs many times its size.
LARGE_BYTES = 256 * 1024
AT_ONCE_MAX = 2
WAIT_SECONDS = 20.0


class Held:
    """Memory held by one body."""

    def __init__(self, bodies: "Bodies") -> None:
        self._bodies = bodies
        self._bytes = 0

    def add(self, count: int) -> None:
        """Hold `count` more bytes. Raises `Refusal` (503) if all bodies together would hold too much."""
        if self._bodies.held_bytes + count > HELD_BYTES_MAX:
            raise _busy()
        self._bodies.held_bytes += count
        self._bytes += count

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold the turn of a large body; small ones need none. Raises `Refusal` (503) if it does not come in time."""
        if self._bytes <= LARGE_BYTES:
            yield
            return
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._bodies.places.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            yield
        finally:
            self._bodies.places.release()

    def let_go(self) -> None:
        self._bodies.held_bytes -= self._bytes


class Bodies:
    """Memory held by the bodies of all requests. Used on the event loop only."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(AT_ONCE_MAX)
        self.held_bytes = 0

    @contextmanager
    def holding(self) -> Iterator[Held]:
        """Account for one body within the context."""
        held = Held(self)
        try:
            yield held
        finally:
            held.let_go()


def _busy() -> Refusal:
    return Refusal(
        503,
        ErrorCode.UNAVAILABLE,
        "too many large requests at the moment: try again",
        headers={"retry-after": str(RETRY_AFTER_SECONDS)},
    )
