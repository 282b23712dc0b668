"""Finds and shuts the TCP connections of a gloo group. Standard library only; Linux (/proc).

A rank whose peer died gets an error, but its neighbours that wait for *it* get none until its own connections close,
and those stay open as long as anything (a pending work handle, a traceback) refers to the group. Neither does gloo's
abort wake a thread that waits for a stopped process. Shutting the sockets does both, at once.
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenSocket:
    """A socket of this process; the inode tells it from a later one with the same number."""

    descriptor: int
    inode: str


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
    """

    def __init__(self, local_ports: frozenset[int], remote_ports: frozenset[int]) -> None:
        self._local_ports = local_ports
        self._remote_ports = remote_ports
        self._before = open_sockets()
        self._sealed: frozenset[OpenSocket] | None = None
        #: whether `shut` was called, perhaps before there was anything to shut
        self.is_shut = False

    def seal(self) -> None:
        """The group is connected: sockets that appear from now on are not its own."""
        self._sealed = open_sockets() - self._before

    def shut(self) -> None:
        """Shuts them, from any thread; also those that a group being formed has opened so far."""
        self.is_shut = True
        now = open_sockets()
        for entry in now - self._before if self._sealed is None else now & self._sealed:
            with suppress(OSError):
                # A duplicate: closing it leaves the owner's descriptor alone, shutting it down reaches the connection.
                connection = socket.socket(fileno=os.dup(entry.descriptor))
                with connection:
                    mine, theirs = _port(connection.getsockname()), _port(connection.getpeername())
                    if mine not in self._local_ports and theirs not in self._remote_ports:
                        connection.shutdown(socket.SHUT_RDWR)


def _port(address: object) -> int | None:
    if isinstance(address, tuple) and len(address) >= 2 and isinstance(address[1], int):
        return address[1]
    return None
