"""SIGTERM as this process takes it over. Standard library only.

Python's handlers outlive a fork, and those of this package end nothing: `terminate` would not end a process that the
script has forked, and the interpreter's end waits for each of these that is a daemon. So they get what was there
before.
"""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], None]


class Sigterm:
    """Has the signal handled in another way, until it is given back."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        #: What handled it before, as `signal.signal` has it.
        self.before: Any = signal.SIG_DFL

    def take(self) -> bool:
        """Takes the signal over where this is the main thread, which alone can; whether it did."""
        if threading.current_thread() is not threading.main_thread():
            return False
        before = signal.signal(signal.SIGTERM, self._handle)
        self.before = signal.SIG_DFL if before is None else before
        return True

    def give_back(self) -> None:
        """Restores what was there before, unless somebody else has taken the signal since."""
        if threading.current_thread() is threading.main_thread() and _taker_of(_current()) is self:
            signal.signal(signal.SIGTERM, self.before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._handler(number, frame)


def _current() -> Any:
    return signal.getsignal(signal.SIGTERM)


def _taker_of(handler: Any) -> Sigterm | None:
    """Who has put this handler in place; None: nobody of this package."""
    taker = getattr(handler, "__self__", None)
    return taker if isinstance(taker, Sigterm) else None


def _release_in_child() -> None:
    handler = _current()
    while (taker := _taker_of(handler)) is not None:
        handler = taker.before
    if handler is not None and handler is not _current():
        signal.signal(signal.SIGTERM, handler)


os.register_at_fork(after_in_child=_release_in_child)
