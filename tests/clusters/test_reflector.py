"""A server whose watches fail from some version on: the objects are listed anew."""

import json
import random
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.api.connection import PODS, Connection
from scheduler.clusters.kubernetes.api.reflector import Reflector
from scheduler.config import KubernetesSettings
from tests.clusters.control_plane import kubeconfig_of


class Server(ThreadingHTTPServer):
    """Lists one object, and answers the watch that follows the first list with an error."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.version = 1
        self.closing = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        watched = parse_qs(urlsplit(self.path).query).get("resourceVersion")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if watched is None:
            item = {"metadata": {"name": "a", "uid": "1", "resourceVersion": str(self.server.version)}}
            self._write({"metadata": {"resourceVersion": str(self.server.version)}, "items": [item]})
            self.server.version = 2
        elif watched == [str(self.server.version)]:
            self.server.closing.wait(30.0)
        else:
            self._write({"type": "ERROR", "object": {"code": 500, "message": "etcdserver: mvcc: corrupt"}})

    def _write(self, document: dict[str, Any]) -> None:
        self.wfile.write(json.dumps(document).encode() + b"\n")

    def log_message(self, *_: object) -> None:
        """Nothing: tests have an output of their own."""


class Names:
    """Remembers the versions of what was listed."""

    def __init__(self) -> None:
        self.versions: list[str] = []
        self.listed = threading.Semaphore(0)

    def begin(self) -> None:
        pass

    def put(self, item: dict[str, Any]) -> bool:
        self.versions.append(item["metadata"]["resourceVersion"])
        return True

    def remove(self, item: dict[str, Any]) -> bool:
        return False

    def keep_only(self, items: Iterable[tuple[str, str]]) -> bool:
        self.listed.release()
        return False


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever).start()
        yield made
        made.closing.set()
        made.shutdown()


def test_a_watch_that_answers_with_an_error_is_followed_by_a_new_list(server: Server, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(f"http://127.0.0.1:{server.server_port}", "nobody-asks"))
    clock, names = SystemClock(), Names()
    connection = Connection(KubernetesSettings(kubeconfig=kubeconfig), clock)
    reflector = Reflector(PODS, connection, names, lambda: None, clock, random.Random(1))
    reflector.start()
    try:
        assert names.listed.acquire(timeout=30.0)
        assert names.listed.acquire(timeout=30.0)
        assert names.versions == ["1", "2"]
        assert reflector.trouble(60.0) is None
    finally:
        reflector.close()
        connection.close()
