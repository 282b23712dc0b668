"""Codes by which a browser logs in to the live page: each is good for one use, within a minute.

A token in the address of a page would stay in the browser's history and show in the list of processes; a code that
was used opens nothing.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.model.identity import Identity

CODE_SECONDS = 60.0
#: Codes that wait for their use, of all users and of one; beyond it the oldest is forgotten.
CODES_MAX, CODES_OF_ONE_MAX = 1000, 5
_CODE_BYTES = 32


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asked for a code."""

    identity: Identity
    #: The token for its browser; None: a new one is made.
    token: str | None
    #: Whether who asked would be let in now.
    known: Callable[[], bool] = field(compare=False)


class PageCodes:
    """The codes that one daemon has given out. They are not known to other replicas, nor after a restart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Who asked for each, and until when it is good.
        self._codes: OrderedDict[str, tuple[Asker, float]] = OrderedDict()

    def create(self, asker: Asker, now: float) -> str:
        """A new code, by which a browser becomes who asks for it."""
        code = secrets.token_urlsafe(_CODE_BYTES)
        with self._lock:
            user = asker.identity.user
            mine = [code for code, (other, _) in self._codes.items() if other.identity.user == user]
            for old in mine[: 1 - CODES_OF_ONE_MAX]:
                del self._codes[old]
            self._codes[code] = (asker, now + CODE_SECONDS)
            if len(self._codes) > CODES_MAX:
                self._codes.popitem(last=False)
        return code

    def use(self, code: str, now: float) -> Asker | None:
        """Who asked for the code, which opens nothing any more; None: it was used, is too old, or was never given.

        Also None where who asked would not be let in any more.
        """
        with self._lock:
            found = self._codes.pop(code, None)
        return found[0] if found is not None and now < found[1] and found[0].known() else None
