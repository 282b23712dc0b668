"""The logins of users of this machine: to look one up may ask a directory elsewhere, so that is done off the loop."""

import pwd
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool

#: How long a login is remembered, and that there is none.
NAME_SECONDS = 300.0
NO_NAME_SECONDS = 5.0


def look_up(uid: int) -> str | None:
    """The login of a user; None: there is none, or it cannot be asked for now."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


class LoginNames:
    """The logins that were looked up, by user number. Used on the event loop."""

    def __init__(self, look_up: Callable[[int], str | None] = look_up) -> None:
        self._look_up = look_up
        #: With the moment until which a name counts.
        self._names: dict[int, tuple[str, float]] = {}

    def name(self, uid: int) -> str:
        """The login as it was learned; `uid:N` where there is none."""
        return self._names[uid][0] if uid in self._names else f"uid:{uid}"

    async def learn(self, uid: int, now: float) -> None:
        """Look the login up unless it is known. One that was found before stays while it cannot be asked for."""
        if uid in self._names and now < self._names[uid][1]:
            return
        found = await run_in_threadpool(self._look_up, uid)
        seconds = NO_NAME_SECONDS if found is None else NAME_SECONDS
        self._names[uid] = (self.name(uid) if found is None else found, now + seconds)
