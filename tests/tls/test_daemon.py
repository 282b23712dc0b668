"""A real daemon with TLS: its address, its workers, and certificates that are renewed while it is asked."""

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.certificates import Authority, self_signed
from tests.daemon import ROOT, Daemon, running_daemon
from tests.eventually import eventually

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("tls")
    http = {**authority.issue(directory / "pair").settings, "tls_ca": authority.file, "token": TOKEN}
    with running_daemon(directory, http=http) as running:
        yield running


#: Exits with 0 if the daemon takes its report and has its hosts.
WORKER = """
import os
from scheduler.elastic.environment import Environment
from scheduler.elastic.membership.client import Client, Standing
client = Client(Environment.read(os.environ))
assert client.report({"ready": True}).standing is Standing.OK
while (found := client.discover(0, 10).standing) is Standing.WITHDRAWN:
    pass
assert found is Standing.OK
"""


def ended(daemon: Daemon, **fields: Any) -> str:
    """The state in which a job ends."""
    job = daemon.client.post("/v1/jobs", json={"max_retries": 0, **fields}).raise_for_status().json()["id"]

    def state() -> str | None:
        found: str = daemon.client.get(f"/v1/jobs/{job}").json()["state"]
        return found if found in ("SUCCEEDED", "FAILED") else None

    return eventually(state, "the job ends") or ""


def test_the_address_is_announced_as_it_is_and_the_unix_socket_stays_plain(daemon: Daemon) -> None:
    announced = json.loads((daemon.state_dir / "daemon.json").read_text())
    assert announced["url"] == daemon.url
    with httpx.Client(transport=httpx.HTTPTransport(uds=announced["socket"]), base_url="http://localhost") as local:
        assert local.get("/v1/whoami").json()["role"] == "admin"


def test_who_does_not_trust_the_certificate_gets_no_connection(daemon: Daemon) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{daemon.url}/healthz", verify=ssl.create_default_context())


def test_plain_http_is_told_what_to_use(daemon: Daemon) -> None:
    told = httpx.get(daemon.url.replace("https:", "http:") + "/healthz")
    assert told.status_code == 400
    assert told.json()["error"]["message"] == "this address speaks TLS: use https:// in place of http://"


def test_workers_report_and_get_their_hosts_over_tls(daemon: Daemon) -> None:
    assert ended(daemon, command=[sys.executable, "-c", WORKER], workdir=str(ROOT)) == "SUCCEEDED", daemon.log()


@pytest.mark.parametrize("asked", [False, True], ids=["it vouches for itself", "workers show a certificate"])
def test_workers_trust_what_the_settings_name(tmp_path: Path, authority: Authority, asked: bool) -> None:
    http = dict(self_signed(tmp_path / "self").settings)
    if asked:
        own = authority.issue(tmp_path / "own", name="worker")
        http |= {"tls_client_ca": authority.file}
        http |= {"tls_client_certificate": own.certificate, "tls_client_key": own.key}
    with running_daemon(tmp_path, http=http) as daemon:
        assert ended(daemon, command=[sys.executable, "-c", WORKER], workdir=str(ROOT)) == "SUCCEEDED", daemon.log()


def test_a_worker_in_a_pod_trusts_what_its_variable_holds(daemon: Daemon, authority: Authority) -> None:
    """As `Certificates.pod_variables` has it; on one machine there is a file besides."""
    named = 'os.environ["SCHED_CA_DATA"] = os.environ["PEM"]\ndel os.environ["SCHED_CA"]\nclient = '
    command = [sys.executable, "-c", WORKER.replace("client = ", named)]
    assert ended(daemon, command=command, workdir=str(ROOT), env={"PEM": authority.file.read_text()}) == "SUCCEEDED"


def test_a_worker_that_cannot_trust_the_daemon_says_so_once_in_its_log(daemon: Daemon, tmp_path: Path) -> None:
    worker = WORKER.replace("client = ", 'os.environ["SCHED_CA"] = os.environ["OTHER_CA"]\nclient = ')
    other = Authority.made(tmp_path / "else").file
    command = [sys.executable, "-c", worker.replace("assert client", "client.report({})\nassert client")]
    assert ended(daemon, command=command, workdir=str(ROOT), env={"OTHER_CA": str(other)}) == "FAILED"
    job = daemon.client.get("/v1/jobs", params={"limit": 1, "order": "desc"}).json()["jobs"][0]["id"]
    log = daemon.client.get(f"/v1/jobs/{job}/logs").text
    assert log.count(f"no encrypted connection to the scheduler at {daemon.url}") == 1
    assert "CERTIFICATE_VERIFY_FAILED" in log
    assert f"SCHED_CA={other}" in log


class Asking(threading.Thread):
    """Asks all the time, on connections of its own and on one that is kept; notes what fails."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__()
        self._daemon = daemon
        self.enough = threading.Event()
        self.failed: list[str] = []
        self.answered = 0

    def run(self) -> None:
        trust = self._daemon.trusting()
        with httpx.Client(base_url=self._daemon.url, timeout=60, verify=trust) as kept:
            while not self.enough.is_set():
                try:
                    kept.get("/healthz").raise_for_status()
                    httpx.get(f"{self._daemon.url}/healthz", timeout=60, verify=trust).raise_for_status()
                    self.answered += 1
                except httpx.HTTPError as error:
                    self.failed.append(repr(error))


def end_of_certificate(daemon: Daemon) -> float:
    """As the metric says."""
    found = re.search(r"^sched_tls_certificate_end_timestamp_seconds (\S+)$", daemon.client.get("/metrics").text, re.M)
    assert found is not None
    return float(found[1])


def serial_of(daemon: Daemon) -> int:
    """Of the certificate that a new connection is shown."""
    trust = daemon.trusting()
    assert isinstance(trust, ssl.SSLContext)
    address = ("127.0.0.1", int(daemon.url.rpartition(":")[2]))
    with (
        socket.create_connection(address, timeout=60) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
    ):
        shown = encrypted.getpeercert()
    assert shown is not None
    return int(str(shown["serialNumber"]), 16)


def test_a_certificate_is_renewed_and_a_broken_one_passed_over_while_no_request_fails(
    tmp_path: Path, authority: Authority
) -> None:
    pair = authority.issue(tmp_path / "pair")
    with running_daemon(tmp_path, http={**pair.settings, "tls_ca": authority.file}) as daemon:
        asking = Asking(daemon)
        asking.start()
        try:
            before, first = end_of_certificate(daemon), serial_of(daemon)
            pair.certificate.write_text("-----BEGIN CERTIFICATE-----\n")
            told = f"certificate: http.tls_certificate: {pair.certificate}: holds no certificate in PEM"
            eventually(lambda: told in daemon.client.get("/v1/cluster").json()["troubles"], "it is not told", 120)
            assert daemon.client.get("/readyz").status_code == 200
            assert serial_of(daemon) == first
            authority.issue(tmp_path / "pair", valid=timedelta(days=90))
            eventually(lambda: end_of_certificate(daemon) > before, "it is not read", 120)
            assert serial_of(daemon) != first
            assert daemon.client.get("/v1/cluster").json()["troubles"] == []
            answered = asking.answered
            eventually(lambda: asking.answered > answered, "nobody is answered any more")
        finally:
            asking.enough.set()
            asking.join()
        assert asking.failed == []


def test_what_cannot_be_served_keeps_the_daemon_from_starting_with_one_line(
    tmp_path: Path, authority: Authority
) -> None:
    pair = authority.issue(tmp_path / "pair", name="10.0.0.1")
    settings = {"SCHED_HTTP__TLS_CERTIFICATE": pair.certificate, "SCHED_HTTP__TLS_KEY": pair.key}
    settings |= {"SCHED_HTTP__TLS_CA": authority.file, "SCHED_HTTP__PORT": 0, "SCHED_STATE_DIR": tmp_path / "state"}
    environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    command = [sys.executable, "-m", "scheduler.cli", "serve"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith(f"sched: http.tls_certificate: {pair.certificate}: IP address")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state" / "sched.db").exists()
