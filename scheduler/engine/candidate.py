"""How an engine comes by the lease, keeps it, and knows for how long it may act on it.

No clock is ever compared with another machine's. The holder counts from before it asked for the lease, others from
when they saw it: so whoever waits until it has seen the lease unchanged for as long as it lasts finds that its holder
has stopped counting on it before.
"""

import threading
from contextlib import suppress

from scheduler.engine.ports import Clock, Leader, Lease, SeenLease, Store
from scheduler.errors import StoreUnavailable


class Candidate:
    """One engine's way to the lease. The engine's thread takes, gives and loses it; any may renew and look at it."""

    def __init__(self, store: Store, clock: Clock, holder: str, url: str | None, ttl_seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._url = url
        self._ttl_seconds = ttl_seconds
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
        #: Held while the lease is renewed or released.
        self._mutex = threading.Lock()

    def hold(self) -> Lease | None:
        """Renew the lease in time, or take it where that may be; None while another holds it. Raises `LeaseLost`."""
        if self.lease is None:
            self.lease = self._take()
        else:
            self.renew()
        return self.lease

    def renew(self) -> None:
        """Extend the lease if there is one and it is time to. Raises `LeaseLost`."""
        with self._mutex:
            if self.lease is not None and self.seconds_left() <= self._ttl_seconds * 2 / 3:
                began = self._clock.monotonic()
                self.lease = self._store.renew_lease(self.lease, self._clock.now(), self._ttl_seconds)
                self._ends_at = began + self._ttl_seconds

    def seconds_left(self) -> float:
        """How long this engine may act on its lease from now on.

        By the machine's time too: its monotonic clock stands still while it is suspended.
        """
        lease = self.lease
        if lease is None:
            return 0.0
        return min(self._ends_at - self._clock.monotonic(), lease.expires_at - self._clock.now())

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
                    self._store.release_lease(self.lease)
                self.lost()

    def _take(self) -> Lease | None:
        began = self._clock.monotonic()
        seen = self._look(began)
        others = seen.holder is not None and seen.holder != self._holder
        if others and self.outlived_in_seconds() > 0:
            self.leader = Leader(seen.holder or "", seen.term, seen.url)
            return None
        lease = self._store.acquire_lease(
            self._holder, self._clock.now(), self._ttl_seconds, url=self._url, outlived=seen if others else None
        )
        if lease is not None:
            self.outlived = seen.holder is not None
            self._ends_at = began + self._ttl_seconds
            self.leader = Leader(self._holder, lease.term, self._url)
        return lease

    def _look(self, now: float) -> SeenLease:
        """The lease as it is. Who could not look for long has not watched: the holder may have been cut off as well."""
        seen = self._store.read_lease()
        if seen != self._seen or now - self._looked_at > 2 * seen.ttl_seconds:
            self._seen_since = self._clock.monotonic()
        self._seen, self._looked_at = seen, now
        return seen
