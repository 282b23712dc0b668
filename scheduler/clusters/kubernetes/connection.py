"""Requests to the API server as plain JSON, paced and bounded in time, and what their errors mean."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson
import structlog
import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from scheduler.clusters.kubernetes.custom_resource import GROUP, PLURAL, VERSION
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import TOO_LATE, Clock
from scheduler.errors import ClusterError, ConfigError

log = structlog.get_logger(__name__)

Document = dict[str, Any]

#: A dead peer is noticed after idle + interval times count seconds, without a request.
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
]
#: Objects per page of a list.
PAGE_SIZE = 500
#: The server ends a watch after so long; a fresh one then spreads over its replicas.
WATCH_SECONDS = 300
#: A watch without a word, not even a bookmark, for so long is taken for dead.
SILENCE_SECONDS = 150
_CONNECT_SECONDS = 5.0
#: Of an error's text, for one line.
_MESSAGE_LENGTH_MAX = 400


class RefusedError(ClusterError):
    """The API server answered, and refused: `status` is HTTP's, `reason` the API's own word for it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


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
        configuration = _configuration(settings)
        configuration.socket_options = _KEEPALIVE
        configuration.connection_pool_maxsize = settings.connections + 4
        configuration.retries = urllib3.Retry(total=0, redirect=2)
        if not configuration.verify_ssl:
            # Said once, not at every request.
            log.warning("kubernetes: the API server's certificate is not checked", url=configuration.host)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self.url = str(configuration.host)
        self._api = client.ApiClient(configuration)
        #: Takes and gives plain JSON here, which its published types do not know.
        self._core: Any = client.CoreV1Api(self._api)
        self._custom: Any = client.CustomObjectsApi(self._api)
        self._clock = clock
        self._settings = settings
        self._pace = Pace(settings.requests_per_second, clock)
        self._idle = threading.Event()

    def close(self) -> None:
        """Nothing waits for its turn any longer."""
        self._idle.set()
        self._api.close()

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
        with _told(self.url):
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
        return self._ask(partial(self._core.create_namespaced_pod, namespace, body), until)

    def read_pod(self, name: str, until: float) -> Document:
        namespace = self._settings.namespace
        return self._ask(partial(self._core.read_namespaced_pod, name, namespace), until)

    def delete_pod(self, name: str, uid: str, grace_seconds: int, until: float) -> Document:
        """Delete the pod with this uid, no other of its name; gives the pod, or a status, as it is then."""
        body = {"gracePeriodSeconds": grace_seconds, "preconditions": {"uid": uid}}
        namespace = self._settings.namespace
        return self._ask(partial(self._core.delete_namespaced_pod, name, namespace, body=body), until)

    def patch_training_job(self, name: str, body: Document, until: float, *, status: bool) -> Document:
        """Merge the body into the object, or into its status; null removes a field."""
        custom = self._custom
        patch = custom.patch_namespaced_custom_object_status if status else custom.patch_namespaced_custom_object
        where = (GROUP, VERSION, self._settings.namespace, PLURAL, name)
        return self._ask(partial(patch, *where, body, _content_type="application/merge-patch+json"), until)

    def events_of(self, uid: str) -> list[Document]:
        """What the cluster has said of an object, in no order."""
        selector = f"involvedObject.uid={uid}"
        namespace = self._settings.namespace
        list_events = partial(self._core.list_namespaced_event, namespace, field_selector=selector, limit=100)
        return list(self._ask(list_events)["items"])

    def owner(self, name: str, body: Document, until: float) -> Document:
        """The config map of this name, made if there is none."""
        namespace = self._settings.namespace
        read = partial(self._core.read_namespaced_config_map, name, namespace)
        try:
            return self._ask(read, until)
        except RefusedError as error:
            if error.status != 404:
                raise
        try:
            return self._ask(partial(self._core.create_namespaced_config_map, namespace, body), until)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
        return self._ask(read, until)  # another replica was faster

    def log(self, pod: str, container: str, seconds: float) -> urllib3.BaseHTTPResponse:
        """The output of a container as it is now, as a response to be read and closed."""
        with _told(self.url):
            response: urllib3.BaseHTTPResponse = self._core.read_namespaced_pod_log(
                pod,
                self._settings.namespace,
                container=container,
                _preload_content=False,
                _request_timeout=(min(_CONNECT_SECONDS, seconds), seconds),
            )
            return response

    def _lister(self, kind: str) -> Callable[..., Any]:
        listers: Mapping[str, Callable[..., Any]] = {
            "nodes": self._core.list_node,
            "pods": self._core.list_pod_for_all_namespaces,
            PLURAL: partial(
                self._custom.list_namespaced_custom_object, GROUP, VERSION, self._settings.namespace, PLURAL
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
        with _told(self.url):
            response = call(_preload_content=False, _request_timeout=max(left, 0.001))
            answer: Document = orjson.loads(response.data)
            return answer


class Watch:
    """The events of one watch, in their order."""

    def __init__(self, response: urllib3.HTTPResponse, url: str) -> None:
        self._response = response
        self._url = url

    def events(self) -> Iterator[Document]:
        """Until the server ends the watch, or `stop`. Raises `ClusterError` where it breaks."""
        rest = b""
        with _told(self._url):
            for chunk in self._response.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield orjson.loads(line)

    def stop(self) -> None:
        """From any thread: the iteration ends."""
        self._response.shutdown()


def _configuration(settings: KubernetesSettings) -> Any:
    configuration = client.Configuration()
    try:
        if settings.kubeconfig is not None:
            path = str(settings.kubeconfig.expanduser())
            config.load_kube_config(path, settings.context, configuration, persist_config=False)
        else:
            _load_default(settings.context, configuration)
    except (ConfigException, OSError) as error:
        where = settings.kubeconfig or "no service account and no default kubeconfig"
        raise ConfigError(f"kubernetes.kubeconfig: {where}: {_line(str(error))}") from None
    return configuration


def _load_default(context: str | None, configuration: Any) -> None:
    try:
        config.load_incluster_config(configuration)
    except ConfigException:
        config.load_kube_config(None, context, configuration, persist_config=False)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Errors of client and network, as ours."""
    try:
        yield
    except ApiException as error:
        raise _refused(error) from None
    except urllib3.exceptions.MaxRetryError as error:
        raise ClusterError(f"the API server at {url} cannot be reached: {_cause(error.reason)}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ClusterError(f"the API server at {url} does not answer: {_cause(error)}") from None
    except orjson.JSONDecodeError:
        raise ClusterError(f"the API server at {url} answers with something else than JSON") from None


def _refused(error: ApiException) -> RefusedError:
    body: object = error.body
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    try:
        status = orjson.loads(text)
    except orjson.JSONDecodeError:
        status = {}
    if not isinstance(status, dict):
        status = {}
    message = _line(str(status.get("message") or text or error.reason))
    if error.status == 401:
        message = f"the API server does not accept the credentials: {message}"
    return RefusedError(error.status or 0, str(status.get("reason") or error.reason), message)


def _cause(error: object) -> str:
    """The system's own word for it, without the client's wrapping."""
    inner = getattr(error, "__cause__", None) or getattr(error, "__context__", None)
    while inner is not None and not isinstance(inner, OSError):
        inner = inner.__cause__ or inner.__context__
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return _line(str(error))


def _line(text: str) -> str:
    return " ".join(text.split())[:_MESSAGE_LENGTH_MAX]
