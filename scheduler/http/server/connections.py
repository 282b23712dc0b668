"""All open connections: their phases, the deadlines of these, and the choice of one to close when there are too many.

A connection that is idle, or has not sent a complete request yet, costs its peer nothing. So a new one is never refused
in favour of such a connection: the one that has waited longest is closed. Connections with a request under way stay.
"""

import resource
from collections import Counter, OrderedDict
from enum import Enum
from typing import Protocol

from scheduler.config import HttpSettings
from scheduler.http.auth.access import is_loopback

#: Share of the process's open files; the rest is for the store, the cluster, and connections not accepted yet.
FILES_SHARE = 0.625
#: Limit on the memory for answers that clients do not read.
UNTAKEN_BYTES_MAX = 64 * 1024 * 1024
#: Connections closed at a time: a burst that is closed at once would return at once.
SWEPT_MAX = 100
#: Time in which the peer reads why its connection ends.
LEAVING_SECONDS = 5.0


#: Causes of ended connections: timeout of a head, of a body, or of reading answers; displaced by another; no place.
ENDS = ("head", "body", "untaken", "crowded", "refused")


class Phase(Enum):
    """The action of its peer that a connection waits for."""

    #: The head of a request: its first line and its headers.
    HEAD = "head"
    #: Another request, or the close by the peer.
    IDLE = "idle"
    #: The rest of a request's body.
    BODY = "body"
    #: The peer was told that its connection ends.
    LEAVING = "leaving"


class Connection(Protocol):
    """A connection as the table sees it. Compared by identity."""

    @property
    def peer(self) -> str:
        """Address of the client, or the user at the UNIX socket; empty where there is none."""
        ...

    @property
    def used_at(self) -> float:
        """When it was last used, where its phase does not show it."""
        ...

    @property
    def untaken_bytes(self) -> int:
        """Bytes that were written and not read by the peer yet."""
        ...

    def give_way(self) -> None:
        """End at once."""
        ...

    def refuse(self) -> None:
        """Answer that there is no room, and end."""
        ...

    def expire(self, phase: Phase) -> None:
        """End because the peer has taken too long."""
        ...


class Connections:
    """The table of open connections. Used on the event loop only, with the loop's clock."""

    def __init__(self, settings: HttpSettings) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = int(soft * FILES_SHARE) if soft != resource.RLIM_INFINITY else settings.connections_max
        self._max = min(settings.connections_max, files)
        self._per_peer_max = settings.connections_per_peer_max
        #: Deadline of each phase; None: it has none here.
        self._seconds: dict[Phase, float | None] = {
            Phase.HEAD: settings.header_seconds,
            Phase.IDLE: None,
            Phase.BODY: settings.body_seconds,
            Phase.LEAVING: LEAVING_SECONDS,
        }
        self._take_seconds = settings.body_seconds
        self._phases: dict[Connection, Phase | None] = {}
        self._waiting: dict[Phase, OrderedDict[Connection, float]] = {phase: OrderedDict() for phase in Phase}
        self._blocked: OrderedDict[Connection, float] = OrderedDict()
        self._of_peer: Counter[str] = Counter()
        #: Connections that were ended by the server, by cause.
        self.ended = dict.fromkeys(ENDS, 0)

    def __len__(self) -> int:
        return len(self._phases)

    def open(self, connection: Connection, now: float) -> None:
        """Add a new connection, which waits for a request. For lack of room another one is ended, or it is refused."""
        self._phases[connection] = None
        self._of_peer[connection.peer] += 1
        if len(self._phases) > self._max:
            room = self._make_room()
        else:
            # A peer at its limit is not refused while there is room for others.
            room = True
            if self._of_peer[connection.peer] > self._per_peer_max and not is_loopback(connection.peer):
                self._make_room(connection.peer)
        if room:
            self.enter(connection, Phase.HEAD, now)
        else:
            self.ended["refused"] += 1
            connection.refuse()

    def close(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        if connection not in self._phases:
            return
        self.enter(connection, None, 0.0)
        self.taken(connection)
        del self._phases[connection]
        self._of_peer[connection.peer] -= 1
        if not self._of_peer[connection.peer]:
            del self._of_peer[connection.peer]

    def enter(self, connection: Connection, phase: Phase | None, now: float) -> None:
        """Set the phase of a connection; None: it waits for the server. An unchanged phase keeps its deadline."""
        before = self._phases.get(connection)
        if phase is before or connection not in self._phases:
            return
        if before is not None:
            del self._waiting[before][connection]
        self._phases[connection] = phase
        if phase is not None:
            self._waiting[phase][connection] = now

    def untaken(self, connection: Connection, now: float) -> None:
        """Note that the peer does not read answers. If all unread answers exceed their limit, the first ones end."""
        self._blocked.setdefault(connection, now)
        held = sum(each.untaken_bytes for each in self._blocked)
        while held > UNTAKEN_BYTES_MAX and len(self._blocked) > 1:
            first = next(iter(self._blocked))
            held -= first.untaken_bytes
            self._end(first, "untaken")

    def taken(self, connection: Connection) -> None:
        """Note that the peer reads answers again."""
        self._blocked.pop(connection, None)

    def sweep(self, now: float) -> None:
        """End connections whose deadline has passed."""
        for phase, seconds in self._seconds.items():
            for _ in range(SWEPT_MAX):
                late = None if seconds is None else _first_before(self._waiting[phase], now - seconds)
                if late is None:
                    break
                if phase is not Phase.LEAVING:
                    self.ended[phase.value] += 1
                self.enter(late, None, now)
                late.expire(phase)
        while (late := _first_before(self._blocked, now - self._take_seconds)) is not None:
            self._end(late, "untaken")

    def _make_room(self, peer: str | None = None) -> bool:
        """End the longest waiting connection (of the peer); return whether there was one."""
        for phase in (Phase.LEAVING, Phase.HEAD, Phase.IDLE, Phase.BODY):
            found = self._longest_waiting(phase, peer)
            if found is not None:
                self._end(found, "crowded")
                return True
        return False

    def _longest_waiting(self, phase: Phase, peer: str | None) -> Connection | None:
        waiting = self._waiting[phase]
        if peer is not None:
            return next((each for each in waiting if each.peer == peer), None)
        while waiting:
            first, since = next(iter(waiting.items()))
            if first.used_at <= since:
                return first
            # It was used meanwhile: its time counts from then on; each connection is moved at most once per use.
            waiting[first] = first.used_at
            waiting.move_to_end(first)
        return None

    def _end(self, connection: Connection, why: str) -> None:
        self.ended[why] += 1
        self.close(connection)
        connection.give_way()


def _first_before(waiting: OrderedDict[Connection, float], at: float) -> Connection | None:
    """The first connection, if it has waited since that time or longer."""
    for connection, since in waiting.items():
        return connection if since <= at else None
    return None
