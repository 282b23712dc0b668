"""The official client as settings have it. Where its credentials are refused it is made anew: there may be others."""

import socket
import threading
from typing import Any

import structlog
import urllib3
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

from scheduler.clusters.kubernetes.answers import line
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
#: Refused credentials are read again at most this often.
_READ_AGAIN_SECONDS = 2.0


class Client:
    """The APIs that are used, as they are now. May be used from any thread."""

    def __init__(self, settings: KubernetesSettings, clock: Clock) -> None:
        """Raises `ConfigError` if there is no usable configuration."""
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._read()
        if not self._api.configuration.verify_ssl:
            # Said once, not at every request.
            log.warning("kubernetes: the certificate of the API server is not verified", url=self.url)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def close(self) -> None:
        self._api.close()

    def refused(self) -> None:
        """The credentials are not accepted: the next request takes those that are on disk now."""
        with self._lock:
            if self._clock.monotonic() < self._read_at + _READ_AGAIN_SECONDS:
                return
            former = self._api
            try:
                self._read()
            except ConfigError as error:
                log.warning("kubernetes: the credentials could not be reloaded", error=str(error))
                return
            former.close()

    def _read(self) -> None:
        self._read_at = self._clock.monotonic()
        configuration = _configuration(self._settings)
        configuration.socket_options = _KEEPALIVE
        configuration.connection_pool_maxsize = self._settings.connections + 4
        configuration.retries = urllib3.Retry(total=0, redirect=2)
        self.url = str(configuration.host)
        self._api = client.ApiClient(configuration)
        #: Takes and gives plain JSON here, which its published types do not know.
        self.core: Any = client.CoreV1Api(self._api)
        self.custom: Any = client.CustomObjectsApi(self._api)


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
