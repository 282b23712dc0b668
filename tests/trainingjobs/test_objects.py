"""TrainingJob objects as they are known, where an API server answers late."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.training_jobs import TrainingJobObjects
from scheduler.config import KubernetesSettings
from tests.clusters.control_plane import kubeconfig_of


class Server(ThreadingHTTPServer):
    """Knows no object, and says so when `meanwhile` has returned."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.meanwhile: Callable[[], object] = lambda: None


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.meanwhile()
        self.send_response(404)
        self.end_headers()
        self.wfile.write(json.dumps({"reason": "NotFound", "message": "not found"}).encode())

    def log_message(self, *_: object) -> None:
        """Nothing: tests have an output of their own."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever).start()
        yield made
        made.shutdown()


def item(uid: str, version: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "a", "name": "train", "uid": uid, "resourceVersion": str(version)}}


def test_an_object_made_anew_while_a_write_to_the_former_is_refused_stays_known(server: Server, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(f"http://127.0.0.1:{server.server_port}", "nobody-asks"))
    objects = TrainingJobObjects(KubernetesSettings(kubeconfig=kubeconfig), SystemClock(), random.Random(1))
    former, anew = item("1", 5), item("2", 9)

    def made_anew() -> None:
        objects.remove(former)
        objects.put(anew)

    server.meanwhile = made_anew
    objects.put(former)
    objects.write_status(former, {})
    assert objects.get(("a", "train")) == anew
    server.meanwhile = lambda: None
    objects.write_status(anew, {})
    assert objects.get(("a", "train")) is None
    assert not objects.remove(anew)
