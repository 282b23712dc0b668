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


def shut(sockets: frozenset[OpenSocket], spared_ports: frozenset[int]) -> None:
    """Shuts those that are still open and connected, except connections with one of the ports at either end."""
    for entry in sockets & open_sockets():
        with suppress(OSError):
            # A duplicate: closing it leaves the owner's descriptor alone, shutting it down reaches the connection.
            connection = socket.socket(fileno=os.dup(entry.descriptor))
            with connection:
                ends = (connection.getsockname(), connection.getpeername())
                if not any(_port(end) in spared_ports for end in ends):
                    connection.shutdown(socket.SHUT_RDWR)


def _port(address: object) -> int | None:
    if isinstance(address, tuple) and len(address) >= 2 and isinstance(address[1], int):
        return address[1]
    return None
