"""How an engine comes by the lease, keeps it, and knows for how long it may act on it.

No clock is ever compared with another machine's. The holder counts from before it asked for the lease, others from
when they saw it: so whoever waits until it has seen the lease unchanged for as long as it lasts finds that its holder
has stopped counting on it before.

How long the lease lasts follows what writes take: a lease that ends while its holder waits for a slow disk would let
nobody act. Others read in the store how long it lasts.
"""

import threading
from contextlib import suppress

from scheduler.engine.ports import EngineClock, Leader, Lease, Place, SeenLease, Store
from scheduler.errors import StoreUnavailable

#: A lease lasts at least as long as so many writes: its renewal, a commit, actions, and each of them twice as slow.
WRITES_PER_LEASE = 6
#: However slow the store is: nobody else may lead for so long after a leader has died.
LEASE_SECONDS_MAX = 120.0
#: What is known of slow writes fades by this share with each faster one.
FADING = 0.1


class LeaseKeeper:
    """One engine's way to the lease. The engine's thread takes, gives and loses it; any may renew and look at it."""

    def __init__(
        self,
        store: Store,
        clock: EngineClock,
        holder: str,
        url: str | None,
        ttl_seconds: float,
        place: Place | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._url = url
        self._place = place
        self._ttl_seconds_min = ttl_seconds
        #: What slow writes to the store take.
        self.write_seconds = 0.0
        self.lease: Lease | None = None
        #: Whether whoever held the lease before, this one's former process or another, did not give it back.
        self.outlived = False
        #: As this engine knows it; None: nobody leads.
        self.leader: Leader | None = None
        #: The lease at the last look.
        self._seen: SeenLease | None = None
        # Monotonic seconds: since when it has been seen as it is, the last look, and the end of our own lease.
        self._seen_since = 0.0
        self._looked_at = 0.0
        self._ends_at = 0.0
        #: The end of our own lease by the machine's time.
        self._ends_at_wall = 0.0
        #: Held while the lease is renewed or released.
        self._mutex = threading.Lock()

    def hold(self) -> Lease | None:
        """Renew the lease in time, or take it where that may be; None while another holds it. Raises `LeaseLost`."""
        if self.lease is None:
            self.lease = self._take()
        else:
            self.renew()
        return self.lease

    @property
    def ttl_seconds(self) -> float:
        """How long the lease lasts after a renewal."""
        return min(max(self._ttl_seconds_min, self.write_seconds * WRITES_PER_LEASE), self._ttl_seconds_max)

    def slowness(self) -> str | None:
        """What slow writes cost, for people; None if they cost nothing."""
        if self.ttl_seconds <= self._ttl_seconds_min:
            return None
        return (
            f"writes to the database take {self.write_seconds:.1f} s: "
            f"a leader that dies is replaced only after {self.ttl_seconds:.0f} s"
        )

    def trouble(self, *, late: bool) -> str | None:
        """Why the lease cannot be kept; None if it can. `late`: it ended before anything could be done on it."""
        writes = f"writes to the database take {self.write_seconds:.1f} s"
        if late:
            return f"the lease ended before workers could be started or stopped: {writes}"
        if self.write_seconds * WRITES_PER_LEASE > self._ttl_seconds_max:
            return f"{writes}: too long to keep the lead, which lasts {self._ttl_seconds_max:g} s at most"
        return None

    @property
    def _ttl_seconds_max(self) -> float:
        return max(self._ttl_seconds_min, LEASE_SECONDS_MAX)

    def wrote(self, seconds: float) -> None:
        """A write to the store took so long."""
        self.write_seconds = max(seconds, self.write_seconds + FADING * (seconds - self.write_seconds))

    def renew(self) -> None:
        """Extend the lease if there is one and it is time to. Raises `LeaseLost`."""
        with self._mutex:
            if self.lease is not None and self.seconds_left() <= self.ttl_seconds * 2 / 3:
                ttl_seconds, began, wall = self.ttl_seconds, self._clock.monotonic(), self._clock.wall()
                self.lease = self._store.renew_lease(
                    self.lease, self._clock.now(), ttl_seconds, anchor=self._clock.anchor()
                )
                self._counts_from(began, wall, ttl_seconds)

    def _counts_from(self, began: float, wall: float, ttl_seconds: float) -> None:
        """The lease was asked for at that moment, and is ours."""
        self._ends_at, self._ends_at_wall = began + ttl_seconds, wall + ttl_seconds
        self.wrote(self._clock.monotonic() - began)

    def seconds_left(self) -> float:
        """How long this engine may act on its lease from now on: by the clock that has gone on the farthest.

        The monotonic one stands still while the machine is suspended, and the engine's while a virtual machine is; one
        that was set forward costs but a renewal.
        """
        lease = self.lease
        if lease is None:
            return 0.0
        clock = self._clock
        by_wall = self._ends_at_wall - clock.wall()
        return min(self._ends_at - clock.monotonic(), lease.expires_at - clock.now(), by_wall)

    @property
    def revision_seen(self) -> int:
        """The newest commit at the last look."""
        return 0 if self._seen is None else self._seen.revision

    def outlived_in_seconds(self) -> float:
        """How long the lease of the present holder has to stay as it is until another may take it."""
        if self._seen is None or self._seen.holder is None:
            return 0.0
        return max(0.0, self._seen_since + self._seen.ttl_seconds - self._clock.monotonic())

    def lost(self) -> None:
        """Another has it."""
        self.lease = self.leader = self._seen = None

    def release(self) -> None:
        """Let another engine lead at once; where that cannot be told, it has to outlive the lease."""
        with self._mutex:
            if self.lease is not None:
                with suppress(StoreUnavailable):
                    self._store.release_lease(self.lease, anchor=self._clock.anchor())
                self.lost()

    def _take(self) -> Lease | None:
        seen = self._look(self._clock.monotonic())
        others = seen.holder is not None and seen.holder != self._holder
        if others and self.outlived_in_seconds() > 0:
            self.leader = Leader(seen.holder or "", seen.term, seen.url)
            return None
        ttl_seconds, began, wall = self.ttl_seconds, self._clock.monotonic(), self._clock.wall()
        lease = self._store.acquire_lease(
            self._holder,
            self._clock.now(),
            ttl_seconds,
            url=self._url,
            outlived=seen if others else None,
            anchor=self._clock.anchor(),
            place=self._place,
        )
        if lease is not None:
            self.outlived = seen.holder is not None
            self._counts_from(began, wall, ttl_seconds)
            self.leader = Leader(self._holder, lease.term, self._url)
        return lease

    def _look(self, now: float) -> SeenLease:
        """The lease as it is. Who could not look for long has not watched: the holder may have been cut off as well."""
        seen = self._store.read_lease()
        self._clock.follow(seen.anchor)
        if seen != self._seen or now - self._looked_at > 2 * seen.ttl_seconds:
            self._seen_since = self._clock.monotonic()
        self._seen, self._looked_at = seen, now
        return seen
