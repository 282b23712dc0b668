"""What a service manager such as systemd is told: that the daemon serves, that it is alive, and that it stops.

The protocol is that of sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

#: Of the time in which a sign of life must come, as sd_watchdog_enabled(3) advises.
_BEAT_SHARE = 0.5


class ServiceManager:
    """Does nothing where there is none. Signs of life come from the loop that answers requests.

    A decision that does not end has a watchdog of its own, which starts the daemon anew.
    """

    def __init__(self, address: str | None, watchdog_seconds: float | None) -> None:
        self._address = address
        self._beat_seconds = None if watchdog_seconds is None else watchdog_seconds * _BEAT_SHARE
        self._beat_at = 0.0

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        address = environ.get("NOTIFY_SOCKET") or None
        if address is not None and address.startswith("@"):  # an abstract one
            address = f"\0{address[1:]}"
        watched = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = environ.get("WATCHDOG_USEC", "")
        return cls(address, int(microseconds) / 1e6 if watched and microseconds.isdecimal() else None)

    def ready(self) -> None:
        self._tell("READY=1")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def beat(self, now: float) -> None:
        """To be called often; `now` is monotonic. The manager is told as often as it wants to be."""
        if self._beat_seconds is not None and now >= self._beat_at:
            self._beat_at = now + self._beat_seconds
            self._tell("WATCHDOG=1")

    def _tell(self, state: str) -> None:
        if self._address is None:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.setblocking(False)
            link.sendto(state.encode(), self._address)
