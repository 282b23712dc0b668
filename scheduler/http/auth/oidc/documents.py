"""What the issuer publishes, read over HTTP with limits on time and size. May be imported without the extra `oidc`."""

import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scheduler.config.oidc_settings import protected_url
from scheduler.errors import ConfigError, IssuerError
from scheduler.http.auth.access import is_loopback

if TYPE_CHECKING:
    import httpx

#: For both documents together; no request that needs them waits for longer.
FETCH_SECONDS = 5.0
#: For each step on the way to them, such as a connection.
STEP_SECONDS = 4.0
DOCUMENT_BYTES_MAX = 512 * 1024
_DISCOVERY = "/.well-known/openid-configuration"

Document = dict[str, Any]


class IssuerDocuments:
    """The issuer's own description and its keys."""

    def __init__(self, issuer: str, ca: Path | None, now: Callable[[], float]) -> None:
        """`ca`: vouches for its certificate; None: the system does. `now`: a clock that is never set.

        Raises `ConfigError` for certificates that cannot be read.
        """
        self._issuer, self._now = issuer, now
        self._tls = _trusting(ca)

    def read_keys(self) -> list[Any]:
        """The keys, as they are published now. Raises `IssuerError` in one line."""
        import httpx  # its import takes a while

        until = self._now() + FETCH_SECONDS
        loopback = is_loopback(urlsplit(self._issuer).hostname or "")
        try:
            # Redirects are not followed: the answer comes from where the settings say, or there is none.
            with httpx.Client(verify=self._tls, trust_env=not loopback, timeout=STEP_SECONDS) as client:
                described = self._read(client, self._issuer.rstrip("/") + _DISCOVERY, until)
                keys = self._read(client, self._keys_url(described), until).get("keys")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            what = str(error).partition("\n")[0] or type(error).__name__
            raise IssuerError(f"the issuer {self._issuer} cannot be asked for its keys: {what}") from None
        except ValueError as error:
            raise IssuerError(f"the issuer {self._issuer} sends no keys: {error}") from None
        if not isinstance(keys, list):
            raise IssuerError(f"the issuer {self._issuer} sends no keys: the document has no list of keys")
        return keys

    def _keys_url(self, described: Document) -> str:
        """Raises `ValueError` for a description of somebody else, or without an address of keys."""
        if described.get("issuer") != self._issuer:
            raise ValueError(f"its description is of the issuer {str(described.get('issuer'))[:200]!r}")
        url = described.get("jwks_uri")
        if not isinstance(url, str):
            raise ValueError("its description has no jwks_uri")
        if self._issuer.startswith("https:") and not url.startswith("https:"):
            raise ValueError("its jwks_uri must begin with https://")
        try:
            return protected_url(url)
        except ValueError as error:
            raise ValueError(f"its jwks_uri {error}") from None

    def _read(self, client: "httpx.Client", url: str, until: float) -> Document:
        """The JSON document there. Raises `httpx.HTTPError`, or `ValueError` for anything else."""
        with client.stream("GET", url, headers={"accept": "application/json"}) as answer:
            if answer.status_code != 200:
                raise ValueError(f"{url} answers with status {answer.status_code}")
            body = bytearray()
            for part in answer.iter_bytes():
                body += part
                if len(body) > DOCUMENT_BYTES_MAX:
                    raise ValueError(f"{url} sends more than {DOCUMENT_BYTES_MAX} bytes")
                if self._now() > until:
                    raise ValueError(f"{url} takes longer than {FETCH_SECONDS:g} s")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError(f"{url} sends no JSON") from None
        if not isinstance(document, dict):
            raise ValueError(f"{url} sends no JSON object")
        return document


def _trusting(ca: Path | None) -> ssl.SSLContext:
    """What the issuer's certificate is checked with. Raises `ConfigError`."""
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except ssl.SSLError:
        raise ConfigError(f"setting oidc.ca: {ca}: holds no certificates in PEM") from None
    except OSError as error:
        raise ConfigError(f"setting oidc.ca: {ca}: {error.strerror}") from None
