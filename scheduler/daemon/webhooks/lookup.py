"""An event loop that ends although a name lookup hangs.

The system's lookup cannot be broken off. Those of asyncio run in threads that the end of the loop, and that of the
process, wait for; these run in threads that nobody waits for.
"""

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Any

_Found = list[Any]


class LookupLoop(asyncio.SelectorEventLoop):
    """Asks for each name once at a time: whoever asks again while a lookup hangs waits for that one."""

    def __init__(self) -> None:
        super().__init__()
        self._lookups: dict[tuple[Any, ...], asyncio.Future[_Found | Exception]] = {}

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> _Found:
        asked = (host, port, family, type, proto, flags)
        lookup = self._lookups.get(asked)
        if lookup is None or lookup.done():
            lookup = self._lookups[asked] = self.create_future()
            threading.Thread(target=self._look_up, args=(asked, lookup), name="webhook-lookup", daemon=True).start()
        found = await asyncio.shield(lookup)  # who gives up waiting breaks off nothing
        if isinstance(found, Exception):
            raise found
        return found

    def _look_up(self, asked: tuple[Any, ...], lookup: "asyncio.Future[_Found | Exception]") -> None:
        found: _Found | Exception
        try:
            found = socket.getaddrinfo(*asked)
        except Exception as error:
            found = error
        with suppress(RuntimeError):  # the loop has ended
            self.call_soon_threadsafe(lookup.set_result, found)
