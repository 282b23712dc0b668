"""One connection to the daemon: requests, and what its errors mean. Knows no command."""

import getpass
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from scheduler.cli.client.certificates import NO_FILES, refusal, trusting
from scheduler.cli.client.connection import NOBODY_THERE, Connection
from scheduler.cli.exits import Cut, Refused, TooMany, Unavailable, Unreachable
from scheduler.errors import Conflict, InvalidInput, NotFound, SchedulerError, UserError

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

    import httpx

TOO_MANY_REQUESTS = 429
Json = Any
Params = dict[str, Any]
#: Before a request that was cut off is sent again: together as long as a daemon may take to be back.
_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


class Client:
    """Speaks to one daemon. Every failure is an error that says what to do."""

    def __init__(self, connection: Connection, *, timeout_seconds: float = 30.0) -> None:
        import httpx

        self.connection = connection
        headers = {"X-Sched-Login": quote(login_name(), safe="", errors="replace")}
        if connection.token:
            headers["Authorization"] = f"Bearer {connection.token}"
        try:
            self._http = httpx.Client(
                base_url=connection.base_url,
                transport=None if connection.socket is None else httpx.HTTPTransport(uds=str(connection.socket)),
                headers=headers,
                timeout=timeout_seconds,
                # Loading the certificates takes longer than the request.
                verify=_checking(connection),
                # A proxy for the outside world cannot know this machine's loopback.
                trust_env=not connection.loopback,
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:  # such as a proxy that speaks SOCKS
            why = str(error).partition("\n")[0]
            raise UserError(
                f"{connection.url} cannot be asked: {why}: check the address, and HTTP_PROXY and its like"
            ) from None

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None, *, wait_seconds: float = 0.0) -> Json:
        """The document at `path`. `wait_seconds`: how long the daemon may hold the answer."""
        return _document(self.connection, self.exchange("GET", path, params=params, wait_seconds=wait_seconds))

    def post(self, path: str, body: Json = None) -> Json:
        return _document(self.connection, self.exchange("POST", path, body=body))

    def post_once(self, path: str, body: Json, made: Callable[[], Json | None] = lambda: None) -> Json:
        """As `post`, for a body whose key or name makes repeating it harmless: where no answer came, it is sent again.

        If it is refused then since what it makes is there, `made` gives that; None: what is there is something else.
        """
        pauses = iter(_PAUSES_SECONDS)
        cut = False
        while True:
            try:
                return self.post(path, body)
            except (Unreachable, Unavailable) as error:
                cut = cut or isinstance(error, Cut)
                pause = next(pauses, None) if cut else None
                if pause is None:
                    raise
                time.sleep(pause)
            except Conflict:
                answer = made() if cut else None
                if answer is None:
                    raise
                return answer

    def patch(self, path: str, body: Json) -> Json:
        return _document(self.connection, self.exchange("PATCH", path, body=body))

    def delete(self, path: str) -> None:
        self.exchange("DELETE", path)

    def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Json = None,
        accept: str = "application/json",
        wait_seconds: float = 0.0,
    ) -> "httpx.Response":
        """A successful answer; anything else is raised."""
        import httpx

        try:
            timeout = httpx.Timeout(self._http.timeout.read, read=(self._http.timeout.read or 0.0) + wait_seconds)
            request = self._http.build_request(
                method, path, params=params, json=body, headers={"Accept": accept}, timeout=timeout
            )
            if (why := self.connection.why_not()) is not None:
                raise Unreachable(_nobody_there(self.connection, why))
            response = self._http.send(request)
        except UnicodeEncodeError as error:  # bytes of the command line, or escapes of a job file, that are no text
            wrong = ascii(error.object[max(error.start - 20, 0) : error.end])
            raise UserError(f"the request is not UTF-8 text: {wrong} cannot be sent") from None
        except ValueError:
            if (field := _not_finite(body)) is None:
                raise
            raise InvalidInput(field, "must be a finite number") from None
        except httpx.ConnectError as error:
            raise Unreachable(_nobody_there(self.connection, refusal(error) or NOBODY_THERE)) from None
        except httpx.TimeoutException:
            seconds = (self._http.timeout.read or 0.0) + wait_seconds
            raise Cut(
                f"the daemon at {self.connection.url} did not answer within {seconds:g} s: check its log"
            ) from None
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            if (why := refusal(error)) is not None:  # certificates of clients are judged after the handshake
                raise Unreachable(_nobody_there(self.connection, why)) from None
            raise Cut(f"the daemon at {self.connection.url} broke off the connection: {error}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unreachable(f"the daemon at {self.connection.url} sent an invalid response: {error}") from None
        if response.is_success:
            return response
        raise _failure(self.connection, response)


def _checking(connection: Connection) -> "bool | ssl.SSLContext":
    """How the daemon's certificate is checked. Raises `InvalidInput` for a file that cannot be used."""
    encrypted = connection.url.startswith("https:")
    return trusting(connection.tls) if encrypted and connection.tls != NO_FILES else encrypted


def login_name() -> str:
    """The login of the caller on this machine; empty where it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _not_finite(value: Json, place: str = "") -> str | None:
    """Where a body holds a number that JSON cannot hold: `speedup.0.1`; None: nowhere."""
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        found = (_not_finite(each, f"{place}.{key}" if place else str(key)) for key, each in inner)
        return next((field for field in found if field is not None), None)
    return place if isinstance(value, float) and not math.isfinite(value) else None


def _nobody_there(connection: Connection, why: str) -> str:
    where = f" ({connection.origin})" if connection.origin else ""
    if why != NOBODY_THERE:
        return f"{connection.url}{where}: {why}"
    return f'no daemon answers at {connection.url}{where}: start one with "sched serve", or set SCHED_URL'


def _document(connection: Connection, response: "httpx.Response") -> Json:
    try:
        return response.json()
    except ValueError:
        raise Unreachable(f"{connection.url} is not a scheduler: set SCHED_URL to the address of the daemon") from None


def _failure(connection: Connection, response: "httpx.Response") -> SchedulerError:
    """What the daemon's refusal means; its own words where it has some."""
    try:
        error = response.json()["error"]
        message, field = str(error["message"]), error.get("field")
    except (ValueError, KeyError, TypeError, AttributeError):
        if response.status_code < 500:
            return Unreachable(
                f"{connection.url} is not a scheduler (status {response.status_code} for "
                f"{response.request.url.path}): set SCHED_URL to the address of the daemon"
            )
        return Unavailable(f"the daemon at {connection.url} failed with status {response.status_code}: check its log")
    match response.status_code:
        case 401:
            hint = 'use "sched login" or SCHED_TOKEN' if not connection.token else connection.token_hint
            return Refused(f"{message} ({hint})")
        case 403:
            return Refused(message)
        case 404:
            return NotFound(message)
        case 409 | 410:
            return Conflict(message)
        case status if status == TOO_MANY_REQUESTS:
            return TooMany(message)
        case status if status >= 500:
            return Unavailable(message)
        case _ if field:
            return InvalidInput(str(field), message.removeprefix(f"{field}: "))
        case _:
            return UserError(message)
