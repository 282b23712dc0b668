"""HTTP to the scheduler: the published list, and reports. Standard library only; a connection belongs to one thread."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from scheduler.elastic.environment import Environment
from scheduler.elastic.membership import Membership

#: How long a plain request may take before the scheduler counts as away.
REQUEST_SECONDS = 5.0


class Standing(Enum):
    """What an answer says about this worker's place."""

    #: answered as expected
    OK = "ok"
    #: nothing is published for the job at present
    WITHDRAWN = "withdrawn"
    #: the scheduler cannot be reached or is not able to answer
    AWAY = "away"
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


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Answer to a report."""

    standing: Standing
    generation: int = 0
    leave: bool = False
    job_state: str = ""


class Client:
    """One kept-alive connection to the scheduler. It never raises for a scheduler that is away: it says so."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._connection: http.client.HTTPConnection | None = None

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
        return Published(_standing(status, fenced=()))

    def report(self, report: Mapping[str, Any]) -> Acknowledged:
        """Tells the scheduler this worker's whole state."""
        path = f"/v1/jobs/{self._environment.job}/workers/{self._environment.worker}"
        status, body = self._request("POST", path, json.dumps(report).encode(), REQUEST_SECONDS)
        if status != 200:
            return Acknowledged(_standing(status, fenced=(404, 409)))
        try:
            answer = json.loads(body)
            return Acknowledged(
                Standing.OK, int(answer["generation"]), bool(answer["leave"]), str(answer.get("job_state", ""))
            )
        except (ValueError, KeyError, TypeError):
            return Acknowledged(Standing.AWAY)

    def exchange_shards(self, call: Mapping[str, Any]) -> tuple[Standing, Mapping[str, Any]]:
        """Says what a reader is done with and takes other shards. ENDED: the job has none; `message` says why."""
        path = f"/v1/jobs/{self._environment.job}/workers/{self._environment.worker}/shards"
        status, body = self._request("POST", path, json.dumps(call).encode(), REQUEST_SECONDS)
        try:
            answer = json.loads(body) if body else {}
        except ValueError:
            return Standing.AWAY, {}
        if status == 200:
            return Standing.OK, answer
        if status == 404:
            return Standing.ENDED, answer.get("error", {})
        return _standing(status, fenced=(409,)), {}

    def close(self) -> None:
        """Gives the connection up; a later call makes another."""
        self._drop()

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
            except (OSError, http.client.HTTPException):
                self._drop()
        return 0, b""

    def _connect(self, timeout_seconds: float, fresh: bool) -> http.client.HTTPConnection:
        if fresh:
            self._drop()
        if self._connection is None:
            parts = urlsplit(self._environment.url)
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=timeout_seconds)
        self._connection.timeout = timeout_seconds
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_seconds)
        return self._connection

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
    return Standing.AWAY
