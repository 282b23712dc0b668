"""An API server whose answers come a byte at a time: nothing waits for them longer than it has time."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from socket import socket
from time import monotonic

import pytest

from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.api.connection import Connection
from scheduler.clusters.kubernetes.cluster import KubernetesCluster
from scheduler.clusters.kubernetes.known_worker import KnownWorker
from scheduler.clusters.kubernetes.logs import KubernetesLogs
from scheduler.clusters.kubernetes.pod_status import PodState
from scheduler.clusters.kubernetes.pods import WorkerPod
from scheduler.clusters.logs.files import log_path
from scheduler.config import KubernetesSettings
from scheduler.errors import ClusterError
from scheduler.model.ids import JobId, NodeName, WorkerId, job_key
from scheduler.model.observation import Phase
from tests.clusters.control_plane import kubeconfig_of

#: What a request may take, and what shows that it took no more: the answer itself takes far longer.
SECONDS, SECONDS_MAX, DRIPS = 0.5, 5.0, 300
W = WorkerId("7-1")
RUNS = KnownWorker(WorkerPod(W, JobId(7), "jobs", NodeName("a"), (0,), 1.0, 1), PodState(Phase.RUNNING), 0.0, "p", "u")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.closing = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Answers with blanks, ten a second; with an error where the path says so."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(500 if "error" in self.path else 200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            for _ in range(DRIPS):
                self.wfile.write(b"1\r\n \r\n")
                if self.server.closing.wait(0.1):
                    return

    def log_message(self, *_: object) -> None:
        """Nothing: tests have an output of their own."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    kubeconfig = tmp_path / "kubeconfig"
    with Server() as server:
        threading.Thread(target=server.serve_forever).start()
        kubeconfig.write_text(kubeconfig_of(f"http://127.0.0.1:{server.server_port}", "nobody-asks"))
        made = Connection(KubernetesSettings(kubeconfig=kubeconfig), SystemClock())
        try:
            yield made
        finally:
            made.close()
            server.closing.set()
            server.shutdown()


@pytest.mark.parametrize("path", ["/object", "/error"])
def test_an_answer_that_drips_ends_with_the_time_of_its_request(connection: Connection, path: str) -> None:
    begun = monotonic()
    with pytest.raises(ClusterError, match="does not end in time"):
        connection.get(path, SystemClock().now() + SECONDS)
    assert monotonic() - begun < SECONDS_MAX


def test_a_log_that_drips_holds_no_deletion_and_what_came_of_it_is_kept(connection: Connection, tmp_path: Path) -> None:
    logs = KubernetesLogs(connection, KubernetesSettings(request_seconds=SECONDS), tmp_path, lambda worker: RUNS)
    begun = monotonic()
    logs.keep(RUNS, SECONDS)
    assert Path(log_path(tmp_path, job_key(JobId(7), ""), W)).read_bytes().startswith(b" ")
    with pytest.raises(ClusterError, match="the log of 7-1 could not be read: its answer does not end in time"):
        logs.read(W)
    assert monotonic() - begun < SECONDS_MAX


def test_a_daemon_begins_soon_although_the_api_server_is_silent_and_there_are_many_namespaces(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(100)
        kubeconfig.write_text(kubeconfig_of(f"http://127.0.0.1:{silent.getsockname()[1]}", "nobody-asks"))
        many = tuple(f"team-{number}" for number in range(30))
        settings = KubernetesSettings(kubeconfig=kubeconfig, request_seconds=SECONDS, namespaces=many)
        begun = monotonic()
        cluster = KubernetesCluster(settings, SystemClock(), Random(1), tmp_path, b"secret")
        took = monotonic() - begun
        cluster.close()
    assert took < SECONDS_MAX


def test_a_request_that_gets_no_turn_in_time_is_told_which_setting_holds_it(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of("http://127.0.0.1:1", "nobody-asks"))
    connection = Connection(KubernetesSettings(kubeconfig=kubeconfig, requests_per_second=0.001), SystemClock())
    with pytest.raises(ClusterError, match=r"than kubernetes\.requests_per_second lets through in time"):
        connection.get("/object", SystemClock().now() + SECONDS)
    with pytest.raises(ClusterError, match="lease expired"):
        connection.get("/object", SystemClock().now() - SECONDS)
    connection.close()
