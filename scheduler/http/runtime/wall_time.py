"""Moments in answers by the machine's clock, as people read it.

Inside, all times are those of the engine's clock, which nobody can set. The two differ only if somebody has set the
machine's clock; so whole answers are converted, at the one place that all of them pass.
"""

from collections.abc import Callable
from typing import Any

import orjson
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Smaller differences are ignored.
_AHEAD_SECONDS_MIN = 0.5
#: Fields that hold a moment: these, and those that end so.
MOMENTS = frozenset({"at", "time", "since", "until", "stop_deadline", "not_before"})
MOMENT_ENDINGS = ("_at", "_since", "_until")
#: Paths whose moments are the machine's already: their durations end by it.
_OF_THE_MACHINE = ("/v1/usage", "/v1/recurring", "/v1/tokens", "/v1/whoami", "/v1/audit")
#: Fields with names that users choose below them.
_OF_USERS = frozenset({"metrics", "labels", "env", "fixed_env", "node_selector", "pod_template"})


def in_wall_time(content: Any, ahead_seconds: float) -> Any:
    """The content with its moments moved from the engine's clock to the machine's, which is `ahead_seconds` ahead."""
    return content if abs(ahead_seconds) < _AHEAD_SECONDS_MIN else _moved(content, ahead_seconds)


def is_moment(name: str) -> bool:
    """Whether a field of this name holds a moment."""
    return name in MOMENTS or name.endswith(MOMENT_ENDINGS)


def _moved(content: Any, seconds: float) -> Any:
    if isinstance(content, dict):
        return {name: _moved_field(name, value, seconds) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_moved(each, seconds) for each in content]
    return content


def _moved_field(name: Any, value: Any, seconds: float) -> Any:
    if name in _OF_USERS:
        return value
    if isinstance(value, float) and isinstance(name, str) and is_moment(name):
        return value + seconds
    return _moved(value, seconds)


class WallTime:
    """An ASGI application whose JSON answers have their moments moved."""

    def __init__(self, app: ASGIApp, ahead: Callable[[], float], booked_ahead: Callable[[], float]) -> None:
        """`booked_ahead`: for bookings, which follow the machine's clock only once its lead is confirmed."""
        self._app = app
        self._ahead = {"/v1/bookings": booked_ahead, **dict.fromkeys(_OF_THE_MACHINE, lambda: 0.0), "/v1/": ahead}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ahead_seconds = self._ahead_of(scope["path"]) if scope["type"] == "http" else 0.0
        if abs(ahead_seconds) >= _AHEAD_SECONDS_MIN:
            send = _Moving(send, ahead_seconds)
        await self._app(scope, receive, send)

    def _ahead_of(self, path: str) -> float:
        return next((ahead() for prefix, ahead in self._ahead.items() if path.startswith(prefix)), 0.0)


class _Moving:
    """Passes an answer on; a JSON answer once it is complete."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_json(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        body = orjson.dumps(_moved(orjson.loads(self._body), self._seconds)) if self._body else b""
        MutableHeaders(raw=start["headers"])["content-length"] = str(len(body))
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _is_json(start: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"application/json") for name, value in start["headers"])
