"""Requests to the API server as plain JSON, paced and bounded in time."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson
import urllib3

from scheduler.clusters.kubernetes.answers import NOT_FOUND, UNAUTHORIZED, RefusedError, told
from scheduler.clusters.kubernetes.credentials import Client
from scheduler.clusters.kubernetes.custom_resource import GROUP, PLURAL, VERSION
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import TOO_LATE, Clock
from scheduler.errors import ClusterError

Document = dict[str, Any]

#: Objects per page of a list.
PAGE_SIZE = 500
#: The server ends a watch after so long; a fresh one then spreads over its replicas.
WATCH_SECONDS = 300
#: A watch without a word, not even a bookmark, for so long is taken for dead.
SILENCE_SECONDS = 150
_CONNECT_SECONDS = 5.0


class Pace:
    """At most so many turns per second, in the order of asking; up to a second's worth may come at once."""

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
        """Of the API server."""
        return self._client.url

    def close(self) -> None:
        """Nothing waits for its turn any longer."""
        self._idle.set()
        self._client.close()

    def pages(self, kind: str) -> Iterator[Document]:
        """A whole list of `nodes`, `pods` or `trainingjobs` as it is now, page by page."""
        list_page = self._lister(kind)
        token: str | None = None
        while True:
            page = self._ask(partial(list_page, limit=PAGE_SIZE, _continue=token))
            yield page
            token = page["metadata"].get("continue")
            if not token:
                return

    @contextmanager
    def watch(self, kind: str, resource_version: str) -> Iterator["Watch"]:
        """Changes after this version, until the server ends the watch."""
        with self._told():
            response = self._lister(kind)(
                watch=True,
                resource_version=resource_version,
                allow_watch_bookmarks=True,
                timeout_seconds=WATCH_SECONDS,
                _preload_content=False,
                _request_timeout=(_CONNECT_SECONDS, SILENCE_SECONDS),
            )
        try:
            yield Watch(response, self.url)
        finally:
            response.close()

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def create_pod(self, body: Document, until: float) -> Document:
        namespace = self._settings.namespace
        return self._ask(partial(self._client.core.create_namespaced_pod, namespace, body), until)

    def read_pod(self, name: str, until: float) -> Document:
        namespace = self._settings.namespace
        return self._ask(partial(self._client.core.read_namespaced_pod, name, namespace), until)

    def delete_pod(self, name: str, uid: str, grace_seconds: int, until: float) -> Document:
        """Delete the pod with this uid, no other of its name; gives the pod, or a status, as it is then."""
        body = {"gracePeriodSeconds": grace_seconds, "preconditions": {"uid": uid}}
        namespace = self._settings.namespace
        return self._ask(partial(self._client.core.delete_namespaced_pod, name, namespace, body=body), until)

    def patch_training_job(self, name: str, body: Document, until: float, *, status: bool) -> Document:
        """Merge the body into the object, or into its status; null removes a field."""
        custom = self._client.custom
        patch = custom.patch_namespaced_custom_object_status if status else custom.patch_namespaced_custom_object
        where = (GROUP, VERSION, self._settings.namespace, PLURAL, name)
        return self._ask(partial(patch, *where, body, _content_type="application/merge-patch+json"), until)

    def events_of(self, uid: str) -> list[Document]:
        """What the cluster has said of an object, in no order."""
        selector = f"involvedObject.uid={uid}"
        namespace = self._settings.namespace
        list_events = partial(self._client.core.list_namespaced_event, namespace, field_selector=selector, limit=100)
        return list(self._ask(list_events)["items"])

    def config_map(self, name: str, body: Document, until: float) -> Document:
        """The config map of this name, made if there is none."""
        core = self._client.core
        return self._made(core.read_namespaced_config_map, core.create_namespaced_config_map, name, body, until)

    def service(self, name: str, body: Document, until: float) -> Document:
        """The service of this name, made if there is none."""
        core = self._client.core
        return self._made(core.read_namespaced_service, core.create_namespaced_service, name, body, until)

    def _made(
        self, read: Callable[..., Any], create: Callable[..., Any], name: str, body: Document, until: float
    ) -> Document:
        namespace = self._settings.namespace
        try:
            return self._ask(partial(read, name, namespace), until)
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
        try:
            return self._ask(partial(create, namespace, body), until)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
        return self._ask(partial(read, name, namespace), until)  # another replica was faster

    def log(self, pod: str, container: str, seconds: float) -> urllib3.BaseHTTPResponse:
        """The output of a container as it is now, as a response to be read and closed."""
        with self._told():
            response: urllib3.BaseHTTPResponse = self._client.core.read_namespaced_pod_log(
                pod,
                self._settings.namespace,
                container=container,
                _preload_content=False,
                _request_timeout=(min(_CONNECT_SECONDS, seconds), seconds),
            )
            return response

    def _lister(self, kind: str) -> Callable[..., Any]:
        listers: Mapping[str, Callable[..., Any]] = {
            "nodes": self._client.core.list_node,
            "pods": self._client.core.list_pod_for_all_namespaces,
            PLURAL: partial(
                self._client.custom.list_namespaced_custom_object, GROUP, VERSION, self._settings.namespace, PLURAL
            ),
        }
        return listers[kind]

    def _ask(self, call: Callable[..., Any], until: float | None = None) -> Document:
        """One request in its turn, which is over by `until`."""
        seconds = self._settings.request_seconds
        left = seconds if until is None else min(seconds, until - self._clock.now())
        wait = self._pace.seconds_to_wait(left) if left > 0 else None
        if wait is None or (wait > 0 and self._idle.wait(wait)):
            raise ClusterError(TOO_LATE)
        left -= wait
        with self._told():
            response = call(_preload_content=False, _request_timeout=max(left, 0.001))
            answer: Document = orjson.loads(response.data)
            return answer

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors as ours; credentials that are refused are read again before the next request."""
        try:
            with told(self.url):
                yield
        except RefusedError as error:
            if error.status == UNAUTHORIZED:
                self._client.refused()
            raise


class Watch:
    """The events of one watch, in their order."""

    def __init__(self, response: urllib3.HTTPResponse, url: str) -> None:
        self._response = response
        self._url = url

    def events(self) -> Iterator[Document]:
        """Until the server ends the watch, or `stop`. Raises `ClusterError` where it breaks."""
        rest = b""
        with told(self._url):
            for chunk in self._response.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield orjson.loads(line)

    def stop(self) -> None:
        """From any thread: the iteration ends."""
        self._response.shutdown()
