"""The certificate of the HTTP listener: read, tried as a client would, and read again when its files change."""

import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from scheduler.config import HttpSettings
from scheduler.engine.timing.repeating import Repeating
from scheduler.errors import ConfigError

log = structlog.get_logger(__name__)

#: Between two looks at the files.
LOOK_SECONDS = 10.0
#: A certificate that ends sooner is a trouble: whatever renews it should have done so.
NEAR_END_SECONDS = 7 * 86400.0
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_OTHERS = 0o007
#: More than any handshake needs.
_ROUNDS = 3
#: OpenSSL's verdicts on a certificate, by what helps.
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21})
_OUT_OF_DATE = frozenset({9, 10})
_OTHER_NAME = frozenset({62, 64})


@dataclass(frozen=True, slots=True)
class Served:
    """A certificate that clients accept."""

    #: With it the listener answers.
    context: ssl.SSLContext
    #: With it this daemon's own requests go to other replicas, which have certificates of the same authority.
    client: ssl.SSLContext
    #: When it ends by the machine's clock, and so does the certificate of clients that we show, by their settings.
    ends_at: Mapping[str, float]
    #: File that vouches for it, and the certificates there; None: the authorities of the system do.
    ca: tuple[Path, str] | None


class Certificates:
    """What the listener serves with, as of the last look at the files that was no failure."""

    def __init__(self, settings: HttpSettings, url: str, now: Callable[[], float]) -> None:
        """`url`: where the listener is. `now`: the machine's clock. Raises `ConfigError`, as `look` does."""
        self._settings, self._now = settings, now
        #: The name at which workers come, where no setting says that it is another one.
        self._host = None if settings.workers_url or settings.advertised_url else urlsplit(url).hostname
        self._seen = self._state_of_files()
        self._served = self._read()
        self.upkeep = Repeating("certificate", self.look, LOOK_SECONDS)

    @property
    def context(self) -> ssl.SSLContext:
        return self._served.context

    @property
    def client(self) -> ssl.SSLContext:
        return self._served.client

    @property
    def ends_at(self) -> float:
        """When the first certificate ends, by the machine's clock."""
        return min(self._served.ends_at.values())

    def variables(self) -> dict[str, str]:
        """By which workers of this machine trust the daemon, and are let in."""
        ca = self._served.ca
        named = {
            "SCHED_CA": None if ca is None else ca[0],
            "SCHED_CERT": _path(self._settings.tls_client_certificate),
            "SCHED_KEY": _path(self._settings.tls_client_key),
        }
        return {name: str(path) for name, path in named.items() if path is not None}

    def pod_variables(self) -> dict[str, str]:
        """What pods need to trust it, without files of this machine; what they show is in their template."""
        ca = self._served.ca
        return {} if ca is None else {"SCHED_CA_DATA": ca[1]}

    def look(self) -> None:
        """Read the files again if they have changed.

        Raises `ConfigError` where they cannot be used, and the last certificate stays; also where it ends soon.
        """
        seen = self._state_of_files()
        if seen != self._seen:
            self._served = self._read()
            self._seen = seen
            log.info("another certificate is served", ends=_date(self.ends_at))
        for name, ends_at in self._served.ends_at.items():
            if ends_at - self._now() < NEAR_END_SECONDS:
                raise ConfigError(f"http.{name}: {self._files()[name]}: ends at {_date(ends_at)}: renew it")

    def _files(self) -> Mapping[str, Path]:
        """All files by their settings."""
        fields = ("tls_certificate", "tls_key", "tls_ca", "tls_client_ca", "tls_client_certificate", "tls_client_key")
        named = {name: _path(getattr(self._settings, name)) for name in fields}
        return {name: path for name, path in named.items() if path is not None}

    def _state_of_files(self) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(map(_state_of, self._files().values()))

    def _read(self) -> Served:
        files = self._files()
        texts = {name: _text(name, path) for name, path in files.items()}
        _check_private(files["tls_key"])
        chain = _CERTIFICATE.findall(texts["tls_certificate"])
        if not chain:
            raise ConfigError(f"http.tls_certificate: {files['tls_certificate']}: holds no certificate in PEM")
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.minimum_version = ssl.TLSVersion.TLSv1_2
        server.options |= ssl.OP_NO_RENEGOTIATION
        server.set_alpn_protocols(["http/1.1"])
        _load_pair(server, files, "tls_certificate", "tls_key")
        ca = None
        if "tls_ca" in files:
            ca = files["tls_ca"], "\n".join(_CERTIFICATE.findall(texts["tls_ca"]))
        elif _is_self_signed(server, chain[0]):
            ca = files["tls_certificate"], chain[0]
        client = _client_of(files, None if ca is None else ca[0])
        if "tls_client_ca" in files:
            _ask_for_certificates(server, files["tls_client_ca"])
        return Served(server, client, _try(server, client, files, self._host), ca)


def open_certificates(settings: HttpSettings, url: str, now: Callable[[], float]) -> Certificates | None:
    """The certificate that the settings name; None: they name none, and nothing is encrypted. Raises `ConfigError`."""
    _check_complete(settings)
    return None if settings.tls_certificate is None else Certificates(settings, url, now)


def _check_complete(settings: HttpSettings) -> None:
    for name, needed in (
        ("tls_certificate", "tls_key"),
        ("tls_key", "tls_certificate"),
        ("tls_ca", "tls_certificate"),
        ("tls_client_ca", "tls_certificate"),
        ("tls_client_ca", "tls_client_certificate"),
        ("tls_client_certificate", "tls_client_key"),
        ("tls_client_key", "tls_client_certificate"),
        ("tls_client_certificate", "tls_client_ca"),
    ):
        if getattr(settings, name) is not None and getattr(settings, needed) is None:
            raise ConfigError(f"setting http.{needed}: is required with http.{name}")


def _path(path: Path | None) -> Path | None:
    return None if path is None else path.expanduser().absolute()


def _state_of(path: Path) -> tuple[int, ...] | None:
    """What tells this file from a later one of its name, behind any links; None: there is none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
    return None


def _text(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ConfigError(f"http.{name}: {path}: {error.strerror}") from None


def _check_private(key: Path) -> None:
    mode = key.stat().st_mode
    if mode & _OTHERS:
        raise ConfigError(
            f"http.tls_key: {key}: all users of this machine can read it (mode {mode & 0o777:o}): chmod 640 it; in a "
            "secret volume of Kubernetes, let defaultMode be 0440"
        )


def _load_pair(context: ssl.SSLContext, files: Mapping[str, Path], certificate: str, key: str) -> None:
    def refuse() -> str:
        raise ConfigError(f"http.{key}: {files[key]}: is encrypted: the daemon has no password for it")

    try:
        context.load_cert_chain(files[certificate], files[key], refuse)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"does not belong to the certificate in {files[certificate]}"
        else:
            why = f"is no private key in PEM, or {files[certificate]} no certificate: {error.reason or error}"
        raise ConfigError(f"http.{key}: {files[key]}: {why}") from None


def _client_of(files: Mapping[str, Path], ca: Path | None) -> ssl.SSLContext:
    """How our own clients check the certificate, as workers and `sched` do, and what they show."""
    try:
        client = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except ssl.SSLError:
        raise ConfigError(f"http.tls_ca: {ca}: holds no certificates in PEM") from None
    if "tls_client_certificate" in files:
        _load_pair(client, files, "tls_client_certificate", "tls_client_key")
    return client


def _ask_for_certificates(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError:
        raise ConfigError(f"http.tls_client_ca: {ca}: holds no certificates in PEM") from None
    context.verify_mode = ssl.CERT_REQUIRED


def _is_self_signed(server: ssl.SSLContext, certificate: str) -> bool:
    """Whether it vouches for itself."""
    itself = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    itself.check_hostname = False
    itself.load_verify_locations(cadata=certificate)
    try:
        _shake_hands(server, itself, None)
    except ssl.SSLCertVerificationError as error:
        return error.verify_code not in _UNKNOWN_AUTHORITY
    return True


class _NotLetIn(Exception):
    """The listener does not accept the certificate of the client."""


def _try(
    server: ssl.SSLContext, client: ssl.SSLContext, files: Mapping[str, Path], host: str | None
) -> dict[str, float]:
    """When the certificates end that both sides show, by their settings; the server's must be made for the host.

    Raises `ConfigError` where no connection comes about.
    """
    client.check_hostname = host is not None
    try:
        servers, clients = _shake_hands(server, client, host)
        return {"tls_certificate": servers} | ({} if clients is None else {"tls_client_certificate": clients})
    except ssl.SSLCertVerificationError as error:
        raise ConfigError(_refusal(error, files)) from None
    except _NotLetIn as error:
        shown, needed = files["tls_client_certificate"], files["tls_client_ca"]
        raise ConfigError(
            f"http.tls_client_certificate: {shown}: is not accepted: {error}: it must be of an authority in {needed}"
        ) from None
    finally:
        client.check_hostname = True


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str | None) -> tuple[float, float | None]:
    """A handshake in memory; when the certificate of the server ends, and that of the client where one is asked for.

    Raises `ssl.SSLError` where the client does not accept the server, and `_NotLetIn` the other way round.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(to_server, to_client, server_side=True)
    here = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(_ROUNDS):
        with suppress(ssl.SSLWantReadError):
            here.do_handshake()
        try:
            with suppress(ssl.SSLWantReadError):
                there.do_handshake()
        except ssl.SSLError as error:
            raise _NotLetIn(getattr(error, "verify_message", None) or error.reason) from None
    return _end_of(here.getpeercert()) or 0.0, _end_of(there.getpeercert())


def _end_of(certificate: Mapping[str, Any] | None) -> float | None:
    """None: there is none."""
    return float(ssl.cert_time_to_seconds(certificate["notAfter"])) if certificate else None


def _refusal(error: ssl.SSLCertVerificationError, files: Mapping[str, Path]) -> str:
    """Why clients do not accept the certificate, and what helps."""
    certificate, why = files["tls_certificate"], error.verify_message.rstrip(".")
    if error.verify_code in _UNKNOWN_AUTHORITY and "tls_ca" in files:
        return f"http.tls_ca: {files['tls_ca']}: does not vouch for {certificate}: {why}"
    if error.verify_code in _UNKNOWN_AUTHORITY:
        remedy = "add the certificates between it and its authority, or name a private one's file with http.tls_ca"
    elif error.verify_code in _OUT_OF_DATE:
        remedy = "renew it, or set the clock of this machine right"
    elif error.verify_code in _OTHER_NAME:
        remedy = "workers come there, unless http.workers_url is the address that it is made for"
    else:
        remedy = "no client accepts it"
    return f"http.tls_certificate: {certificate}: {why}: {remedy}"


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
