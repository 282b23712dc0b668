"""Questions among the workers of a job: a line of JSON each way, signed with the job's token. Standard library only."""

import hashlib
import hmac
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

#: How long a peer may take to answer before it counts as out of reach.
ANSWER_SECONDS = 5.0
_LINE_BYTES_MAX = 4 * 2**20

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
        with suppress(OSError, ValueError):
            answers[worker] = _ask(contact, token, question)

    threads = [threading.Thread(target=ask, args=pair, daemon=True) for pair in contacts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(answers)


def _ask(contact: str, token: str, question: Mapping[str, Any]) -> Any:
    host, _, port = contact.rpartition(":")
    with socket.create_connection((host, int(port)), ANSWER_SECONDS) as connection:
        connection.settimeout(ANSWER_SECONDS)
        line = _signed(token, b"", question)
        connection.sendall(line)
        with connection.makefile("rb") as stream:
            return _opened(token, line, stream.readline(_LINE_BYTES_MAX))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    token: str
    handle: Handler

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asks gets no answer; that is all."""


class _Connection(socketserver.StreamRequestHandler):
    timeout = ANSWER_SECONDS
    server: _Server

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            line = self.rfile.readline(_LINE_BYTES_MAX)
            answer = self.server.handle(_opened(self.server.token, b"", line))
            if answer is not None:
                self.wfile.write(_signed(self.server.token, line, answer))


def _signed(token: str, context: bytes, content: Mapping[str, Any]) -> bytes:
    """`context` is the question, of an answer: no answer serves for another question."""
    body = json.dumps(content).encode()
    return b"%b %b\n" % (_signature(token, context, body), body)


def _opened(token: str, context: bytes, line: bytes) -> Any:
    """ValueError where it is not whole, or signed with another token."""
    signature, _, body = line.removesuffix(b"\n").partition(b" ")
    if not hmac.compare_digest(signature, _signature(token, context, body)):
        raise ValueError("not from a worker of this job")
    return json.loads(body)


def _signature(token: str, context: bytes, body: bytes) -> bytes:
    return hmac.new(token.encode(), context + body, hashlib.sha256).hexdigest().encode()
