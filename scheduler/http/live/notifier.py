"""Wakes requests that wait for news of a job. Any thread may ring; requests wait on the event loop."""

import asyncio
from collections.abc import Generator, Hashable, Iterable
from contextlib import contextmanager, suppress


class Notifier:
    """Requests wait by key. A ring wakes those that listen at that moment: listen first, then look, then wait."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listening: dict[Hashable, set[asyncio.Future[None]]] = {}
        self._closed = False

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop that requests wait on."""
        self._loop = loop
        self._closed = False

    def close(self) -> None:
        """Wake all requests, and let none wait again, since the server stops. Call on the loop."""
        self._closed = True
        self._wake(list(self._listening))

    @property
    def closed(self) -> bool:
        """Whether the server stops."""
        return self._closed

    def listening(self) -> int:
        """Number of waiting requests."""
        return sum(len(futures) for futures in list(self._listening.values()))

    def ring(self, keys: Iterable[Hashable]) -> None:
        """Wake the requests that listen for one of the keys. Thread-safe."""
        loop = self._loop
        if loop is not None and self._listening:  # who begins to listen now will look after that
            with suppress(RuntimeError):  # the loop has closed: no request listens
                loop.call_soon_threadsafe(self._wake, list(keys))

    def time(self) -> float:
        """Monotonic seconds of the loop, the clock of the waits' deadlines."""
        return asyncio.get_running_loop().time()

    @contextmanager
    def listen(self, key: Hashable) -> Generator[asyncio.Future[None]]:
        """Listen for the key's next ring. Call on the loop."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        futures = self._listening.setdefault(key, set())
        futures.add(future)
        try:
            yield future
        finally:
            futures.discard(future)
            if not futures and self._listening.get(key) is futures:
                del self._listening[key]

    async def rung(self, future: asyncio.Future[None], seconds: float) -> bool:
        """Wait for the ring; False if none came within `seconds`, or the server stops."""
        if self._closed or seconds <= 0:
            return False
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return False
        return not self._closed

    def _wake(self, keys: Iterable[Hashable]) -> None:
        for key in keys:
            for future in self._listening.pop(key, ()):
                if not future.done():
                    future.set_result(None)
