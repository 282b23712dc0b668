"""Who is at the other end of a UNIX socket, as the kernel says."""

import pwd
import socket
import struct
from functools import lru_cache
from typing import Any

#: Where a connection leaves the user number of its peer, in the state of each scope.
PEER_UID = "sched.peer_uid"
_CREDENTIALS = struct.Struct("3i")
#: Numbers of users whose names are remembered.
_NAMES_MAX = 4096


def peer_uid(transport: Any) -> int | None:
    """The number of the user whose process connected; None for connections that are no UNIX sockets."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


@lru_cache(maxsize=_NAMES_MAX)
def login_of(uid: int) -> str:
    """The login of a user of this machine; its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"
