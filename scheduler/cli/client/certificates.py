"""How the daemon's certificate is checked and what certificate the user shows; what is wrong where that fails."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from scheduler.errors import InvalidInput

#: OpenSSL's verdicts, by what helps.
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
_OUT_OF_DATE = frozenset({9, 10})
_OTHER_NAME = frozenset({62, 64})
#: In names of alerts with which a server refuses certificates of clients.
_OF_OURS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files for `https://` addresses."""

    #: With the certificates that vouch for the daemon's; None: those of the system do.
    ca: Path | None = None
    #: The user's own certificate, where the daemon asks for one, and its key.
    cert: Path | None = None
    key: Path | None = None

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> Self:
        """As variables of the environment name them."""
        named = {name: variables.get(f"SCHED_{name.upper()}") for name in ("ca", "cert", "key")}
        return cls(**{name: Path(path) for name, path in named.items() if path})

    def over(self, others: "TlsFiles") -> "TlsFiles":
        """These, and of others what is not named here. A certificate and its key go together."""
        pair = others if self.cert is None and self.key is None else self
        return TlsFiles(self.ca or others.ca, pair.cert, pair.key)


#: For addresses that need none.
NO_FILES = TlsFiles()


def trusting(files: TlsFiles) -> ssl.SSLContext:
    """Accepts certificates that those in the file vouch for, and shows the user's own. Raises `InvalidInput`."""
    try:
        context = ssl.create_default_context(cafile=None if files.ca is None else str(files.ca))
    except ssl.SSLError:
        raise InvalidInput("--ca", f"{files.ca}: holds no certificates in PEM") from None
    except OSError as error:
        raise InvalidInput("--ca", f"{files.ca}: {error.strerror}") from None
    if files.cert is not None:
        _show(context, files.cert, files.key)
    elif files.key is not None:
        raise InvalidInput("--cert", "is required with --key")
    return context


def _show(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    """The key may stand in the file of the certificate."""
    for option, path in (("--cert", certificate), ("--key", key)):
        try:
            if path is not None:
                path.open("rb").close()
        except OSError as error:
            raise InvalidInput(option, f"{path}: {error.strerror}") from None
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        why = "does not belong to its key" if mismatch else "holds no certificate with its key in PEM"
        raise InvalidInput("--cert", f"{certificate}: {why}") from None


def refusal(error: BaseException) -> str | None:
    """Why no encrypted connection came about, and what helps, in one line; None: that is not why there is none."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    match cause:
        case None:
            return None
        case ssl.SSLCertVerificationError(verify_code=code, verify_message=what):
            return f"its certificate is not accepted: {what}: {_remedy(code)}"
        case _ if _of_the_daemon(cause.reason):
            said = cause.reason.rpartition("ALERT_")[2].replace("_", " ").lower()
            return f"it does not let in without a certificate of yours: {said}: name one with --cert and --key"
        case _:
            return f"no TLS there: {cause.reason or cause.strerror}: check whether the address begins with http://"


def _of_the_daemon(reason: str | None) -> bool:
    """Whether the daemon has said that it does not accept the certificate of the user, or that it misses one."""
    return reason is not None and "ALERT" in reason and any(word in reason for word in _OF_OURS)


def _remedy(code: int) -> str:
    if code in _UNKNOWN_AUTHORITY:
        return "name the file of the authority that signs it with --ca or SCHED_CA"
    if code in _OUT_OF_DATE:
        return "it has to be renewed there, or the clock of this machine is wrong"
    if code in _OTHER_NAME:
        return "use the name that it is made for in --url or SCHED_URL"
    return "see to the certificate there"
