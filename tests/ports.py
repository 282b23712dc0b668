"""Ports for servers that have to be told theirs before they start."""

import itertools
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
#: Processes of the tests that have ports of their own, and which of them this one is.
_PROCESSES = 14
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
_turns = itertools.count(secrets.randbelow(10_000))


def jobs_first() -> int:
    """The first port that daemons of this process give to jobs: daemons choose by a job's id alone, which others have.

    Those of one process have their jobs one after the other.
    """
    return _JOBS + JOBS_COUNT * _PROCESS


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses, no other process of the tests takes, and no connection gets by itself."""
    first_of_connections = int(_RANGE.read_text().split()[0])
    own = max(min(first_of_connections, _JOBS_BY_DEFAULT) - _LOWEST, 100 * _PROCESSES) // _PROCESSES
    while True:
        port = _LOWEST + own * _PROCESS + next(_turns) % own
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
