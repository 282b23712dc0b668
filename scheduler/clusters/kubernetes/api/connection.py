"""Requests to the API server as plain JSON, paced and bounded in time."""

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import quote

import orjson
import urllib3

from scheduler.clusters.kubernetes.api.answer import Answer
from scheduler.clusters.kubernetes.api.credentials import Client
from scheduler.clusters.kubernetes.api.custom_resource import GROUP, PLURAL, VERSION
from scheduler.clusters.kubernetes.api.documents import Document, parse_document
from scheduler.clusters.kubernetes.api.errors import NOT_FOUND, UNAUTHORIZED, RefusedError, accepted, told
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import TOO_LATE, Clock
from scheduler.errors import ClusterError

#: Objects per page of a list.
PAGE_SIZE = 500
#: How long the server keeps a watch open; a new one may reach another replica of it.
WATCH_SECONDS = 300
#: How long a watch may be silent, without even a bookmark, before it counts as dead.
SILENCE_SECONDS = 150
_CONNECT_SECONDS = 5.0
_MERGE = "application/merge-patch+json"
_CROWDED = "more requests to the API server wait than kubernetes.requests_per_second lets through in time"
_CLOSED = "the daemon is stopping"


class Collection(NamedTuple):
    """Objects of one kind that are listed and watched together."""

    kind: str
    path: str


NODES = Collection("nodes", "/api/v1/nodes")
#: Pods of all namespaces.
PODS = Collection("pods", "/api/v1/pods")


def in_namespace(namespace: str, *names: str, api: str = "/api/v1") -> str:
    """The path of a kind of object, or of one object."""
    return "/".join((f"{api}/namespaces", quote(namespace), *map(quote, names)))


def training_jobs_in(namespace: str) -> Collection:
    return Collection(PLURAL, in_namespace(namespace, PLURAL, api=f"/apis/{GROUP}/{VERSION}"))


class Pace:
    """Limits turns to `per_second`, first come first served; a burst may take one second's worth at once."""

    def __init__(self, per_second: float, clock: Clock) -> None:
        self._per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        #: When the budget is full again.
        self._full_at = clock.monotonic()

    def seconds_to_wait(self, at_most: float) -> float | None:
        """Take a turn and give how long to wait for it; None, and no turn is taken, if it would come too late."""
        with self._lock:
            now = self._clock.monotonic()
            turn_at = max(self._full_at, now) + 1.0 / self._per_second
            wait = max(turn_at - 1.0 - now, 0.0)
            if wait > at_most:
                return None
            self._full_at = turn_at
            return wait


class Connection:
    """One API server. Every method raises `ClusterError` in one line, `RefusedError` where the server said no."""

    def __init__(self, settings: KubernetesSettings, clock: Clock) -> None:
        """Raises `ConfigError` if there is no usable configuration."""
        self._client = Client(settings, clock)
        self._clock = clock
        self._settings = settings
        self._pace = Pace(settings.requests_per_second, clock)
        self._idle = threading.Event()

    @property
    def url(self) -> str:
        """URL of the API server."""
        return self._client.url

    def close(self) -> None:
        """Release all requests that wait for their turn."""
        self._idle.set()
        self._client.close()

    def pages(self, path: str) -> Iterator[Document]:
        """A whole list as it is now, page by page."""
        query = {"limit": str(PAGE_SIZE)}
        while True:
            page = self._ask("GET", path, query=query)
            yield page
            token = page["metadata"].get("continue")
            if not token:
                return
            query["continue"] = token

    @contextmanager
    def watch(self, path: str, resource_version: str) -> Iterator["Watch"]:
        """Changes of a list after this version, until the server ends the watch."""
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        silence = urllib3.Timeout(connect=_CONNECT_SECONDS, read=SILENCE_SECONDS)
        answer = self._open(path, query, silence, math.inf)
        try:
            yield Watch(answer, self.url)
        finally:
            answer.close()

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def get(self, path: str, until: float) -> Document:
        """The object as it is now."""
        return self._ask("GET", path, until=until)

    def create(self, path: str, body: Document, until: float) -> Document:
        """The object as it was made. A field that the API server does not know is refused by those that can tell."""
        return self._ask("POST", path, {"fieldValidation": "Strict"}, orjson.dumps(body), until)

    def delete(self, path: str, until: float, body: Document | None = None) -> Document:
        """Delete one object; gives it, or a status, as it is then."""
        return self._ask("DELETE", path, body=orjson.dumps(body or {}), until=until)

    def patch(self, path: str, body: Document, until: float) -> Document:
        """Merge the body into the object; null removes a field."""
        return self._ask("PATCH", path, body=orjson.dumps(body), until=until, content_type=_MERGE)

    def events_of(self, namespace: str, uid: str) -> list[Document]:
        """Events about an object, in no order."""
        query = {"fieldSelector": f"involvedObject.uid={uid}", "limit": "100"}
        return list(self._ask("GET", in_namespace(namespace, "events"), query)["items"])

    def made(self, path: str, name: str, body: Document, until: float) -> Document:
        """The object of this name; it is created if there is none."""
        try:
            return self.get(f"{path}/{name}", until)
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
        try:
            return self.create(path, body, until)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
        return self.get(f"{path}/{name}", until)  # another replica was faster

    def log(self, namespace: str, pod: str, container: str, seconds: float, *, follow: bool = False) -> Answer:
        """The output of a container, to be read and closed.

        Up to now, or with `follow` until the container ends; it has to be over in `seconds`.
        """
        timeout = urllib3.Timeout(connect=min(_CONNECT_SECONDS, seconds), read=seconds)
        query = {"container": container, **({"follow": "true"} if follow else {})}
        return self._open(f"{in_namespace(namespace, 'pods', pod)}/log", query, timeout, seconds)

    def _open(self, path: str, query: Mapping[str, str], timeout: urllib3.Timeout, seconds: float) -> Answer:
        """An answer to be read as a stream."""
        until = self._clock.monotonic() + seconds
        with self._told():
            return accepted(Answer(self._client.request("GET", path, query, timeout), until, self._clock.monotonic))

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        until: float | None = None,
        content_type: str = "application/json",
    ) -> Document:
        """Send one request in its turn; it is over by `until`."""
        seconds = self._settings.request_seconds
        left = seconds if until is None else min(seconds, until - self._clock.now())
        if left <= 0:
            raise ClusterError(TOO_LATE)
        wait = self._pace.seconds_to_wait(left)
        if wait is None:
            raise ClusterError(_CROWDED)
        if wait > 0 and self._idle.wait(wait):
            raise ClusterError(_CLOSED)
        left = max(left - wait, 0.001)
        end, timeout = self._clock.monotonic() + left, urllib3.Timeout(total=left)
        with self._told():
            response = self._client.request(method, path, query or {}, timeout, body, content_type)
            answer = accepted(Answer(response, end, self._clock.monotonic))
            return parse_document(answer.read())

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Translate errors; refused credentials are read again before the next request."""
        try:
            with told(self.url):
                yield
        except RefusedError as error:
            if error.status == UNAUTHORIZED:
                self._client.refused()
            raise


class Watch:
    """The events of one watch, in order."""

    def __init__(self, answer: Answer, url: str) -> None:
        self._answer = answer
        self._url = url

    def events(self) -> Iterator[Document]:
        """Yield events until the server ends the watch, or `stop` is called. Raises `ClusterError` if it breaks."""
        rest = b""
        with told(self._url):
            for chunk in self._answer.pieces():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield parse_document(line)

    def stop(self) -> None:
        """End the iteration, from any thread."""
        self._answer.stop()
