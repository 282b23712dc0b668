"""Who is at the other end of a UNIX socket, as the kernel says."""

import socket
import struct
from typing import Any

from starlette.types import Scope

#: Where a connection leaves the user number of its peer, in the state of each scope.
PEER_UID = "sched.peer_uid"
_CREDENTIALS = struct.Struct("3i")


def peer_uid(transport: Any) -> int | None:
    """The number of the user whose process connected; None for connections that are no UNIX sockets."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def uid_in(scope: Scope) -> int | None:
    """The number of the user who sent a request by the UNIX socket; None: it came by an address."""
    uid: int | None = scope.get("state", {}).get(PEER_UID)
    return uid


def peer_name(uid: int) -> str:
    """What stands for the address of a process of this user."""
    return f"uid:{uid}"
