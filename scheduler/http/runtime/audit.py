"""What is recorded of requests, in memory until it is written: no request waits for that, or fails by it.

Records are written about once a second, many in one transaction, and again until the store takes them. Those of the
last second are lost if the process is killed. Refusals of the same request within that time are one record, so that
whoever is refused all the time fills nothing.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog
from fastapi import Request
from starlette.types import Message, Scope, Send

from scheduler.http.auth.access import Stranger
from scheduler.http.auth.rules import RULES
from scheduler.model.audit import AuditRecord
from scheduler.model.identity import Identity

log = structlog.get_logger(__name__)

#: Between two writes.
WRITE_SECONDS = 1.0
#: Most changes that wait for the store, and most different refusals. More are left out, and counted in the log.
CHANGES_MAX = 10_000
REFUSALS_MAX = 100
OBJECT_LENGTH_MAX = 200
_REFUSED = (401, 403)
_READS = ("GET", "HEAD", "OPTIONS")
#: Where a route leaves the name of what it has created.
_OBJECT = "sched.object"
#: What the parameters of a route name.
_NOUNS = {"job_id": "job", "recurring_id": "recurring job", "token_id": "token"}


def created(request: Request, what: str) -> None:
    """Name what a request has created, for its record."""
    request.scope[_OBJECT] = what


class AuditTrail:
    """The records that wait to be written. They are added on the event loop, and written on another thread."""

    def __init__(self, write: Callable[[Sequence[AuditRecord]], None], now: Callable[[], float]) -> None:
        self._write, self._now = write, now
        self._lock = threading.Lock()
        self._changes: list[AuditRecord] = []
        #: By what they have in common.
        self._refusals: dict[AuditRecord, AuditRecord] = {}
        self._left_out = 0

    def follow(self, scope: Scope, caller: Identity | Stranger, send: Send) -> Send:
        """Pass an answer on, and record its request if it is one to record."""

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start" and _counts(scope, message["status"]):
                self.add(_record(scope, caller, message["status"], self._now()))
            await send(message)

        return recorded

    def add(self, record: AuditRecord) -> None:
        """Have a record written with the next ones."""
        with self._lock:
            if record.status not in _REFUSED:
                self._left_out += len(self._changes) >= CHANGES_MAX
                self._changes += [record] if len(self._changes) < CHANGES_MAX else []
                return
            same = replace(record, at=0.0)
            before = self._refusals.get(same)
            if before is not None:
                self._refusals[same] = replace(before, times=before.times + 1)
            elif len(self._refusals) < REFUSALS_MAX:
                self._refusals[same] = record
            else:
                self._left_out += 1

    def write(self) -> None:
        """Write what waits. Raises `StoreError`; it waits on then."""
        with self._lock:
            changes, self._changes = self._changes, []
            refusals, self._refusals = self._refusals, {}
            left_out, self._left_out = self._left_out, 0
        try:
            self._write(sorted([*changes, *refusals.values()], key=lambda record: record.at))
        except BaseException:
            with self._lock:
                self._changes = [*changes, *self._changes][:CHANGES_MAX]
                self._refusals = {**self._refusals, **refusals}
                self._left_out += left_out
            raise
        if left_out:
            log.warning("audit: more requests than are recorded", left_out=left_out)


def _counts(scope: Scope, status: int) -> bool:
    """Whether a request is recorded: it changes something, or its caller is refused."""
    if status in _REFUSED:
        return True
    rule = RULES.get((scope["method"], _route(scope)))
    return scope["method"] not in _READS and rule is not None and rule.changes


def _record(scope: Scope, caller: Identity | Stranger, status: int, now: float) -> AuditRecord:
    client = scope.get("client")
    return AuditRecord(
        at=now,
        user=caller.user,
        known_by="nobody" if isinstance(caller, Stranger) else caller.by.value,
        address=client[0] if client else "socket",
        method=scope["method"],
        route=_route(scope),
        object=_object(scope),
        status=status,
    )


def _route(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "path", ""))


def _object(scope: Scope) -> str:
    """What the request is about: what it has created, else what its path names."""
    found = scope.get(_OBJECT)
    if found is None:
        parameters = scope.get("path_params") or {}
        found = ", ".join(f"{_noun(scope, name)} {value}" for name, value in parameters.items())
    return "".join(c if c.isprintable() else "?" for c in str(found)[:OBJECT_LENGTH_MAX])


def _noun(scope: Scope, name: str) -> str:
    if name == "name":
        return "node" if "/nodes/" in _route(scope) else "booking"
    return _NOUNS.get(name, name.removesuffix("_id"))
