"""Where the members of a generation meet: a store that its rank 0 serves. Imports torch."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from torch._C._distributed_c10d import Store

from scheduler.elastic.errors import Superseded
from scheduler.elastic.group.signed_store import SignedStore, StoreServer
from scheduler.elastic.group.sockets import Connections
from scheduler.elastic.membership.agent import Agent, Order
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.standalone import Alone

#: Once all members have met, connecting them takes milliseconds; longer means that one died in between.
CONNECT_SECONDS = 5.0
_MEET_SECONDS = (0.001, 0.02)
#: How often all members together ask whether all have come: rank 0 answers beside what it computes.
_QUESTIONS_PER_SECOND_MAX = 5000
#: For a first connection to rank 0's store; doubles with each that fails.
_PATIENCE_SECONDS = 0.25
_REFRESH_SECONDS = 0.1
#: Who has come is looked up so often while some have not.
_LOOK_SECONDS = 1.0

#: Takes a function that finds the ranks that have not come.
Missing = Callable[[Callable[[], frozenset[int]]], None]


class Meeting:
    """This worker's own store, through which a group meets where this worker is its rank 0."""

    def __init__(self, address: str, token: str, remote_ports: frozenset[int] = frozenset()) -> None:
        """`token` is the job's: the store serves those alone who know it."""
        self._server = StoreServer(address, token)
        self._remote_ports = remote_ports
        self.token = token
        self.endpoint = self._server.endpoint

    def close(self) -> None:
        """Ends the store: whoever waits at it gets an error."""
        self._server.close()

    def connections(self, peers: frozenset[str] = frozenset()) -> Connections:
        """To keep account of what a group opens from now on. `peers`: `host:port` where workers answer each other."""
        return Connections(frozenset({self._server.port}), self._remote_ports, peers)


def connect(endpoint: str, token: str, patience_seconds: float = CONNECT_SECONDS, prefix: str = "") -> SignedStore:
    """A connection of its own, which can be shut, to the store that a worker serves.

    OSError or RuntimeError where none answers, or one of another job. The caller, who has a newer list to look for
    meanwhile, should begin with little patience.
    """
    store = SignedStore(endpoint, token, patience_seconds, prefix)
    store.set_timeout(timedelta(seconds=CONNECT_SECONDS))
    return store


def meet(
    endpoint: str | None,
    token: str,
    membership: Membership,
    rank: int,
    attempt: int,
    still_wanted: Callable[[], bool],
    missing: Missing | None = None,
) -> SignedStore:
    """Waits at rank 0's store until all members have come; returns a part of that store for them alone.

    Args:
        endpoint: of the store that rank 0 serves; None while it is not known.
        token: of the job.
        attempt: how often this generation's group broke before; the same on all ranks.
        still_wanted: asked again and again, so that a member who died does not hold up the others.
        missing: told every second how to find who has not come, as long as rank 0's store answers.
    Raises:
        Superseded: `still_wanted` said no.
    """
    store: SignedStore | None = None
    looked_at = time.monotonic()
    pause, longest = _MEET_SECONDS
    longest = max(longest, membership.size / _QUESTIONS_PER_SECOND_MAX)
    patience = _PATIENCE_SECONDS
    others = [f"came/{other}" for other in range(1, membership.size)]
    while still_wanted():
        try:
            if store is None and endpoint is not None:
                store = connect(endpoint, token, patience, f"generation-{membership.name}/attempt-{attempt}/")
                store.set(f"came/{rank}", "1")
            if store is not None and rank == 0 and (not others or store.check(others)):
                store.set("all", "1")
                return store
            if store is not None and rank != 0 and store.check(["all"]):
                return store
            if store is not None and missing is not None and time.monotonic() - looked_at >= _LOOK_SECONDS:
                missing(partial(absent, store, "came", range(membership.size)))
                looked_at = time.monotonic()
        except (OSError, RuntimeError):
            # Rank 0 is not listening, or no more: it comes back or a newer list replaces it.
            store = None
            patience = min(2 * patience, CONNECT_SECONDS)
        time.sleep(pause)
        pause = min(pause * 1.5, longest)
    if store is not None:
        store.close()
    raise Superseded


def absent(store: Store, what: str, ranks: Sequence[int]) -> frozenset[int]:
    """The ranks that have not set this key of theirs: few questions where most of them have."""
    if not ranks or store.check([f"{what}/{rank}" for rank in ranks]):
        return frozenset()
    if len(ranks) == 1:
        return frozenset(ranks)
    half = len(ranks) // 2
    return absent(store, what, ranks[:half]) | absent(store, what, ranks[half:])


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
            return agent.order(membership.generation) is not Order.MOVE
        # A list handed on by a peer may be newer than the own one; the same one may have learnt its rendezvous.
        return newest.version == membership.version and (rank == 0 or newest.rendezvous == endpoint)

    return still_wanted
