"""Ports for servers that have to be told theirs before they start."""

import secrets
import socket
from pathlib import Path

_LOWEST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses, and that no connection gets by itself until the server has come."""
    first_of_connections = int(_RANGE.read_text().split()[0])
    while True:
        port = _LOWEST + secrets.randbelow(max(first_of_connections - _LOWEST, 1_000))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
