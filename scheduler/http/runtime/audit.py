"""What is recorded of requests, in memory until it is written: no request waits for that, or fails by it.

Records are written about once a second, many in one transaction, and again until the store takes them. Those of the
last second are lost if the process is killed. A request that failed is recorded at once, and those alike within the
next minute as one more record; a limited number of a caller are told apart, so that whoever fails all the time fills
nothing.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog
from fastapi import Request
from starlette.types import Message, Scope, Send

from scheduler.http.auth.rules import RULES
from scheduler.http.auth.stranger import Stranger
from scheduler.model.audit import NOBODY, AuditRecord
from scheduler.model.identity import IdentifiedBy, Identity

log = structlog.get_logger(__name__)

#: Between two writes.
WRITE_SECONDS = 1.0
#: Most changes that wait for the store. More are left out, and counted in the log.
CHANGES_MAX = 10_000
#: How long requests that failed are counted together with those alike, and how many different ones are told apart of
#: each user, and of all callers together whom the daemon does not know.
ALIKE_SECONDS = 60.0
FAILURES_MAX = 100
STRANGERS_MAX = 10
OBJECT_LENGTH_MAX = 200
_FAILED = 400
_REFUSED = (401, 403)
_READS = ("GET", "HEAD", "OPTIONS")
#: Where a route leaves the name of what it has created.
_OBJECT = "sched.object"
#: What the parameters of a route name.
_NOUNS = {"job_id": "job", "recurring_id": "recurring job", "token_id": "token", "path": "queue"}


def created(request: Request, what: str) -> None:
    """Name what a request has created, for its record."""
    request.scope[_OBJECT] = what


class _Failures:
    """Requests that failed within a minute. Not safe for use from several threads."""

    def __init__(self) -> None:
        self._since = float("-inf")
        #: By what they have in common, those alike that came after the first of them.
        self._again: dict[AuditRecord, AuditRecord | None] = {}
        self._different: Counter[tuple[str, str | None]] = Counter()
        self._first: list[AuditRecord] = []

    def add(self, record: AuditRecord) -> bool:
        """Have it recorded; whether there is room for it."""
        same = replace(record, at=0.0)
        if same in self._again:
            before = self._again[same]
            self._again[same] = record if before is None else replace(before, times=before.times + record.times)
            return True
        caller = (record.known_by, None if record.known_by == NOBODY else record.user)
        if self._different[caller] >= (STRANGERS_MAX if record.known_by == NOBODY else FAILURES_MAX):
            return False
        self._different[caller] += 1
        self._again[same] = None
        self._first.append(record)
        return True

    def take(self, now: float, *, last: bool) -> list[AuditRecord]:
        """What is to be written now: the first of their kind, and once a minute, or as the last ones, the others."""
        taken, self._first = self._first, []
        if last or now - self._since >= ALIKE_SECONDS:
            taken += [again for again in self._again.values() if again is not None]
            self._since = now
            self._again.clear()
            self._different.clear()
        return taken


class AuditTrail:
    """The records that wait to be written. They are added on the event loop, and written on another thread."""

    def __init__(
        self,
        write: Callable[[Sequence[AuditRecord]], None],
        wall: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        """`wall` tells when something happened, and `monotonic` how much later something else did."""
        self._write, self._wall, self._monotonic = write, wall, monotonic
        self._lock = threading.Lock()
        self._waiting: list[AuditRecord] = []
        self._failures = _Failures()
        self._left_out = 0

    def follow(self, scope: Scope, caller: Identity | Stranger, send: Send) -> Send:
        """Pass an answer on, and record its request if it is one to record."""

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start" and _counts(scope, caller, message["status"]):
                self.add(_record(scope, caller, message["status"], self._wall()))
            await send(message)

        return recorded

    def add(self, record: AuditRecord) -> None:
        """Have a record written with the next ones."""
        with self._lock:
            if record.status >= _FAILED:
                self._left_out += not self._failures.add(record)
            else:
                self._wait([record])

    def write(self, *, last: bool = False) -> None:
        """Write what waits; as the `last` time also what is still counted. Raises `StoreError`; it waits on then."""
        with self._lock:
            self._wait(self._failures.take(self._monotonic(), last=last))
            waiting, self._waiting = self._waiting, []
        try:
            self._write(sorted(waiting, key=lambda record: record.at))
        except BaseException:
            with self._lock:
                later, self._waiting = self._waiting, waiting
                self._wait(later)
            raise
        with self._lock:
            left_out, self._left_out = self._left_out, 0
        if left_out:
            log.warning("audit: more requests than are recorded", left_out=left_out)

    def _wait(self, records: Sequence[AuditRecord]) -> None:
        room = CHANGES_MAX - len(self._waiting)
        self._waiting += records[:room]
        self._left_out += max(0, len(records) - room)


def _counts(scope: Scope, caller: Identity | Stranger, status: int) -> bool:
    """Whether a request is recorded: it changes something, or its caller is refused.

    What workers report is not; what operators send in their place is.
    """
    if status in _REFUSED:
        return True
    rule = RULES.get((scope["method"], _route(scope)))
    if scope["method"] in _READS or rule is None:
        return False
    known = isinstance(caller, Identity) and caller.by is not IdentifiedBy.NOTHING
    return rule.changes or (rule.workers and known)


def _record(scope: Scope, caller: Identity | Stranger, status: int, now: float) -> AuditRecord:
    client = scope.get("client")
    return AuditRecord(
        at=now,
        user=caller.user,
        known_by=NOBODY if isinstance(caller, Stranger) else caller.by.value,
        address=client[0] if client else "",
        method=scope["method"],
        route=_route(scope),
        object=_created(scope) if isinstance(caller, Stranger) else _object(scope),
        status=status,
    )


def _route(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "path_format", ""))


def _object(scope: Scope) -> str:
    """What the request is about: what it has created, else what its path names."""
    parameters = scope.get("path_params") or {}
    return _created(scope) or _line(", ".join(f"{_noun(scope, name)} {value}" for name, value in parameters.items()))


def _created(scope: Scope) -> str:
    """What the request has created; of a stranger's nothing else is kept, as it may be anything."""
    return _line(scope.get(_OBJECT, ""))


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:OBJECT_LENGTH_MAX])


def _noun(scope: Scope, name: str) -> str:
    if name == "name":
        return "node" if "/nodes/" in _route(scope) else "booking"
    return _NOUNS.get(name, name.removesuffix("_id"))
