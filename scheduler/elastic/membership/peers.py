"""Questions among the workers of a job: a signed message each way. Standard library only."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from scheduler.elastic.membership.signed_line import Door, call

#: How long a peer may take to answer before it counts as out of reach.
ANSWER_SECONDS = 5.0
_PURPOSE = b"questions among peers"

Handler = Callable[[Any], Mapping[str, Any] | None]


class PeerServer:
    """Answers questions of peers in threads of its own, whatever the training does meanwhile."""

    def __init__(self, address: str, token: str, handle: Handler) -> None:
        """`handle` gets what a peer asks and gives the answer, or None where it is no question that it knows."""
        self._server = _Server((address, 0), _Connection)
        self._server.token = token
        self._server.handle = handle
        self.port: int = self._server.server_address[1]
        self.contact = f"{address}:{self.port}"

    def start(self) -> None:
        """Begins to answer; the threads are daemons and are abandoned at exit."""
        threading.Thread(target=self._server.serve_forever, name="peers", daemon=True).start()


def ask_all(contacts: Mapping[str, str], token: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """Asks all peers at once; the answers of those that gave one in time. `contacts` are `host:port` by worker."""
    answers: dict[str, Any] = {}

    def ask(worker: str, contact: str) -> None:
        with suppress(OSError, ValueError, OverflowError):  # the last one is that of a port that cannot be
            answers[worker] = _ask(contact, token, question)

    ends_at = time.monotonic() + ANSWER_SECONDS
    threads = [threading.Thread(target=ask, args=pair, daemon=True) for pair in contacts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(ends_at - time.monotonic(), 0.0))
    return dict(answers)


def _ask(contact: str, token: str, question: Mapping[str, Any]) -> Any:
    host, _, port = contact.rpartition(":")
    ends_at = time.monotonic() + ANSWER_SECONDS
    with socket.create_connection((host, int(port)), ANSWER_SECONDS) as connection:
        line = call(connection, token, _PURPOSE, ends_at)
        line.send(question)
        return line.receive(ends_at)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    token: str
    handle: Handler

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.door = Door()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asks gets no answer; that is all."""


class _Connection(socketserver.BaseRequestHandler):
    server: _Server
    request: socket.socket

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            line, question = self.server.door.accept(self.request, self.server.token, _PURPOSE, ANSWER_SECONDS)
            answer = self.server.handle(question)
            if answer is not None:
                line.send(answer)
