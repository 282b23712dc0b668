"""Requests with the credentials of the settings, which are read again if the server refuses them.

The official client loads the credentials and makes the pool of connections, which all of its versions do alike. What is
sent and received is plain JSON: nothing but the API server checks it.
"""

import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import structlog
import urllib3
from kubernetes import client, config
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException

from scheduler.clusters.kubernetes.api.errors import line
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import Clock
from scheduler.errors import ConfigError

log = structlog.get_logger(__name__)

#: A dead peer is noticed after idle + interval times count seconds, without a request.
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
]
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_RETRIES = urllib3.Retry(total=0, redirect=2)
#: Refused credentials are read again at most this often.
_READ_AGAIN_SECONDS = 2.0


class Client:
    """Client of one API server. Thread-safe."""

    def __init__(self, settings: KubernetesSettings, clock: Clock) -> None:
        """Raises `ConfigError` if there is no usable configuration."""
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._read()
        if not self._access[1].verify_ssl:
            # Said once, not at every request.
            log.warning("kubernetes: the certificate of the API server is not verified", url=self.url)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    @property
    def url(self) -> str:
        """URL of the API server."""
        return str(self._access[1].host)

    def close(self) -> None:
        self._access[0].clear()

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        timeout: urllib3.Timeout,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> urllib3.BaseHTTPResponse:
        """The unread response, whatever its status. Raises errors of urllib3 and of the client's credentials."""
        pool, configuration = self._access
        headers = {"Accept": "application/json", "User-Agent": "elastic-gpu-scheduler"}
        headers |= {each["key"]: each["value"] for each in configuration.auth_settings().values()}
        if body is not None:
            headers["Content-Type"] = content_type
        url = f"{configuration.host}{path}"
        if query:
            url += f"?{urlencode(query)}"
        answer: urllib3.BaseHTTPResponse = pool.request(
            method, url, body=body, headers=headers, timeout=timeout, retries=_RETRIES, preload_content=False
        )
        return answer

    def refused(self) -> None:
        """Note that the credentials were refused: the next request reads them from disk again."""
        with self._lock:
            if self._clock.monotonic() < self._read_at + _READ_AGAIN_SECONDS:
                return
            former, _ = self._access
            try:
                self._read()
            except ConfigError as error:
                log.warning("kubernetes: the credentials could not be reloaded", error=str(error))
                return
            former.clear()

    def _read(self) -> None:
        self._read_at = self._clock.monotonic()
        configuration = _configuration(self._settings)
        configuration.connection_pool_maxsize = self._settings.connections + 4
        pool = RESTClientObject(configuration).pool_manager
        pool.connection_pool_kw["socket_options"] = _KEEPALIVE
        #: The pool of connections, and what to send besides; replaced together.
        self._access: tuple[urllib3.PoolManager, Any] = (pool, configuration)


def own_namespace(path: Path = _NAMESPACE_FILE) -> str | None:
    """The namespace that this process runs in; None: in no pod, or in one without a service account."""
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def _configuration(settings: KubernetesSettings) -> Any:
    configuration = client.Configuration()
    try:
        if settings.kubeconfig is not None:
            path = str(settings.kubeconfig.expanduser())
            config.load_kube_config(path, settings.context, configuration, persist_config=False)
        else:
            _load_default(settings.context, configuration)
    except (ConfigException, OSError) as error:
        where = settings.kubeconfig or "found neither a service account nor a default kubeconfig"
        raise ConfigError(f"kubernetes.kubeconfig: {where}: {line(str(error))}") from None
    return configuration


def _load_default(context: str | None, configuration: Any) -> None:
    try:
        config.load_incluster_config(configuration)
    except ConfigException:
        config.load_kube_config(None, context, configuration, persist_config=False)
