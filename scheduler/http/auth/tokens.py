"""The tokens of users in memory, so that no request waits for the database to learn who calls.

Another replica learns of a new or a revoked token when it looks the next time, `LOOK_SECONDS` later.
"""

import hashlib
import secrets
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from scheduler.errors import StoreError
from scheduler.model.identity import TOKEN_PREFIX, Role, UserToken
from scheduler.store.records import TokenList

#: Between two looks at what other replicas have created and revoked.
LOOK_SECONDS = 1.0
#: Looks between two readings where nothing seems to have changed.
LOOKS_MAX = 30
#: Random bytes of a secret.
SECRET_BYTES = 32


def new_secret() -> str:
    """The secret of a new token, which is shown once and stored nowhere."""
    return TOKEN_PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def digest_of(secret: bytes) -> str:
    """The form in which a secret is stored: SHA-256 in hexadecimal. Secrets are random, so they need no salt."""
    return hashlib.sha256(secret).hexdigest()


def new_token(
    user: str,
    role: Role,
    name: str,
    *,
    now: float,
    created_by: str,
    expires_at: float | None,
    made_from: int | None = None,
    queue: str | None = None,
) -> tuple[str, UserToken]:
    """The secret of a new token, and the token as it is to be stored, which has no id yet."""
    secret = new_secret()
    digest = digest_of(secret.encode())
    token = UserToken(0, user, role, name, digest, now, created_by, expires_at, made_from=made_from, queue=queue)
    return secret, token


class TokenBook:
    """All tokens of users as they were read last."""

    def __init__(self, read: Callable[[], TokenList], mark: Callable[[], tuple[int, ...]]) -> None:
        """`mark`: returns another value after each change of what `read` returns."""
        self._read, self._mark = read, mark
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._looks_left = LOOKS_MAX
        self._tokens: dict[str, UserToken] = {}
        #: By user, without those of live pages.
        self._held: dict[str, list[UserToken]] = {}
        #: Whether any token was ever created; one that has expired, was revoked or cannot be read counts.
        self.in_use = False

    def look_soon(self) -> None:
        """Look now if the store can be read, else with the next look, so that what was stored stands in any case."""
        with suppress(StoreError):
            self.look()

    def look(self) -> None:
        """Read the tokens if they have changed, and now and then in any case, as somebody may have mended a row.

        Raises `StoreError`; what was read before stays valid then.
        """
        with self._lock:  # one who read before a revocation must not write after it
            mark = self._mark()
            self._looks_left -= 1
            if mark == self._seen and self._looks_left > 0:
                return
            found = self._read()
            self._tokens = {token.digest: token for token in found.tokens}
            self._held = _by_user(found.tokens)
            self.in_use = bool(found.tokens or found.unreadable)
            self._seen, self._looks_left = mark, LOOKS_MAX

    def find(self, secret: bytes) -> UserToken | None:
        """The token with this secret, whether it is valid or not; None: there is none.

        It is found by its digest: how long that takes says nothing about the secrets of others.
        """
        return self._tokens.get(digest_of(secret)) if secret.startswith(TOKEN_PREFIX.encode()) else None

    def held_by(self, user: str, now: float) -> UserToken | None:
        """A valid token of this user that somebody else gave it; None: there is none."""
        return next((token for token in self._held.get(user, ()) if token.why_not(now) is None), None)


def _by_user(tokens: Iterable[UserToken]) -> dict[str, list[UserToken]]:
    held: dict[str, list[UserToken]] = {}
    for token in tokens:
        if not token.of_page:
            held.setdefault(token.user, []).append(token)
    return held


#: Of a daemon without tokens of users.
NO_TOKENS = TokenBook(lambda: TokenList((), ()), lambda: ())
