"""`GET /v1/live`: the cluster as server-sent events, first the whole picture, then its changes.

A picture is made at most once per change for all listeners, on a thread of its own, and only while somebody listens;
no listener has a thread or a queue. A listener that is slow, or reconnects after a while, gets the changes since its
last picture together, or the whole picture if they are no longer kept.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from scheduler import __version__
from scheduler.errors import StoreError
from scheduler.http.auth.authorize import still_known
from scheduler.http.errors import ErrorCode, Refusal, documented
from scheduler.http.live.snapshot import NO_PICTURE, Drawer, Snapshot, difference, whole
from scheduler.http.routes.cluster import leader_view
from scheduler.http.runtime.wall_time import in_wall_time
from scheduler.http.schemas.views import EventView, event_view
from scheduler.http.services import Services, ServicesDep

router = APIRouter(tags=["cluster"])

#: Between two pictures.
GAP_SECONDS = 0.2
#: How often facts without events are looked at: the leader, foreign use of nodes.
LOOK_SECONDS = 1.0
#: Longest silence on a stream, so that both ends notice when the other is gone.
ALIVE_SECONDS = 10.0
LISTENERS_MAX = 500
#: Changes that are kept for slow listeners.
CHANGES_MAX = 32
#: Newest events in a whole picture, and most events in a change.
EVENTS_MAX = 100

_ALIVE = b": alive\n\n"
#: Characters that some clients take for the end of a line, with their JSON escapes.
_LINE_ENDS = tuple((character.encode(), f"\\u{ord(character):04x}".encode()) for character in "\x85\u2028\u2029")


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture with its surroundings."""

    revision: int = 0
    #: The leader, and why no decisions are made.
    head: dict[str, Any] = field(default_factory=dict)
    snapshot: Snapshot = NO_PICTURE
    #: Newest last.
    events: tuple[EventView, ...] = ()
    #: Id of the last event that was seen; None: none was read yet.
    event_id: int | None = None
    #: The whole frame, and the change from the frame before, as they are sent.
    whole: bytes = b""
    change: bytes = b""
    #: How far the moments in the frame are ahead of the engine's clock.
    ahead_seconds: float = 0.0


class Live:
    """The pictures of one daemon. Used on the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._frame = Frame()
        self._drawer = Drawer()
        #: Revisions and the change that led to each; of pictures only the newest is kept.
        self._changes: deque[tuple[int, bytes]] = deque(maxlen=CHANGES_MAX)
        self._making = asyncio.Lock()
        self._made_at = float("-inf")
        #: Number of listeners, by address.
        self.listeners: Counter[str] = Counter()
        #: Identifies this run of the daemon; revisions of other runs mean nothing here.
        self._run = f"{int(services.clock.now() * 1000):x}"

    def has_place(self, peer: str) -> bool:
        """Whether one more may listen from there: no address has more places than are still free."""
        return self.listeners[peer] < LISTENERS_MAX - self.listeners.total()

    async def stream(
        self, peer: str, last_seen: str, seconds: float, known: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Yield frames for one listener for `seconds`, starting after the id that it saw last.

        `known`: whether the daemon still knows who listens; the stream ends once it does not.
        """
        notifier = self._services.events_bell
        until = notifier.time() + seconds
        seen, sent_at, begun = self._revision(last_seen), notifier.time(), False
        self.listeners[peer] += 1
        try:
            while not notifier.closed and known():
                with notifier.listen(None) as ring:
                    await self._renew(at_once=seen == 0)
                    news = self._since(seen) or (b"" if begun else self._nothing_new())
                    begun = True
                    # While this is sent, other listeners may get a newer frame.
                    seen = self._frame.revision
                    if news or notifier.time() - sent_at >= ALIVE_SECONDS:
                        yield news or _ALIVE
                        sent_at = notifier.time()
                    left = until - notifier.time()
                    if left <= 0:
                        return
                    await notifier.rung(ring, min(left, LOOK_SECONDS))
        finally:
            self.listeners[peer] -= 1
            self.listeners += Counter()  # drops addresses without listeners

    def _revision(self, last_seen: str) -> int:
        run, _, revision = last_seen.partition("-")
        return int(revision) if run == self._run and revision.isdecimal() and len(revision) < 16 else 0

    def _since(self, seen: int) -> bytes:
        if seen == self._frame.revision:
            return b""
        changes = [change for revision, change in self._changes if revision > seen]
        reaches_back = seen > 0 and len(changes) == self._frame.revision - seen
        return b"".join(changes) if reaches_back else self._frame.whole

    def _nothing_new(self) -> bytes:
        """A change of the time alone: who comes back hears at once that what was seen last still holds."""
        name = f"{self._run}-{self._frame.revision}"
        return _message("change", name, self._services.clock.now(), {}, self._services.ahead_seconds())

    async def _renew(self, *, at_once: bool) -> None:
        """Make the frame no older than this call, or with `at_once` no older than the gap between two."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        wanted_at = asked_at - GAP_SECONDS if at_once else asked_at
        async with self._making:
            if self._made_at >= wanted_at:
                return
            await asyncio.sleep(max(0.0, self._made_at + GAP_SECONDS - asked_at))
            made_at = loop.time()
            frame = await run_in_threadpool(next_frame, self._services, self._drawer, self._frame, self._run)
            self._made_at = made_at
            if frame.revision != self._frame.revision:
                self._frame = frame
                self._changes.append((frame.revision, frame.change))


def next_frame(services: Services, drawer: Drawer, before: Frame, run: str) -> Frame:
    """The present frame, with the next revision, or the one before if nothing changed. One thread at a time."""
    now, world, shares = services.clock.now(), services.board.world, services.board.shares
    # While no world is known the last picture stays, under a line that says why.
    snapshot = before.snapshot if world is None else drawer.draw(world, shares, services.settings.policy, now)
    head = _head(services)
    events = _new_events(services, before.event_id)
    change: dict[str, Any] = difference(before.snapshot, snapshot)
    if head != before.head:
        change["head"] = head
    if events:
        change["events"] = events
    if not change and before.revision and abs(services.ahead_seconds() - before.ahead_seconds) <= 1.0:
        return before
    kept = (*before.events, *events)[-EVENTS_MAX:]
    frame = Frame(before.revision + 1, head, snapshot, kept, events[-1]["id"] if events else before.event_id or 0)
    name, ahead_seconds = f"{run}-{frame.revision}", services.ahead_seconds()
    all_of_it = _message("picture", name, now, {**whole(snapshot), "head": head, "events": kept}, ahead_seconds)
    if abs(ahead_seconds - before.ahead_seconds) > 1.0:  # all moments are others
        return replace(frame, whole=all_of_it, change=all_of_it, ahead_seconds=ahead_seconds)
    changed = _message("change", name, now, change, ahead_seconds)
    return replace(frame, whole=all_of_it, change=changed, ahead_seconds=before.ahead_seconds)


def _head(services: Services) -> dict[str, Any]:
    return {
        "version": __version__,
        "term": services.term(),
        "leader": leader_view(services.leader()),
        "not_ready": services.not_ready(),
    }


def _new_events(services: Services, after: int | None) -> list[EventView]:
    """Events since an id, the newest if there are many. None while the store is away: they come later."""
    try:
        if after is None:
            found = services.store.list_events(None, None, EVENTS_MAX, descending=True)[::-1]
        else:
            found = services.store.list_events(after, None, EVENTS_MAX)
            if len(found) == EVENTS_MAX:
                found = services.store.list_events(None, None, EVENTS_MAX, descending=True)[::-1]
    except StoreError:
        return []
    return [event_view(event_id, event) for event_id, event in found]


def _message(kind: str, name: str, now: float, data: dict[str, Any], ahead_seconds: float) -> bytes:
    body = orjson.dumps(in_wall_time({"time": now, **data}, ahead_seconds), option=orjson.OPT_NON_STR_KEYS)
    for character, escaped in _LINE_ENDS:
        body = body.replace(character, escaped)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (name.encode(), kind.encode(), body)


def live_of(request: Request) -> Live:
    live: Live = request.app.state.live
    return live


@router.get(
    "/v1/live",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}}, **documented()},
)
async def follow_cluster(
    request: Request,
    services: ServicesDep,
    wait: Annotated[
        float, Query(ge=0, le=86400, allow_inf_nan=False, description="End the stream after this number of seconds.")
    ] = 86400.0,
    last_event_id: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
    """Stream the cluster as server-sent events: `picture` contains everything, `change` the differences."""
    live = live_of(request)
    peer = request.client.host if request.client else ""
    if not live.has_place(peer):
        message = f"too many live streams: {live.listeners[peer]} of {live.listeners.total()} are yours"
        raise Refusal(503, ErrorCode.UNAVAILABLE, message, headers={"retry-after": "5"})
    frames = live.stream(peer, last_event_id, wait, known=lambda: still_known(request, services))
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(frames, media_type="text/event-stream", headers=headers)
