"""`make dashboards` over a real daemon, and marks of jobs' events for Grafana."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemon import ROOT, running_daemon
from tests.eventually import eventually
from tests.metrics.prometheus import needs_prometheus
from tests.ports import free_port

TOKEN = "a token of users"
SECONDS_MAX = 120.0


@contextmanager
def program(module: str, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A program of grafana/ inside the block, asked to end after it."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**{k: v for k, v in os.environ.items() if not k.startswith("SCHED_")}, **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(SECONDS_MAX) == 0
        finally:
            process.kill()
            if process.stdout is not None:
                process.stdout.close()


@needs_prometheus
def test_dashboards_are_shown_over_a_daemon_with_a_token(tmp_path: Path) -> None:
    port, kept = free_port(), tmp_path / "kept"
    with running_daemon(tmp_path, http={"token": TOKEN}) as daemon:
        arguments = ("--state-dir", str(daemon.state_dir), "--directory", str(kept), "--prometheus-port", str(port))
        with program("grafana.show", *arguments) as shown:
            assert shown.stdout is not None
            assert daemon.url in shown.stdout.readline()
            url = f"http://127.0.0.1:{port}/api/v1/query"
            eventually(
                lambda: httpx.get(url, params={"query": "sched:slots:sum"}, timeout=60).json()["data"]["result"],
                "Prometheus has no slots",
                SECONDS_MAX,
            )
        assert (kept / "token").stat().st_mode & 0o777 == 0o600
        with pytest.raises(httpx.TransportError):
            httpx.get(url)


def test_without_a_daemon_there_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "grafana.show", "--state-dir", str(tmp_path), "--directory", str(tmp_path / "kept")],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("SCHED_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("dashboards: ")
    assert done.stderr.count("\n") == 1


@contextmanager
def receiver() -> Iterator[tuple[str, "queue.Queue[dict[str, Any]]"]]:
    """Takes annotations as Grafana's HTTP API does, but for the first one, which it refuses."""
    taken: queue.Queue[dict[str, Any]] = queue.Queue()
    refused = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if not refused.is_set():
                refused.set()
                self.send_error(503)
                return
            taken.put({"path": self.path, **body})
            answer = b'{"message": "Annotation added", "id": 1}'
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_events_of_jobs_become_marks_with_the_jobs_number(tmp_path: Path) -> None:
    with (
        running_daemon(tmp_path) as daemon,
        receiver() as (grafana, taken),
        program("grafana.annotate", "--url", daemon.url, "--grafana", grafana) as annotate,
    ):
        assert annotate.stdout is not None
        assert annotate.stdout.readline().startswith("following ")
        job = daemon.client.post("/v1/jobs", json={"command": ["true"]}).json()["id"]
        marks = [taken.get(timeout=SECONDS_MAX)]
        while marks[-1]["tags"][2] != "JOB_SUCCEEDED":
            marks.append(taken.get(timeout=SECONDS_MAX))
    assert [mark["tags"] for mark in marks[:2]] == [
        ["sched", str(job), kind] for kind in ("JOB_SUBMITTED", "JOB_STARTED")
    ]
    assert {mark["path"] for mark in marks} == {"/api/annotations"}
    assert all(mark["text"].startswith(f"Job {job}: ") and mark["time"] > 1e12 for mark in marks)
