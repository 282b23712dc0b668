"""The HTTP server: its socket, bound before anything else starts, and its orderly end."""

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable
from errno import EADDRNOTAVAIL
from functools import partial
from typing import Any

import uvicorn

from scheduler.config import HttpSettings
from scheduler.daemon.service_manager import ServiceManager
from scheduler.errors import ConfigError
from scheduler.http.server.connections import Connections
from scheduler.http.server.entry import Entry
from scheduler.http.server.fastpath import protocol_for
from scheduler.http.server.tls import TlsConnection

#: Connections that wait to be accepted, when all workers of a large job come at once; fewer where few files may be
#: open, since all of them may be accepted before the first one can be ended.
BACKLOG = 2048
BACKLOG_SHARE = 0.125
#: Time for requests that are under way at shutdown.
SHUTDOWN_SECONDS = 5
#: Idle connections are kept longer than workers pause between two heartbeats.
KEEP_ALIVE_SECONDS = 75

_OTHER_HOST = "use an address of this machine with --host or http.host (SCHED_HTTP__HOST)"
_OTHER_PORT = "use another port with --port or http.port (SCHED_HTTP__PORT)"


def bind(settings: HttpSettings) -> socket.socket:
    """A socket bound to the address; port 0 takes any free one. Raises `ConfigError` in one line."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"cannot listen on {settings.host}: {error.strerror}: {_OTHER_HOST}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # From here on another daemon that wants the port is told so, and clients wait instead of being refused.
        bound.listen(_backlog())
    except OSError as error:
        bound.close()
        what = f"cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        raise ConfigError(f"{what}: {_OTHER_HOST if error.errno == EADDRNOTAVAIL else _OTHER_PORT}") from None
    return bound


def url_of(bound: socket.socket, settings: HttpSettings) -> str:
    """How clients and workers of this machine reach it."""
    scheme = "http" if settings.tls_certificate is None else "https"
    host, port = bound.getsockname()[:2]
    if bound.family is socket.AF_INET6:
        return f"{scheme}://[{'::1' if host == '::' else host}]:{port}"
    return f"{scheme}://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"


def _backlog() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return BACKLOG if soft == resource.RLIM_INFINITY else max(1, min(BACKLOG, int(soft * BACKLOG_SHARE)))


def _encrypted(plain: type[asyncio.Protocol], tls: Callable[[], ssl.SSLContext], **given: Any) -> TlsConnection:
    """What uvicorn calls for each connection, in place of the class of the protocol."""
    return TlsConnection(plain(**given), tls)


class Server(uvicorn.Server):
    """uvicorn with a word to those that wait, before it waits for them, and to the service manager."""

    def __init__(
        self,
        app: Entry,
        connections: Connections,
        on_stop: Callable[[], None],
        manager: ServiceManager,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """`tls`: with what handshakes that begin now are made; None: the address speaks plain HTTP."""
        plain = protocol_for(app, connections)
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop",
                http=plain if tls is None else partial(_encrypted, plain, tls),  # type: ignore[arg-type]
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_backlog(),
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._connections = connections
        self._on_stop = on_stop
        self._manager = manager

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._manager.ready()

    async def on_tick(self, counter: int) -> bool:
        now = asyncio.get_running_loop().time()
        self._connections.sweep(now)
        self._manager.beat(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._manager.stopping()
        self._on_stop()
        await super().shutdown(sockets)
