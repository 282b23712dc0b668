"""How an engine acquires the lease, keeps it, and knows for how long it may act on it.

No clock is ever compared with another machine's. The holder counts from before it asked for the lease, others from when
they saw it: so an engine that has seen the lease unchanged for its whole duration finds that the holder stopped
counting on it before.

The duration of the lease follows the duration of writes: a lease that ends while its holder waits for a slow disk would
let no engine act. Others read the duration in the store.
"""

import math
import threading
from contextlib import suppress

from scheduler.engine.ports import EngineClock, Leader, Lease, Place, SeenLease, Store
from scheduler.errors import StoreError, StoreUnavailable

#: A lease lasts at least this number of writes: its renewal, a commit, actions, and each of them twice as slow.
WRITES_PER_LEASE = 6
#: Longest lease, however slow the store is: after a leader has died, no other can lead until its lease ends.
LEASE_SECONDS_MAX = 120.0
#: Who stands aside leaves the lead to others for this long: each looks for it at every tick.
ASIDE_SECONDS = 10.0
#: Knowledge of slow writes fades by this share with each faster one.
FADING = 0.1


class LeaseKeeper:
    """One engine's hold on the lease. The engine's thread takes, gives and loses it; any may renew and look at it."""

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
        #: Duration of slow writes to the store.
        self.write_seconds = 0.0
        self.lease: Lease | None = None
        #: Whether the former holder, this engine's former process or another, did not give the lease back.
        self.outlived = False
        #: The leader as far as this engine knows; None: no engine leads.
        self.leader: Leader | None = None
        #: The lease at the last look.
        self._seen: SeenLease | None = None
        # Monotonic seconds: since when it has been seen as it is, the last look, and the end of our own lease.
        self._seen_since = 0.0
        self._looked_at = 0.0
        self._ends_at = 0.0
        #: The end of our own lease by the machine's time.
        self._ends_at_wall = 0.0
        #: Until when this engine leaves the lead to others; monotonic seconds.
        self._aside_until = -math.inf
        #: When this engine's tick last began, ended or went on; monotonic seconds.
        self._moved_at = clock.monotonic()
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
        """The cost of slow writes, in words; None if they cost nothing."""
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
        """Record the duration of a write to the store."""
        self.write_seconds = max(seconds, self.write_seconds + FADING * (seconds - self.write_seconds))

    def moved(self) -> None:
        """Record that this engine does not hang."""
        self._moved_at = self._clock.monotonic()

    def keep(self, idle_seconds_max: float) -> None:
        """As `renew`, as long as the engine has moved within that time: a busy engine is not dead.

        The next tick finds any failure here.
        """
        if self._clock.monotonic() - self._moved_at <= idle_seconds_max:
            with suppress(StoreError):
                self.renew()

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
        """Count our lease from the moment at which it was requested."""
        self._ends_at, self._ends_at_wall = began + ttl_seconds, wall + ttl_seconds
        self.wrote(self._clock.monotonic() - began)

    def seconds_left(self) -> float:
        """Seconds for which this engine may still act on its lease, by the clock that has gone on the farthest.

        The monotonic clock stands still while the machine is suspended, and the engine's while a virtual machine is;
        one that was set forward only costs a renewal.
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
        """How long the present holder's lease has to stay unchanged until this engine may take it."""
        if self.stands_aside:
            return self._aside_until - self._clock.monotonic()
        if self._seen is None or self._seen.holder is None:
            return 0.0
        return max(0.0, self._seen_since + self._seen.ttl_seconds - self._clock.monotonic())

    def lost(self) -> None:
        """Record that another engine has the lease."""
        self.lease = self.leader = self._seen = None

    def release(self) -> None:
        """Let another engine lead at once; if that cannot be stored, it has to outlive the lease."""
        with self._mutex:
            if self.lease is not None:
                with suppress(StoreUnavailable):
                    self._store.release_lease(self.lease, anchor=self._clock.anchor())
                self.lost()

    def stand_aside(self) -> None:
        """Let another engine lead, and take the lead again only if none does after a while."""
        self.release()
        self._aside_until = self._clock.monotonic() + ASIDE_SECONDS

    @property
    def stands_aside(self) -> bool:
        """Whether this engine leaves the lead to others, and none has taken it."""
        return self.leader is None and self._clock.monotonic() < self._aside_until

    def _take(self) -> Lease | None:
        seen = self._look(self._clock.monotonic())
        others = seen.holder is not None and seen.holder != self._holder
        if others and self.outlived_in_seconds() > 0:
            self.leader = Leader(seen.holder or "", seen.term, seen.url)
            return None
        self.leader = None
        if self.stands_aside:
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
        """The lease as it is. A long gap between looks restarts the watch: the holder may have been cut off as well."""
        seen = self._store.read_lease()
        self._clock.follow(seen.anchor)
        if seen != self._seen or now - self._looked_at > 2 * seen.ttl_seconds:
            self._seen_since = self._clock.monotonic()
        self._seen, self._looked_at = seen, now
        return seen
