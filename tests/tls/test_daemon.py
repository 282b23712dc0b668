"""A real daemon with TLS, and who comes to it: `sched`, workers, Prometheus."""

import json
import ssl
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.certificates import Authority
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
    worker = (
        "import os\n"
        "from scheduler.elastic.environment import Environment\n"
        "from scheduler.elastic.membership.client import Client, Standing\n"
        "client = Client(Environment.read(os.environ))\n"
        "assert client.report({'ready': True}).standing is Standing.OK\n"
        "while (found := client.discover(0, 10).standing) is Standing.WITHDRAWN: pass\n"
        "assert found is Standing.OK\n"
    )
    assert ended(daemon, command=[sys.executable, "-c", worker], workdir=str(ROOT)) == "SUCCEEDED", daemon.log()
