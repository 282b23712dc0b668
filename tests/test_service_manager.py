"""What a real daemon tells the service manager that has started it."""

import os
import socket
from pathlib import Path

import pytest

from scheduler.daemon.service_manager import ServiceManager
from tests.daemon import running_daemon

SECONDS_MAX = 240.0


def listening(address: str) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    link.bind(address)
    link.settimeout(SECONDS_MAX)
    return link


def heard(link: socket.socket, wanted: str) -> None:
    """Wait until that is said."""
    while link.recv(4096).decode() != wanted:
        pass


def test_a_daemon_says_that_it_is_ready_alive_and_stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(str(tmp_path / "notify")) as link:
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        with running_daemon(tmp_path) as daemon:
            assert link.recv(4096) == b"READY=1"
            for _ in range(3):
                assert link.recv(4096) == b"WATCHDOG=1"
            job = daemon.client.post("/v1/jobs", json={"command": "env"}).json()["id"]
            next(event for event in daemon.events(job=job) if event["kind"] == "JOB_SUCCEEDED")
            assert "NOTIFY_SOCKET" not in daemon.client.get(f"/v1/jobs/{job}/logs").text
            daemon.stop()
            heard(link, "STOPPING=1")


def test_a_manager_that_watches_another_process_gets_no_signs_of_life(tmp_path: Path) -> None:
    with listening(f"\0sched-test-{os.getpid()}") as link:
        environ = {"NOTIFY_SOCKET": f"@sched-test-{os.getpid()}", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
        manager = ServiceManager.of(environ)
        manager.beat(1.0)
        manager.stopping()
        assert link.recv(4096) == b"STOPPING=1"
        manager = ServiceManager.of({**environ, "WATCHDOG_PID": str(os.getpid())})
        for now in (1.0, 1.4, 1.5):
            manager.beat(now)
        manager.ready()
        assert [link.recv(4096) for _ in range(3)] == [b"WATCHDOG=1", b"WATCHDOG=1", b"READY=1"]


def test_without_a_manager_or_after_its_end_nothing_happens(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "none"}):
        manager = ServiceManager.of(environ)
        manager.ready()
        manager.beat(0.0)
        manager.stopping()
