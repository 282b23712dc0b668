"""Clients that say nothing, say it slowly, or never listen: they keep nobody from being answered."""

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.daemon import ROOT, Daemon, running_daemon
from tests.eventually import eventually

TOKEN = "0123456789abcdef"
GROWTH_BYTES_MAX = 512 * 1024 * 1024
QUESTIONS = 40
#: Files that one process may have open here; `MANY` is 10,000 connections or three quarters of this.
FILES_MAX = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
MANY = 10_000 if FILES_MAX == resource.RLIM_INFINITY else min(10_000, FILES_MAX * 3 // 4)


@contextmanager
def attackers(kind: str, count: int, daemon: Daemon, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run `count` attackers of a kind, all connected."""
    program = Path(__file__).with_name("http_attackers.py")
    command = [sys.executable, str(program), kind, str(count), daemon.url, *more]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.poll() is None, "the attackers gave up"
    finally:
        process.kill()
        process.communicate()


def assert_answers(daemon: Daemon, job: int, *, kept: bool = True) -> None:
    """Questions for hosts are answered, each on a connection of its own, and if `kept` all on one."""
    path = f"/v1/jobs/{job}/discover_hosts"
    headers, trust = {"authorization": f"Bearer {TOKEN}"}, daemon.trusting()
    for _ in range(QUESTIONS):
        assert httpx.get(daemon.url + path, headers=headers, timeout=60, verify=trust).status_code == 200
        if kept:
            assert daemon.client.get(path).status_code == 200


def running_job(daemon: Daemon) -> int:
    job = int(daemon.client.post("/v1/jobs", json={"command": "exec sleep 1000"}).json()["id"])
    path = f"/v1/jobs/{job}/discover_hosts"
    eventually(lambda: daemon.client.get(path).status_code == 200, "the job does not start", 120)
    return job


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("slow"), slots=4, http={"token": TOKEN}) as running:
        yield running


@pytest.mark.parametrize(
    ("kind", "count"),
    [("silent", 1000), ("drip", 200), ("body", 200), ("blank", 200)]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in (("silent", MANY), ("drip", 1000), ("body", 1000))],
)
def test_slow_clients_keep_nobody_waiting(daemon: Daemon, kind: str, count: int) -> None:
    job = running_job(daemon)
    process = psutil.Process(daemon.pid)
    before = process.memory_info().rss
    with attackers(kind, count, daemon, TOKEN):
        assert_answers(daemon, job)
    assert process.memory_info().rss - before < GROWTH_BYTES_MAX
    daemon.client.post(f"/v1/jobs/{job}/cancel")


@pytest.mark.parametrize("path", ["/v1/live", "/metrics", "/v1/events?limit=1000"])
def test_clients_that_never_read_hold_neither_memory_nor_others(daemon: Daemon, path: str) -> None:
    job = running_job(daemon)
    process = psutil.Process(daemon.pid)
    before = process.memory_info().rss
    with attackers("unread", 100, daemon, TOKEN, path):
        assert_answers(daemon, job)
        changed = daemon.client.post("/v1/jobs", json={"command": "true"})
        assert changed.status_code == 201
    assert process.memory_info().rss - before < GROWTH_BYTES_MAX
    daemon.client.post(f"/v1/jobs/{job}/cancel")


def test_when_all_connections_are_in_use_newcomers_take_the_places_of_silent_ones(tmp_path: Path) -> None:
    with running_daemon(tmp_path, slots=2, http={"token": TOKEN, "connections_max": 400}) as daemon:
        job = running_job(daemon)
        with attackers("silent", 600, daemon):
            # An idle connection may have to give way; a client then makes another.
            assert_answers(daemon, job, kept=False)
            assert psutil.Process(daemon.pid).num_fds() < 800
        headers = {"authorization": f"Bearer {TOKEN}"}
        metrics = httpx.get(f"{daemon.url}/metrics", headers=headers, timeout=60).text
    assert 'sched_http_ended_connections_total{reason="crowded"} 0' not in metrics


def test_a_daemon_without_free_files_goes_on_and_recovers(tmp_path: Path) -> None:
    with running_daemon(tmp_path, slots=2, http={"token": TOKEN}) as daemon:
        job = running_job(daemon)
        process = psutil.Process(daemon.pid)
        limits = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (process.num_fds() + 20, limits[1]))
        address = ("127.0.0.1", int(daemon.url.rpartition(":")[2]))
        opened = [socket.create_connection(address, timeout=60) for _ in range(200)]
        answered = [daemon.client.get(f"/v1/jobs/{job}/discover_hosts").status_code for _ in range(QUESTIONS)]
        assert answered == [200] * QUESTIONS
        assert daemon.is_running()
        for connection in opened:
            connection.close()
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, limits)
        eventually(lambda: daemon.client.get("/readyz").status_code == 200, "it does not recover", 60)
        assert_answers(daemon, job)


def test_no_address_takes_all_live_streams(daemon: Daemon) -> None:
    opened = []
    port = int(daemon.url.rpartition(":")[2])
    ask = f"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    for _ in range(300):
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.sendall(ask)
        opened.append(connection)
    statuses = [connection.recv(12) for connection in opened]
    assert statuses.count(b"HTTP/1.1 200") >= 250
    assert b"HTTP/1.1 503" in statuses
    with socket.create_connection(("127.0.0.1", port), timeout=60, source_address=("127.0.0.2", 0)) as other:
        other.sendall(ask)
        assert other.recv(12) == b"HTTP/1.1 200"
    for connection in opened:
        connection.close()
