"""Finds and shuts the TCP connections of a gloo group. Standard library only; Linux (/proc).

A rank whose peer died gets an error, but its neighbours that wait for *it* get none until its own connections close,
and those stay open as long as anything (a pending work handle, a traceback) refers to the group. Neither does gloo's
abort wake a thread that waits for a stopped process. Shutting the sockets does both, at once.
"""

import os
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

#: Sockets that appear after a group was shut are looked for this often.
_LOOK_SECONDS = 0.1
#: A group opens no others. Those within a machine are the script's: pipes of `multiprocessing`, a local service.
_OF_NETWORKS = (socket.AF_INET, socket.AF_INET6)


@dataclass(frozen=True, slots=True)
class OpenSocket:
    """A socket of this process; the inode tells it from a later one with the same number."""

    descriptor: int
    inode: str

    def duplicate(self) -> socket.socket:
        """Another handle: closing it leaves the owner's alone, shutting it down reaches the connection."""
        return socket.socket(fileno=os.dup(self.descriptor))


def open_sockets() -> frozenset[OpenSocket]:
    """All sockets that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if target.startswith("socket:"):
                found.append(OpenSocket(int(name), target))
    return frozenset(found)


class Connections:
    """The connections that a group opens: all sockets that appear between its making and `seal`.

    Args:
        local_ports: listening ports of this process; what is accepted there belongs to others.
        remote_ports: servers that other threads of this process talk to meanwhile.
        peers: the same of either end, where ports alone do not tell: as `host:port`.
    """

    def __init__(
        self, local_ports: frozenset[int], remote_ports: frozenset[int], peers: frozenset[str] = frozenset()
    ) -> None:
        self._local_ports = local_ports
        self._remote_ports = remote_ports
        self._peers = peers
        self._before = open_sockets()
        self._sealed: frozenset[OpenSocket] | None = None
        self._shut = threading.Event()

    @property
    def is_shut(self) -> bool:
        """Whether `shut` was called, perhaps before there was anything to shut."""
        return self._shut.is_set()

    def seal(self) -> None:
        """The group is connected: sockets that appear from now on are not its own."""
        self._sealed = self._opened()

    def shut(self) -> None:
        """Shuts them, from any thread; also those that a group being formed has opened so far."""
        self._shut.set()
        _shut(self._opened() if self._sealed is None else self._sealed & open_sockets())

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Around a call that opens further connections, and that nothing else can end: `shut` shuts them as well.

        NCCL waits on a listening socket for ever where a member died before it connected. OSError where it was shut.
        """
        before, over = open_sockets(), threading.Event()

        def shut_new() -> None:
            while not over.wait(_LOOK_SECONDS):
                if self.is_shut:
                    _shut({entry for entry in open_sockets() - before if _listens(entry) or self._is_own(entry)})

        thread = threading.Thread(target=shut_new, name="shut-new-sockets", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
        if self.is_shut:
            raise OSError("the group was shut while it was being connected")

    def any_closed(self) -> bool:
        """Whether one that was open at `seal` is closed: gloo does that after an error on it, and only then."""
        return self._sealed is not None and not self._sealed <= open_sockets()

    def _opened(self) -> frozenset[OpenSocket]:
        return frozenset(entry for entry in open_sockets() - self._before if self._is_own(entry))

    def _is_own(self, entry: OpenSocket) -> bool:
        with suppress(OSError), entry.duplicate() as connection:
            if connection.family not in _OF_NETWORKS:
                return False
            mine, theirs = connection.getsockname(), connection.getpeername()
            if _port(mine) in self._local_ports or _port(theirs) in self._remote_ports:
                return False
            return not any(_port(end) is not None and f"{end[0]}:{end[1]}" in self._peers for end in (mine, theirs))
        return False


def _shut(entries: Iterable[OpenSocket]) -> None:
    for entry in entries:
        with suppress(OSError), entry.duplicate() as connection:
            connection.shutdown(socket.SHUT_RDWR)


def _listens(entry: OpenSocket) -> bool:
    with suppress(OSError), entry.duplicate() as listener:
        return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return False


def _port(address: object) -> int | None:
    if isinstance(address, tuple) and len(address) >= 2 and isinstance(address[1], int):
        return address[1]
    return None
