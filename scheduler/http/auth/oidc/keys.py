"""The issuer's keys in memory. They are asked for again at intervals, and where a token names one that is not known.

What the issuer has removed is no longer believed after the next look; while it is away, its last keys stay valid.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from scheduler.errors import IssuerError

log = structlog.get_logger(__name__)

#: Between two looks at the issuer's keys.
LOOK_SECONDS = 300.0
#: Least time between two requests to the issuer, however many tokens name keys that are not known.
REFETCH_SECONDS = 10.0
#: How long keys are believed while the issuer is away.
BELIEVED_SECONDS = 86400.0
KEYS_MAX = 100
RSA_BITS_MIN = 2048
KID_LENGTH_MAX = 256

_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
#: Algorithms by kind of key; all of them have a public and a private key. There are no others.
_BY_KIND: dict[tuple[str, str | None], frozenset[str]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
    ("OKP", "Ed448"): frozenset({"EdDSA"}),
}
ALGORITHMS = frozenset().union(*_BY_KIND.values())
#: Members of a key that are public; others are not read.
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key, and the algorithms whose signatures it checks."""

    public: Any
    algorithms: frozenset[str]


class IssuerKeys:
    """Keys by their id. Used from several threads; only `fetch` waits for the issuer."""

    def __init__(self, read: Callable[[], Sequence[Any]], now: Callable[[], float]) -> None:
        """`read`: the published keys. `now`: a clock that is never set."""
        self._read, self._now = read, now
        self._fetching = threading.Lock()
        self._keys: dict[str, IssuerKey] = {}
        #: All of them, with those that have no id.
        self._all: Sequence[IssuerKey] = ()
        self._documents: Sequence[Any] = ()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        #: Goes up whenever other keys are published.
        self.edition = 0
        #: Why the last look failed, in one line; None: it did not.
        self.trouble: str | None = "the keys of the issuer are not known yet"

    def find(self, kid: str | None, algorithm: str) -> list[IssuerKey]:
        """The key with this id; without one, all keys for the algorithm. None, as far as is known: an empty list."""
        if not self._believed():
            return []
        if kid is not None:
            return [self._keys[kid]] if kid in self._keys else []
        return [key for key in self._all if algorithm in key.algorithms]

    def due(self) -> bool:
        """Whether the issuer may be asked again by now."""
        return self._tried_at is None or self._now() - self._tried_at >= REFETCH_SECONDS

    def fetch(self) -> None:
        """Ask the issuer, unless that was done a moment ago. Raises `IssuerError`; what was read before stays then.

        Where it was done a moment ago and failed, that is its error.
        """
        with self._fetching:
            if not self.due():
                if self.trouble is not None:
                    raise IssuerError(self.trouble)
                return
            self._tried_at = self._now()
            try:
                self._take(self._read())
            except IssuerError as error:
                self.trouble = str(error)
                raise
            self._fetched_at = self._now()

    def _take(self, documents: Sequence[Any]) -> None:
        keys = list(_usable(documents[:KEYS_MAX]))
        if not keys:
            raise IssuerError("the issuer publishes no key that can be used: RSA of 2048 bits, EC or Edwards")
        if documents != self._documents:
            self._keys = {kid: key for kid, key in keys if kid is not None}
            self._all = [*self._keys.values(), *(key for kid, key in keys if kid is None)]
            self._documents = documents
            self.edition += 1
            log.info("keys of the issuer", keys=sorted(self._keys), without_id=len(self._all) - len(self._keys))
        self.trouble = None

    def _believed(self) -> bool:
        return self._fetched_at is not None and self._now() - self._fetched_at < BELIEVED_SECONDS


def is_key_id(kid: object) -> bool:
    """Whether it can be the id of a key: short, of printable ASCII, so that it can be repeated in messages."""
    return isinstance(kid, str) and 0 < len(kid) <= KID_LENGTH_MAX and kid.isascii() and kid.isprintable()


def _usable(documents: Iterable[Any]) -> Iterable[tuple[str | None, IssuerKey]]:
    """The keys that sign tokens, with their ids; of two with one id the last one counts."""
    for document in documents:
        if not isinstance(document, dict) or document.get("use") == "enc":
            continue
        if "kid" in document and not is_key_id(document["kid"]):
            continue
        key = _key_of(document)
        if key is not None:
            yield document.get("kid"), key


def _key_of(document: dict[str, Any]) -> IssuerKey | None:
    kind, curve, algorithm = document.get("kty"), document.get("crv"), document.get("alg")
    if not isinstance(kind, str) or not isinstance(curve, str | None) or not isinstance(algorithm, str | None):
        return None
    allowed = _BY_KIND.get((kind, curve), frozenset())
    if algorithm is not None:
        allowed &= {algorithm}
    if not allowed:
        return None
    try:
        public = jwt.PyJWK({name: document[name] for name in _PUBLIC if name in document}, min(allowed)).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if isinstance(public, RSAPublicKey) and public.key_size < RSA_BITS_MIN:
        return None
    return IssuerKey(public, allowed)
