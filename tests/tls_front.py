"""What adds TLS in front of a daemon, as a proxy does: each connection is decrypted and passed on as it is."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def tls_front(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """Its own port, at which it serves the daemon at `port` of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = threading.Thread(target=_accept, args=(server, port, context))
        accepting.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _accept(server: socket.socket, port: int, context: ssl.SSLContext) -> None:
    with suppress(OSError):  # closed
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_serve, args=(connection, port, context), daemon=True).start()


def _serve(connection: socket.socket, port: int, context: ssl.SSLContext) -> None:
    """Requests come one after the other, each with its answer."""
    with (
        suppress(OSError),
        context.wrap_socket(connection, server_side=True) as outside,
        socket.create_connection(("127.0.0.1", port)) as inside,
    ):
        threading.Thread(target=_pass_on, args=(inside, outside), daemon=True).start()
        _pass_on(outside, inside)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
