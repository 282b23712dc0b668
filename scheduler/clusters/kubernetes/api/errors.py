"""Errors of requests to the API server, each as a `ClusterError` of one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import urllib3
from kubernetes.config.config_exception import ConfigException

from scheduler.clusters.kubernetes.api.answer import Answer
from scheduler.errors import ClusterError

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, GONE = 400, 401, 403, 404, 409, 410
TOO_LARGE, INVALID, INTERNAL = 413, 422, 500
#: Limit on the length of an error's text.
_MESSAGE_LENGTH_MAX = 400


class RefusedError(ClusterError):
    """The API server answered, and refused: `status` is HTTP's, `reason` the API's own word for it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@contextmanager
def told(url: str) -> Iterator[None]:
    """Raise errors of client and network as `ClusterError` in one line."""
    try:
        yield
    except urllib3.exceptions.MaxRetryError as error:
        raise ClusterError(f"the API server at {url} cannot be reached: {_cause(error.reason)}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ClusterError(f"the API server at {url} does not answer: {_cause(error)}") from None
    except ConfigException as error:
        raise ClusterError(f"the credentials for the API server at {url} cannot be read: {line(str(error))}") from None
    except orjson.JSONDecodeError:
        raise ClusterError(f"the API server at {url} returned something other than JSON") from None


def accepted(answer: Answer) -> Answer:
    """Return the answer if it is a success; otherwise read it and raise `RefusedError`."""
    if answer.status < BAD_REQUEST:
        return answer
    text = answer.read().decode(errors="replace")
    try:
        status = orjson.loads(text)
    except orjson.JSONDecodeError:
        status = {}
    if not isinstance(status, dict):
        status = {}
    message = line(str(status.get("message") or text or answer.reason))
    if answer.status == UNAUTHORIZED:
        message = f"the API server rejected the credentials: {message}"
    raise RefusedError(answer.status, str(status.get("reason") or answer.reason), message)


def line(text: str, length_max: int = _MESSAGE_LENGTH_MAX) -> str:
    """The text in one line of bounded length, of printable characters: programs end with bytes of any kind."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:length_max]


def _cause(error: object) -> str:
    """The operating system's message, without the client's wrapping."""
    inner = getattr(error, "__cause__", None) or getattr(error, "__context__", None)
    while inner is not None and not isinstance(inner, OSError):
        inner = inner.__cause__ or inner.__context__
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return line(str(error))
