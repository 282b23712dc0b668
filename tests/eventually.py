"""Waiting for what other processes do: the one way in which tests wait for what nobody tells them."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Far more than anything takes on an idle machine, since tests have to pass on a busy one.
SECONDS_MAX = 60.0
_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.2


def eventually(look: Callable[[], T], what: str | Callable[[], str], seconds: float = SECONDS_MAX) -> T:
    """Look again and again until something true is seen, and return it.

    `what` says in the failure what was waited for, or tells as a function what there is instead.
    """
    return _await(look, bool, lambda: what if isinstance(what, str) else what(), seconds)


def becomes(look: Callable[[], T], wanted: T, seconds: float = SECONDS_MAX) -> None:
    """Look again and again until `wanted` is seen; the failure tells what was seen last."""
    _await(look, lambda seen: seen == wanted, lambda: f"it does not become {wanted!r}", seconds)


def _await(look: Callable[[], T], holds: Callable[[T], bool], what: Callable[[], str], seconds: float) -> T:
    until = time.monotonic() + seconds
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        # The last look begins after the time is up: what has come by then counts, however late this process runs.
        last = time.monotonic() >= until
        seen = look()
        if holds(seen):
            return seen
        if last:
            raise AssertionError(f"{what()}; seen last, after {seconds:g} s: {seen!r}")
        time.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 1.5, _LONGEST_PAUSE_SECONDS)
