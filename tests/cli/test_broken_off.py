"""A connection that breaks after a request was sent doubles nothing, and what was made is found again."""

import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest

from tests.cli.calls import Call
from tests.daemon import Daemon

Sched = Callable[..., Call]

WINDOW = ("--start", "2040-05-01T18:00", "--duration", "90m")


class _Breaking(socketserver.StreamRequestHandler):
    """Passes the first request of a client on to the daemon and never gives the answer back; then all."""

    upstream: ClassVar[tuple[str, int]]
    seen: ClassVar[list[bytes]]

    def handle(self) -> None:
        head = b"".join(iter(self.rfile.readline, b"\r\n"))
        lengths = re.findall(rb"(?i)^content-length: (\d+)", head, re.MULTILINE)
        asked = head + b"\r\n" + self.rfile.read(sum(map(int, lengths)))
        with socket.create_connection(self.upstream, timeout=60) as daemon:
            daemon.sendall(asked.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = b"".join(iter(lambda: daemon.recv(65536), b""))
        self.seen.append(asked)
        if len(self.seen) > 1:
            self.wfile.write(answer)


@contextmanager
def breaking(daemon: Daemon) -> Iterator[tuple[str, list[bytes]]]:
    """An address of the daemon at which the first answer gets lost, and what is asked there."""

    class Handler(_Breaking):
        upstream = ("127.0.0.1", int(daemon.url.rpartition(":")[2]))
        seen: ClassVar[list[bytes]] = []

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}", Handler.seen
        proxy.shutdown()


def test_a_connection_that_breaks_doubles_no_job(sched: Sched, daemon: Daemon) -> None:
    with breaking(daemon) as (url, seen):
        job = sched("submit", "--url", url, "-o", "json", "--name", "broken-off", "--", "true").ok().document["id"]
    assert len(seen) == 2
    jobs = daemon.client.get("/v1/jobs", params={"limit": 1000}).json()["jobs"]
    assert [each["id"] for each in jobs if each["name"] == "broken-off"] == [job]


def test_a_connection_that_breaks_doubles_no_recurring_job(sched: Sched, daemon: Daemon) -> None:
    with breaking(daemon) as (url, seen):
        words = ("--cron", "0 3 1 1 *", "--name", "yearly-broken-off", "-o", "json", "--", "true")
        made = sched("submit", "--url", url, *words).ok().document["id"]
    assert len(seen) == 2
    recurring = daemon.client.get("/v1/recurring").json()["recurring"]
    assert [each["id"] for each in recurring if each["name"] == "yearly-broken-off"] == [made]
    daemon.client.delete(f"/v1/recurring/{made}").raise_for_status()


@pytest.mark.parametrize("size", [("--slots", "2", "--slots-per-worker", "2", "--user", "ann"), ("--nodes", "1")])
def test_a_booking_that_was_made_is_found_after_its_connection_broke(
    sched: Sched, daemon: Daemon, size: tuple[str, ...]
) -> None:
    with breaking(daemon) as (url, seen):
        made = sched("book", "broken-off", "--url", url, *WINDOW, *size, "-o", "json").ok().document
    assert len(seen) == 3, "the request, the request again, and the look at what is there"
    [stored] = daemon.client.get("/v1/bookings").json()["bookings"]
    assert made == {key: stored[key] for key in ("name", "start_at", "end_at", "slots")}
    sched("unbook", "broken-off").ok()


def test_another_booking_of_the_name_is_no_answer(sched: Sched, daemon: Daemon) -> None:
    sched("book", "taken", *WINDOW, "--slots", "1").ok()
    with breaking(daemon) as (url, _):
        call = sched("book", "taken", "--url", url, *WINDOW, "--slots", "2")
    call.failed(4, "booking taken already exists: use another name")
    sched("unbook", "taken").ok()
