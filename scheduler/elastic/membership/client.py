"""HTTP to the scheduler: the published list, and reports. Standard library only; a connection belongs to one thread."""

import http.client
import json
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from scheduler.elastic.environment import Environment
from scheduler.elastic.membership.membership import Membership

_LOG = logging.getLogger("scheduler.elastic")
#: How long a plain request may take before the scheduler counts as away.
REQUEST_SECONDS = 5.0
#: What the scheduler steers a worker by; the rest of a report only tells how far it is.
_STEERING = ("generation", "ready", "endpoint", "peer", "agreed", "missed")
#: Statuses of refusals that pass by themselves: something on the way is too busy.
_PASSING = frozenset({408, 425, 429})
_WORDS_LENGTH_MAX = 500


class Standing(Enum):
    """What an answer says about this worker's place."""

    #: answered as expected
    OK = "ok"
    #: nothing is published for the job at present
    WITHDRAWN = "withdrawn"
    #: the scheduler cannot be reached or is not able to answer
    AWAY = "away"
    #: the scheduler is there, and does not take this request
    REFUSED = "refused"
    #: the job has ended
    ENDED = "ended"
    #: this worker is none of the job's any more
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class Published:
    """Answer of discover_hosts."""

    standing: Standing
    membership: Membership | None = None
    #: As it came.
    body: bytes = b""
    #: Why, where it is REFUSED.
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Answer to a report."""

    standing: Standing
    generation: int = 0
    leave: bool = False
    job_state: str = ""
    #: Why the report was not taken as a whole.
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Answer to a call for shards."""

    standing: Standing
    answer: Mapping[str, Any] = field(default_factory=dict)
    #: Why, where it is REFUSED, or ENDED: the job has no shards.
    refusal: str = ""


class Client:
    """One kept-alive connection to the scheduler. It never raises for a scheduler that is away: it says so."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._own_path = f"/v1/jobs/{environment.job}/workers/{environment.worker}"
        self._connection: http.client.HTTPConnection | None = None
        #: Whether it was said that certificates keep it from being reached.
        self._told = False

    def discover(self, known_generation: int, wait_seconds: int) -> Published:
        """The published list; held by the scheduler until it differs from `known_generation` or the wait is over."""
        path = f"/v1/jobs/{self._environment.job}/discover_hosts"
        if wait_seconds:
            path += f"?wait={wait_seconds}&generation={known_generation}"
        status, body = self._request("GET", path, None, wait_seconds + REQUEST_SECONDS)
        if status == 200:
            try:
                return Published(Standing.OK, Membership.parse(body), body)
            except ValueError:
                return Published(Standing.AWAY)
        standing = _standing(status, fenced=())
        return Published(standing, refusal=_refusal(standing, status, body))

    def report(self, report: Mapping[str, Any]) -> Acknowledged:
        """Tells the scheduler this worker's whole state; where it does not take that, what it steers the worker by.

        So no number that the scheduler does not take keeps a worker from being heard.
        """
        answer = self._report(report)
        if answer.standing is not Standing.REFUSED:
            return answer
        steering = {name: report[name] for name in _STEERING if name in report}
        return replace(self._report(steering), refusal=answer.refusal)

    def exchange_shards(self, call: Mapping[str, Any]) -> Exchanged:
        """Says what a reader is done with and takes other shards."""
        status, body = self._request("POST", f"{self._own_path}/shards", json.dumps(call).encode(), REQUEST_SECONDS)
        if status == 200:
            try:
                return Exchanged(Standing.OK, json.loads(body))
            except ValueError:
                return Exchanged(Standing.AWAY)
        if status == 404:
            return Exchanged(Standing.ENDED, refusal=_words(body, status))
        standing = _standing(status, fenced=(409, 410))
        return Exchanged(standing, refusal=_refusal(standing, status, body))

    def close(self) -> None:
        """Gives the connection up; a later call makes another."""
        self._drop()

    def _report(self, report: Mapping[str, Any]) -> Acknowledged:
        status, body = self._request("POST", self._own_path, json.dumps(report).encode(), REQUEST_SECONDS)
        if status != 200:
            standing = _standing(status, fenced=(404, 409))
            return Acknowledged(standing, refusal=_refusal(standing, status, body))
        try:
            answer = json.loads(body)
            return Acknowledged(
                Standing.OK, int(answer["generation"]), bool(answer["leave"]), str(answer.get("job_state", ""))
            )
        except (ValueError, KeyError, TypeError):
            return Acknowledged(Standing.AWAY)

    def _request(self, method: str, path: str, body: bytes | None, timeout_seconds: float) -> tuple[int, bytes]:
        headers = {"Accept": "application/json"}
        if self._environment.token:
            headers["Authorization"] = f"Bearer {self._environment.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        # A kept connection that the scheduler closed meanwhile fails at once; a fresh one then tells.
        for fresh in (False, True):
            try:
                connection = self._connect(timeout_seconds, fresh)
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                return response.status, response.read()
            except TimeoutError:
                self._drop()
                return 0, b""
            except (OSError, http.client.HTTPException) as error:
                self._tell_distrust(error)
                self._drop()
        return 0, b""

    def _connect(self, timeout_seconds: float, fresh: bool) -> http.client.HTTPConnection:
        if fresh:
            self._drop()
        if self._connection is None:
            parts = urlsplit(self._environment.url)
            # With a port, or the last part of an IPv6 address is taken for one.
            address = (parts.hostname or "127.0.0.1", self._environment.port)
            if parts.scheme == "https":
                trust = self._trust()
                self._connection = http.client.HTTPSConnection(*address, timeout=timeout_seconds, context=trust)
            else:
                self._connection = http.client.HTTPConnection(*address, timeout=timeout_seconds)
        self._connection.timeout = timeout_seconds
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_seconds)
        return self._connection

    def _trust(self) -> ssl.SSLContext:
        """The files are read for each connection, since they are renewed while workers run. Raises `OSError`."""
        file, data = self._environment.ca, self._environment.ca_data
        context = ssl.create_default_context(cafile=file, cadata=data if file is None else None)
        if self._environment.certificate is not None:
            context.load_cert_chain(self._environment.certificate, self._environment.key)
        return context

    def _tell_distrust(self, error: Exception) -> None:
        """Say once what only somebody can change, and no waiting: certificates and their files."""
        broken_off = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        wrong = isinstance(error, ssl.SSLError | FileNotFoundError | PermissionError) and not broken_off
        if wrong and self._environment.url.startswith("https:") and not self._told:
            self._told = True
            files = f"SCHED_CA={self._environment.ca or ''} SCHED_CERT={self._environment.certificate or ''}"
            _LOG.error("no encrypted connection to the scheduler at %s: %s (%s)", self._environment.url, error, files)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _standing(status: int, fenced: tuple[int, ...]) -> Standing:
    if status in fenced:
        return Standing.FENCED
    if status == 410:
        return Standing.ENDED
    if status == 503:
        return Standing.WITHDRAWN
    return Standing.REFUSED if 400 <= status < 500 and status not in _PASSING else Standing.AWAY


def _refusal(standing: Standing, status: int, body: bytes) -> str:
    """What to tell of a refusal: its status and the scheduler's words."""
    return f"{status}: {_words(body, status)}" if standing is Standing.REFUSED else ""


def _words(body: bytes, status: int) -> str:
    """The message of an error in one line; the status's own where another than the scheduler answers."""
    try:
        message = str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = http.client.responses.get(status, "")
    return " ".join(message.split())[:_WORDS_LENGTH_MAX]
