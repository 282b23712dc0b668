"""Requests that cost the daemon more than their senders: each is refused in one line, and others are answered."""

import gzip
import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from selectors import EVENT_READ, DefaultSelector
from typing import Any, cast

import httpx
import psutil
import pytest

from scheduler.http.server.throttle import JOB_REQUESTS_MAX, WORKER_REQUESTS_MAX
from tests.daemon import Daemon, running_daemon
from tests.eventually import eventually

TOKEN = "0123456789abcdef"
METRICS_TOKEN = "fedcba9876543210"
MIB = 1024 * 1024
#: What an attack may add to the daemon's memory.
GROWTH_BYTES_MAX = 200 * MIB
#: More at once than a job of one worker may have.
LONG_POLLS = 100
JSON = "Content-Type: application/json"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("limits")
    with running_daemon(directory, slots=4, http={"token": TOKEN, "metrics_token": METRICS_TOKEN}) as running:
        yield running


@pytest.fixture(scope="module")
def workers(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[int, str], tuple[int, str]]:
    """Two running jobs: id and token of each."""
    found = []
    for number in (1, 2):
        path = tmp_path_factory.mktemp("token") / "token"
        command = f"echo $SCHED_TOKEN > {path}.new; mv {path}.new {path}; exec sleep 1000"
        job = daemon.client.post("/v1/jobs", json={"command": command, "name": f"job-{number}"}).json()["id"]
        eventually(path.exists, "the job does not start", 120)
        found.append((job, path.read_text().strip()))
    return found[0], found[1]


def head(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (*lines, "Host: localhost", "")).encode()


def said_to(daemon: Daemon, pieces: Iterable[bytes]) -> tuple[int, dict[str, Any]]:
    """Status and error of the answer to what is sent as long as the daemon takes it."""
    port = int(daemon.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                connection.sendall(piece)
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}}"):
            chunk = connection.recv(65536)
            if not chunk:
                break
            answer += chunk
    top, _, body = answer.partition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    assert "\n" not in error["message"]
    return int(top.split()[1]), error


def chunks(piece: bytes, count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def memory(daemon: Daemon) -> int:
    return int(psutil.Process(daemon.pid).memory_info().rss)


@pytest.mark.parametrize("chunked", [False, True])
def test_thirty_mebibytes_for_a_worker_s_endpoint_are_not_read(
    daemon: Daemon, workers: tuple[tuple[int, str], ...], chunked: bool
) -> None:
    job, token = workers[0]
    before = memory(daemon)
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {30 * MIB}"
    asked = head(f"POST /v1/jobs/{job}/workers/{job}-1 HTTP/1.1", f"Authorization: Bearer {token}", JSON, framing)
    status, error = said_to(daemon, [asked, *(chunks(b"[" * 65536, 480) if chunked else [b"[" * MIB] * 30)])
    assert (status, error["code"]) == (413, "too_large")
    assert error["message"] == "the body exceeds 65536 bytes"
    assert memory(daemon) - before < GROWTH_BYTES_MAX
    assert daemon.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "bytes_max"),
    [
        ("POST", "/v1/jobs", MIB),
        ("POST", "/v1/whatif", MIB),
        ("POST", "/v1/recurring", MIB),
        ("POST", "/v1/jobs/batch", 32 * MIB),
        ("POST", "/v1/bookings", 65536),
        ("PATCH", "/v1/jobs/1", 65536),
    ],
)
def test_each_route_has_its_limit_with_and_without_a_length(
    daemon: Daemon, method: str, path: str, bytes_max: int
) -> None:
    lines = [f"{method} {path} HTTP/1.1", f"Authorization: Bearer {TOKEN}", JSON]
    told = said_to(daemon, [head(*lines, f"Content-Length: {bytes_max + 1}")])
    body = chunks(b" " * 65536, bytes_max // 65536 + 1)
    streamed = said_to(daemon, [head(*lines, "Transfer-Encoding: chunked"), *body])
    assert [status for status, _ in (told, streamed)] == [413, 413]
    assert {error["message"] for _, error in (told, streamed)} == {f"the body exceeds {bytes_max} bytes"}


HEADS = {
    "a header of 60 MiB": [b"GET /healthz HTTP/1.1\r\nX: ", *[b"x" * MIB] * 60],
    "many headers": [b"GET /healthz HTTP/1.1\r\n", *[b"X: x\r\n"] * 200, b"\r\n"],
    "a huge query": [b"GET /v1/jobs?state=", b"x" * MIB, b" HTTP/1.1\r\n\r\n"],
    "a huge path": [b"GET /", b"x" * MIB, b" HTTP/1.1\r\n\r\n"],
    "a first line without an end": [b"GET /", *[b"x" * MIB] * 8],
}


ODD = [
    b"\x00\x01\x02\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
    b"GET http:///v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    head("GET /healthz HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket"),
    head("GET /v1/jobs HTTP/1.1", "Authorization: Bearer no-such-token"),
    head("POST /v1/jobs HTTP/1.1", f"Authorization: Bearer {TOKEN}", JSON, "Content-Length: 1") + b"{",
    head("POST /v1/jobs HTTP/1.1", f"Authorization: Bearer {TOKEN}", JSON, "Content-Length: 100") + b"{",
]


def test_what_clients_do_wrong_does_not_fill_the_log(daemon: Daemon) -> None:
    before = daemon.log()
    for said in ODD * 3:
        with socket.create_connection(("127.0.0.1", int(daemon.url.rpartition(":")[2])), timeout=60) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
    assert daemon.client.get("/healthz").status_code == 200
    assert daemon.log() == before


@pytest.mark.parametrize("name", HEADS)
def test_heads_are_not_kept_beyond_their_limit(daemon: Daemon, name: str) -> None:
    before = memory(daemon)
    status, error = said_to(daemon, HEADS[name])
    assert (status, error["code"]) == (431, "too_large")
    assert memory(daemon) - before < GROWTH_BYTES_MAX


@pytest.mark.parametrize(
    "piece", [b"1;" + b"x" * 1000 + b"\r\n \r\n", b"0\r\nX: " + b"x" * 200_000], ids=["extensions", "a trailer"]
)
def test_what_surrounds_a_body_has_a_limit(daemon: Daemon, piece: bytes) -> None:
    asked = head("POST /v1/jobs HTTP/1.1", f"Authorization: Bearer {TOKEN}", JSON, "Transfer-Encoding: chunked")
    status, error = said_to(daemon, [asked, *[piece] * 200])
    assert (status, error["code"]) == (400, "invalid")


def test_requests_sent_ahead_behind_one_that_waits_are_not_kept(
    daemon: Daemon, workers: tuple[tuple[int, str], ...]
) -> None:
    job, token = workers[0]
    before = memory(daemon)
    generation = json.loads(_hosts(daemon, job, token).text)["generation"]
    wait = f"GET /v1/jobs/{job}/discover_hosts?wait=20&generation={generation} HTTP/1.1"
    opened = []
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", int(daemon.url.rpartition(":")[2])))
        opened.append(connection)
        connection.sendall(f"{wait}\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        connection.setblocking(False)
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            for _ in range(100):
                connection.send(b"GET /healthz HTTP/1.1\r\n\r\n" * 40_000)
    assert daemon.client.get("/healthz").status_code == 200
    assert memory(daemon) - before < GROWTH_BYTES_MAX
    for connection in opened:
        connection.close()


def _hosts(daemon: Daemon, job: int, token: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
    return httpx.get(f"{daemon.url}/v1/jobs/{job}/discover_hosts", headers=headers, timeout=60)


def test_a_flood_with_one_job_s_token_is_refused_and_the_other_job_s_is_not(
    daemon: Daemon, workers: tuple[tuple[int, str], ...]
) -> None:
    (job, token), (other, others_token) = workers
    path = f"GET /v1/jobs/{job}/discover_hosts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    refused = b""
    with socket.create_connection(("127.0.0.1", int(daemon.url.rpartition(":")[2])), timeout=60) as connection:
        connection.sendall(path.encode() * 3000)
        while b" 429 " not in refused:
            chunk = connection.recv(65536)
            assert chunk, "all of them were answered"
            refused = refused[-1000:] + chunk
        assert _hosts(daemon, other, others_token).status_code == 200
        assert daemon.client.get("/v1/jobs").status_code == 200
        while b"retry-after: 1\r\n" not in refused.partition(b" 429 ")[2]:
            refused += connection.recv(65536)


def test_one_job_s_token_holds_no_more_long_polls_than_its_workers_need(
    daemon: Daemon, workers: tuple[tuple[int, str], ...]
) -> None:
    (job, token), (other, others_token) = workers
    # Asked once only: after a flood the next question may be refused again.
    generation = eventually(lambda: _hosts(daemon, job, token).json().get("generation"), "it is refused for ever")
    ask = f"GET /v1/jobs/{job}/discover_hosts?wait=60&generation={generation} HTTP/1.1\r\nHost: localhost\r\n"
    address = ("127.0.0.1", int(daemon.url.rpartition(":")[2]))
    with ExitStack() as opened, DefaultSelector() as answered:
        for _ in range(LONG_POLLS):
            connection = opened.enter_context(socket.create_connection(address, timeout=60))
            answered.register(connection, EVENT_READ)
            connection.sendall(f"{ask}Authorization: Bearer {token}\r\n\r\n".encode())
        # Which of them are refused is open: requests of many connections are read in no order.
        for _ in range(LONG_POLLS - JOB_REQUESTS_MAX - WORKER_REQUESTS_MAX):
            key, _events = answered.select(timeout=60)[0]
            answered.unregister(key.fileobj)
            assert cast(socket.socket, key.fileobj).recv(65536).startswith(b"HTTP/1.1 429 ")
        assert _hosts(daemon, other, others_token).status_code == 200


def test_a_compressed_body_is_never_unpacked(daemon: Daemon) -> None:
    bomb = gzip.compress(b" " * (64 * MIB))
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = daemon.client.post("/v1/jobs", content=bomb, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")


def test_a_large_batch_of_nonsense_is_refused(daemon: Daemon) -> None:
    before = memory(daemon)
    body = b'{"jobs": [{"command": [' + b"[]," * (10 * MIB) + b"1]}]}"
    headers = {"content-type": "application/json"}
    answer = daemon.client.post("/v1/jobs/batch", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["message"]) == (413, f"jobs.0 exceeds {MIB} bytes")
    assert memory(daemon) - before < GROWTH_BYTES_MAX


def test_the_token_of_metrics_opens_nothing_else(daemon: Daemon) -> None:
    headers = {"authorization": f"Bearer {METRICS_TOKEN}"}
    with httpx.Client(base_url=daemon.url, headers=headers, timeout=60) as prometheus:
        assert prometheus.get("/metrics").status_code == 200
        for path in ("/v1/jobs", "/v1/nodes", "/v1/events", "/v1/live", "/v1/jobs/1/discover_hosts"):
            assert prometheus.get(path).status_code == 401, path
        assert prometheus.post("/v1/jobs", json={"command": "true"}).status_code == 401
    assert httpx.get(f"{daemon.url}/metrics").status_code == 401
    assert daemon.client.get("/metrics").status_code == 200


def test_nothing_of_this_is_a_failure_of_the_daemon(daemon: Daemon) -> None:
    assert "Traceback" not in daemon.log()
    assert daemon.client.get("/readyz").status_code == 200
