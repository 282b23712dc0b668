"""What the driver's `ssh` and a worker say to each other on one connection: a line of JSON each. Standard library only.

    ssh → worker   {"token": …, "command": […], "variables": {…}}
    worker → ssh   {"started": true}, or {"refused": why}
    worker → ssh   {"exit": status, "failed": whether the worker ends because of it}

The end of the connection is the end of the process.
"""

import json
import socket
from collections.abc import Mapping
from typing import Any, BinaryIO

LINE_BYTES_MAX = 1 << 20
#: For the first words of a connection.
HELLO_SECONDS = 10.0


def send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    """Sends one message. OSError where the other side is gone."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(lines: BinaryIO) -> dict[str, Any]:
    """The next message; empty where there is none any more. ValueError where it is none."""
    line = lines.readline(LINE_BYTES_MAX)
    if not line:
        return {}
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError(f"no message: {line[:100]!r}")
    return message


def watch_for_loss(connection: socket.socket) -> None:
    """Has the kernel find out within some 15 seconds that the other machine is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 2)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
