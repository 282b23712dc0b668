"""Workers reach the daemon through a proxy that adds TLS, and check its certificate."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.daemon import ROOT, Daemon, running_daemon
from tests.eventually import eventually
from tests.ports import free_port
from tests.tls_front import tls_front

#: Exits with 0 if the daemon takes its report and has its hosts, with 3 if it cannot be reached.
WORKER = """
import os
from scheduler.elastic.environment import Environment
from scheduler.elastic.membership.client import Client, Standing
client = Client(Environment.read(os.environ))
if client.report({"ready": True}).standing is Standing.AWAY:
    raise SystemExit(3)
while (found := client.discover(0, 10).standing) is Standing.WITHDRAWN:
    pass
raise SystemExit(0 if found is Standing.OK else 4)
"""


def ended(daemon: Daemon, **fields: Any) -> str:
    """The state in which such a worker's job ends."""
    body = {"command": [sys.executable, "-c", WORKER], "workdir": str(ROOT), "max_retries": 0, **fields}
    job = daemon.client.post("/v1/jobs", json=body).raise_for_status().json()["id"]

    def state() -> str | None:
        found: str = daemon.client.get(f"/v1/jobs/{job}").json()["state"]
        return found if found in ("SUCCEEDED", "FAILED") else None

    return eventually(state, "the job ends") or ""


def test_workers_report_and_get_their_hosts_over_tls_from_the_right_daemon_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.made(tmp_path)
    (tmp_path / "else").mkdir()
    other = Authority.made(tmp_path / "else")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    port = free_port()
    with tls_front(port, authority.server(tmp_path)) as outside:
        http = {"port": port, "workers_url": f"https://127.0.0.1:{outside}"}
        with running_daemon(tmp_path, http=http) as daemon:
            assert ended(daemon) == "SUCCEEDED", daemon.log()
            assert ended(daemon, env={"SSL_CERT_FILE": str(other.file)}) == "FAILED"
