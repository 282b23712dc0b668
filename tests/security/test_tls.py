"""Attacks on TLS: handshakes that never end, or never stop, noise, and callers without a certificate."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.certificates import Authority
from tests.daemon import Daemon, running_daemon
from tests.eventually import eventually
from tests.security.test_http_slow import GROWTH_BYTES_MAX, MANY, TOKEN, assert_answers, attackers, running_job


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> dict[str, object]:
    pair = authority.issue(tmp_path_factory.mktemp("pair"))
    return {**pair.settings, "tls_ca": authority.file, "token": TOKEN}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, http: dict[str, object]) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("tls"), slots=4, http=http) as running:
        yield running


def connected(daemon: Daemon) -> socket.socket:
    """Without TLS so far."""
    return socket.create_connection(("127.0.0.1", int(daemon.url.rpartition(":")[2])), timeout=60)


@pytest.mark.parametrize(
    ("kind", "count"),
    [("silent", 1000), ("hello", 300), ("handshakes", 20), ("noise", 20), ("plain", 20), ("drip", 100), ("body", 100)]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in (("silent", MANY), ("hello", 2000))],
)
def test_handshakes_that_never_end_or_never_stop_keep_nobody_waiting(daemon: Daemon, kind: str, count: int) -> None:
    job = running_job(daemon)
    process = psutil.Process(daemon.pid)
    before = process.memory_info().rss
    with attackers(kind, count, daemon, TOKEN):
        assert_answers(daemon, job)
    assert process.memory_info().rss - before < GROWTH_BYTES_MAX
    daemon.client.post(f"/v1/jobs/{job}/cancel")
    assert "Traceback" not in daemon.log()


@pytest.mark.parametrize("path", ["/v1/live", "/metrics"])
def test_clients_that_never_read_hold_neither_memory_nor_others(daemon: Daemon, path: str) -> None:
    job = running_job(daemon)
    process = psutil.Process(daemon.pid)
    before = process.memory_info().rss
    with attackers("unread", 50, daemon, TOKEN, path):
        assert_answers(daemon, job)
    assert process.memory_info().rss - before < GROWTH_BYTES_MAX
    daemon.client.post(f"/v1/jobs/{job}/cancel")


def test_connections_in_a_handshake_count_and_give_way_to_newcomers(tmp_path: Path, http: dict[str, object]) -> None:
    with running_daemon(tmp_path, slots=2, http={**http, "connections_max": 200}) as daemon:
        job = running_job(daemon)
        with attackers("hello", 400, daemon):
            assert_answers(daemon, job, kept=False)
            assert psutil.Process(daemon.pid).num_fds() < 500
        headers = {"authorization": f"Bearer {TOKEN}"}
        metrics = httpx.get(f"{daemon.url}/metrics", headers=headers, timeout=60, verify=daemon.trusting()).text
    assert 'sched_http_ended_connections_total{reason="crowded"} 0' not in metrics


def test_a_handshake_has_a_deadline(tmp_path: Path, http: dict[str, object]) -> None:
    with running_daemon(tmp_path, http={**http, "header_seconds": 0.2}) as daemon:
        for said in (b"", b"\x16", b"\x16\x03\x01\x10\x00\x01"):
            with connected(daemon) as connection:
                connection.sendall(said)
                assert connection.recv(1) == b""


def test_noise_and_plain_requests_end_at_once(daemon: Daemon) -> None:
    with connected(daemon) as connection:
        connection.sendall(b"\x16\x03\x01\x00\x04" + b"\xff" * 4)
        assert connection.recv(1) == b"\x15"  # an alert
        while connection.recv(4096):
            pass
    with connected(daemon) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_old_versions_of_tls_are_refused(daemon: Daemon, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.file))
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with connected(daemon) as connection, pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        context.wrap_socket(connection, server_hostname="127.0.0.1")


def test_a_daemon_stops_while_handshakes_hang(tmp_path: Path, http: dict[str, object]) -> None:
    with running_daemon(tmp_path, http={**http, "header_seconds": 3600}) as daemon:
        opened = [connected(daemon) for _ in range(20)]
        for connection in opened[10:]:
            connection.sendall(b"\x16\x03\x01\x10\x00\x01")
        counted = f"sched_http_connections {len(opened) + 1}\n"  # with that of the client
        eventually(lambda: counted in daemon.client.get("/metrics").text, "they are not counted")
        assert daemon.stop() == 0
        assert "Cancel" not in daemon.log()
        assert "Traceback" not in daemon.log()
        for connection in opened:
            assert connection.recv(1) == b""
            connection.close()


def test_nobody_comes_in_without_a_certificate_where_one_is_asked_for(
    tmp_path: Path, http: dict[str, object], authority: Authority
) -> None:
    own = authority.issue(tmp_path / "own", name="worker")
    stranger = Authority.made(tmp_path / "else").issue(tmp_path / "stranger", name="worker")
    asking = {"tls_client_ca": authority.file, "tls_client_certificate": own.certificate, "tls_client_key": own.key}
    with running_daemon(tmp_path, http={**http, **asking}) as daemon:
        headers = {"authorization": f"Bearer {TOKEN}"}
        for shown in (None, stranger):
            context = ssl.create_default_context(cafile=str(authority.file))
            if shown is not None:
                context.load_cert_chain(shown.certificate, shown.key)
            for path in ("/healthz", "/v1/jobs", "/metrics"):
                with pytest.raises(httpx.TransportError, match="ALERT"):
                    httpx.get(daemon.url + path, headers=headers, verify=context)
        assert daemon.client.get("/v1/jobs").status_code == 200
        nobody = httpx.get(f"{daemon.url}/v1/jobs", verify=daemon.trusting())
        assert nobody.status_code == 401, "a certificate is no token"
        daemon.client.post("/v1/jobs", json={"command": "true"}).raise_for_status()
