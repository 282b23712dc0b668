"""Where the members of a generation meet: a store that its rank 0 serves. Imports torch."""

import socket
import time
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import urlsplit

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from scheduler.elastic.agent import Agent
from scheduler.elastic.alone import Alone
from scheduler.elastic.errors import Superseded
from scheduler.elastic.membership import Membership
from scheduler.elastic.sockets import Connections

#: Once all members have met, connecting them takes milliseconds; longer means that one died in between.
CONNECT_SECONDS = 5.0
_MEET_SECONDS = (0.001, 0.02)
#: For a first connection to rank 0's store; doubles with each that fails.
_PATIENCE_SECONDS = 0.25
_REFRESH_SECONDS = 0.1
#: Who has come is looked up so often while some have not.
_LOOK_SECONDS = 1.0

#: Takes the ranks that have not come.
Missing = Callable[[frozenset[int]], None]


class Meeting:
    """This worker's own store, through which a group meets where this worker is its rank 0."""

    def __init__(self, address: str, remote_ports: frozenset[int] = frozenset()) -> None:
        # The socket is made here because the store by itself would listen on every interface.
        listener = socket.create_server((address, 0))
        self._port: int = listener.getsockname()[1]
        self._remote_ports = remote_ports
        self.endpoint = f"{address}:{self._port}"
        # It serves as long as it lives.
        self._store = TCPStore(
            address, self._port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
        )

    def connections(self, peers: frozenset[str] = frozenset()) -> Connections:
        """To keep account of what a group opens from now on. `peers`: `host:port` where workers answer each other."""
        return Connections(frozenset({self._port}), self._remote_ports, peers)


def connect(endpoint: str, patience_seconds: float = CONNECT_SECONDS) -> Store:
    """A connection of its own, which can be shut, to the store that a worker serves.

    OSError or RuntimeError where none answers. torch retries a refused connection until its patience ends, and the
    server may die right after the look whether somebody listens: the caller, who has a newer list to look for
    meanwhile, should begin with little patience.
    """
    parts = urlsplit(f"//{endpoint}")
    host, port = parts.hostname or "", parts.port or 0
    socket.create_connection((host, port), timeout=patience_seconds).close()
    store = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=patience_seconds))
    store.set_timeout(timedelta(seconds=CONNECT_SECONDS))
    return store


def meet(
    endpoint: str | None,
    membership: Membership,
    rank: int,
    attempt: int,
    still_wanted: Callable[[], bool],
    missing: Missing | None = None,
) -> Store:
    """Waits at rank 0's store until all members have come; returns a part of that store for them alone.

    Args:
        endpoint: of the store that rank 0 serves; None while it is not known.
        attempt: how often this generation's group broke before; the same on all ranks.
        still_wanted: asked again and again, so that a member who died does not hold up the others.
        missing: told every second who has not come, as long as rank 0's store answers.
    Raises:
        Superseded: `still_wanted` said no.
    """
    store: Store | None = None
    looked_at = time.monotonic()
    pause, longest = _MEET_SECONDS
    patience = _PATIENCE_SECONDS
    others = [f"came/{other}" for other in range(1, membership.size)]
    while still_wanted():
        try:
            if store is None and endpoint is not None:
                prefix = f"generation-{membership.name}/attempt-{attempt}"
                store = PrefixStore(prefix, connect(endpoint, patience))
                store.set(f"came/{rank}", "1")
            if store is not None and rank == 0 and (not others or store.check(others)):
                store.set("all", "1")
                return store
            if store is not None and rank != 0 and store.check(["all"]):
                return store
            if store is not None and missing is not None and time.monotonic() - looked_at >= _LOOK_SECONDS:
                missing(frozenset(other for other in range(membership.size) if not store.check([f"came/{other}"])))
                looked_at = time.monotonic()
        except (OSError, RuntimeError):
            # Rank 0 is not listening, or no more: it comes back or a newer list replaces it.
            store = None
            patience = min(2 * patience, CONNECT_SECONDS)
        time.sleep(pause)
        pause = min(pause * 1.5, longest)
    raise Superseded


def worth_meeting(
    agent: Agent | Alone, membership: Membership, rank: int, endpoint: str | None, look: Callable[[], None]
) -> Callable[[], bool]:
    """Tells `meet` whether its list is the newest still, and asks for the endpoint where that is not known.

    Args:
        look: called each time; it may raise where the worker has to go.
    """
    refreshed_at = 0.0

    def still_wanted() -> bool:
        nonlocal refreshed_at
        look()
        if endpoint is None and time.monotonic() - refreshed_at > _REFRESH_SECONDS:
            agent.refresh()
            refreshed_at = time.monotonic()
        newest = agent.membership()
        if newest is None or newest.version < membership.version:
            return True
        # A list handed on by a peer may be newer than the own one; the same one may have learnt its rendezvous.
        return newest.version == membership.version and (rank == 0 or newest.rendezvous == endpoint)

    return still_wanted
