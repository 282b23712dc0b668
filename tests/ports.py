"""Ports for servers that have to be told theirs before they start."""

import os
import secrets
import socket
from pathlib import Path

from scheduler.config import EngineSettings

_LOWEST = 10_000
#: From here on daemons give ports to jobs where nobody says otherwise.
_JOBS_BY_DEFAULT = EngineSettings().master_port_first
#: Where those of jobs begin, and how many each process of the tests has for its daemons.
_JOBS = 29_000
JOBS_COUNT = 250
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def jobs_first() -> int:
    """The first port that daemons of this process give to jobs: daemons choose by a job's id alone, which others have.

    Those of one process have their jobs one after the other.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return _JOBS + JOBS_COUNT * (process % 14)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses, and that no connection gets by itself until the server has come."""
    first_of_connections = int(_RANGE.read_text().split()[0])
    count = min(first_of_connections, _JOBS_BY_DEFAULT) - _LOWEST
    while True:
        port = _LOWEST + secrets.randbelow(max(count, 1_000))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
