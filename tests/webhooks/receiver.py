"""A receiver on a real socket that writes down what comes, and answers as it is told."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "a secret of sixteen or more"


@dataclass
class Receiver:
    """`statuses` are answered in turn; then 204."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    #: Headers in lower case and body of each message that was answered with success, and of each that was not.
    taken: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    refused: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=hidden"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.taken]

    @property
    def ids(self) -> list[int]:
        return [event["id"] for event in self.events]

    def until(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for messages until it holds."""
        with self.news:
            assert self.news.wait_for(holds, seconds), (self.events, len(self.refused))

    def take(self, headers: dict[str, str], body: bytes) -> int:
        with self.news:
            status = self.statuses.pop(0) if self.statuses else 204
            (self.taken if status < 300 else self.refused).append((headers, body))
            self.news.notify_all()
            return status

    @contextmanager
    def listening(self) -> Iterator["Receiver"]:
        """On the port of before, if there was one."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = receiver.take({name.lower(): value for name, value in self.headers.items()}, body)
                self.send_response(status)
                if status == 302:
                    self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                # So that one that stops listening is gone for who has been connected, too.
                self.send_header("connection", "close")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            allow_reuse_address = True

        with Server(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()
