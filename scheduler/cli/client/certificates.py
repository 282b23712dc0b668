"""How the daemon's certificate is checked, and what is wrong with one that is not accepted."""

import ssl
from pathlib import Path

from scheduler.errors import InvalidInput

#: OpenSSL's verdicts, by what helps.
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
_OUT_OF_DATE = frozenset({9, 10})
_OTHER_NAME = frozenset({62, 64})


def trusting(ca: Path) -> ssl.SSLContext:
    """Accepts certificates that those in the file vouch for. Raises `InvalidInput`."""
    try:
        return ssl.create_default_context(cafile=str(ca))
    except ssl.SSLError:
        raise InvalidInput("--ca", f"{ca}: holds no certificates in PEM") from None
    except OSError as error:
        raise InvalidInput("--ca", f"{ca}: {error.strerror}") from None


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
        case _:
            return f"no TLS there: {cause.reason or cause.strerror}: check whether the address begins with http://"


def _remedy(code: int) -> str:
    if code in _UNKNOWN_AUTHORITY:
        return "name the file of the authority that signs it with --ca or SCHED_CA"
    if code in _OUT_OF_DATE:
        return "it has to be renewed there, or the clock of this machine is wrong"
    if code in _OTHER_NAME:
        return "use the name that it is made for in --url or SCHED_URL"
    return "see to the certificate there"
