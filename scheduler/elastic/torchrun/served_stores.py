"""Stores that rank 0 serves to the agents of a list and to their processes. Imports torch."""

import socket
from typing import NamedTuple

from torch._C._distributed_c10d import TCPStore

from scheduler.elastic.group.rendezvous_store import Meeting
from scheduler.elastic.membership.membership import Membership


class _Served(NamedTuple):
    version: tuple[int, int]
    agents: Meeting
    #: torch's own store, for processes that know of no other. It takes the keys of whoever reaches the address.
    processes: TCPStore


class ServedStores:
    """The stores of one list at a time.

    However often rank 0 tries to join a list, its stores are the same: others may know them from the first time.
    """

    def __init__(self, address: str, token: str) -> None:
        """`address`: of this machine, as the others reach it; `token`: of the job."""
        self._address = address
        self._token = token
        self._served: _Served | None = None

    def of(self, membership: Membership) -> tuple[str, str]:
        """The endpoints for agents and for processes of this list; stores of an earlier one end."""
        if self._served is None or self._served.version != membership.version:
            self.close()
            self._served = _Served(membership.version, Meeting(self._address, self._token), _serve(self._address))
        return self._served.agents.endpoint, f"{self._address}:{self._served.processes.port}"

    def close(self) -> None:
        """End the stores that are served, if any."""
        if self._served is not None:
            self._served.agents.close()
            self._served = None


def _serve(address: str) -> TCPStore:
    # The socket is made here because the store by itself would listen on every interface.
    listener = socket.create_server((address, 0))
    port: int = listener.getsockname()[1]
    return TCPStore(address, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
