"""Who calls with a token of the issuer. Nothing here waits for the issuer but `learn`, and that off the event loop."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable

from scheduler.config import OidcSettings
from scheduler.http.auth.oidc.claims import Claims, Unacceptable, read_claims, read_header
from scheduler.http.auth.oidc.documents import FETCH_SECONDS
from scheduler.http.auth.oidc.keys import IssuerKeys
from scheduler.http.auth.stranger import Stranger
from scheduler.model.identity import TOKEN_PREFIX, Identity, UserToken

#: Tokens that are remembered as checked; of more, those that were used least recently are checked again.
CHECKED_MAX = 4096
#: Requests that wait for the issuer's keys at one time. More are told to try again.
WAITING_MAX = 256
_PREFIX = TOKEN_PREFIX.encode()


class OidcLogins:
    """The users of one issuer. Used on the event loop."""

    def __init__(
        self,
        settings: OidcSettings,
        keys: IssuerKeys,
        fetch: Callable[[], None],
        holder: Callable[[str, float], UserToken | None],
    ) -> None:
        """`fetch`: asks the issuer for its keys, and never raises. `holder`: a valid token of our own of this user."""
        self._settings, self._keys, self._fetch, self._holder = settings, keys, fetch, holder
        self._fetching: asyncio.Future[None] | None = None
        self._waiting = 0
        #: By digest; of keys of this edition.
        self._checked: OrderedDict[bytes, Claims] = OrderedDict()
        self._edition = keys.edition

    @staticmethod
    def concerns(secret: bytes) -> bool:
        """Whether it has the form of an issuer's token, which tokens of our own and of workers have not."""
        return secret.count(b".") == 2 and not secret.startswith(_PREFIX)

    async def learn(self, secret: bytes) -> None:
        """Ask the issuer for the key that the token names, if it is not known and the issuer was not asked just now."""
        if self._known(secret):
            return
        if self._fetching is None or self._fetching.done():
            if not self._keys.due():
                return
            self._fetching = asyncio.ensure_future(asyncio.to_thread(self._fetch))
        if self._waiting < WAITING_MAX:
            self._waiting += 1
            try:
                await asyncio.wait([self._fetching], timeout=FETCH_SECONDS)
            finally:
                self._waiting -= 1

    def identify(self, secret: bytes, now: float) -> Identity | Stranger:
        """Who calls with this token. `now`: unix seconds."""
        try:
            claims = self._claims(secret)
            if claims is None:
                why = f"the token could not be checked: {self._keys.trouble}: try again, or use a token of sched token"
                return Stranger(why, unchecked=True)
            claims.check_time(now, self._settings.token_seconds_max)
            self._check_name(claims.identity.user or "", now)
        except Unacceptable as error:
            return Stranger(f"invalid token: {error}" if error.user is None else str(error), error.user)
        return claims.identity

    def _claims(self, secret: bytes) -> Claims | None:
        """What the token says; None: nothing is known of its key while the issuer is away. Raises `Unacceptable`."""
        if self._edition != self._keys.edition:
            self._checked.clear()
            self._edition = self._keys.edition
        header = read_header(secret)
        keys = self._keys.find(header.kid, header.algorithm)
        if not keys and self._keys.trouble is not None:
            return None
        if not keys and header.kid is not None:
            raise Unacceptable(f"the issuer {self._settings.issuer} has no key {header.kid!r} now")
        if len(keys) != 1:
            has = f"the issuer {self._settings.issuer} has {len(keys)} keys for {header.algorithm} now"
            raise Unacceptable(f"its header must name its key (kid): {has}")
        key = keys[0]
        digest = _digest(secret)
        claims = self._checked.pop(digest, None)
        if claims is None:
            claims = read_claims(secret, header, key, self._settings)
        self._checked[digest] = claims
        if len(self._checked) > CHECKED_MAX:
            self._checked.popitem(last=False)
        return claims

    def _known(self, secret: bytes) -> bool:
        """Whether nothing has to be asked about the token."""
        try:
            header = read_header(secret)
            return bool(self._keys.find(header.kid, header.algorithm))
        except Unacceptable:
            return True

    def _check_name(self, user: str, now: float) -> None:
        """Raise `Unacceptable` for a name that one of our own tokens has: it might be somebody else's at the issuer."""
        token = self._holder(user, now)
        if token is not None:
            what = f"{user} has token {token.id} of this daemon"
            raise Unacceptable(f"{what}: use it, or ask an administrator to revoke it or to set oidc.user_prefix", user)


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()
