"""The UNIX socket of a real daemon: who may use it, and what the kernel's word about them opens."""

import grp
import json
import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemon import running_daemon

TOKEN = "0123456789abcdef"
#: Becomes another user, asks the daemon at a socket, and prints status and answer.
ASK = """
import http.client, json, os, socket, sys
path, method, target, body, uid, gid = sys.argv[1:]
os.setgroups([]); os.setgid(int(gid)); os.setuid(int(uid))
link = http.client.HTTPConnection("localhost")
link.sock = socket.socket(socket.AF_UNIX)
try:
    link.sock.connect(path)
except OSError as error:
    sys.exit(type(error).__name__)
link.request(method, target, body or None, {"content-type": "application/json"})
answer = link.getresponse()
print(json.dumps([answer.status, json.loads(answer.read())]))
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


def asked(path: Path, method: str, target: str, body: Any = None, *, gid: int | None = None) -> tuple[int, Any]:
    """What the daemon answers to nobody, who is in this group; None: in its own."""
    nobody = pwd.getpwnam("nobody")
    words = [str(path), method, target, "" if body is None else json.dumps(body), str(nobody.pw_uid)]
    words.append(str(nobody.pw_gid if gid is None else gid))
    run = subprocess.run([sys.executable, "-c", ASK, *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    status, document = json.loads(run.stdout)
    return status, document


def by_socket(path: Path) -> httpx.Client:
    return httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost", timeout=60)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that every user reaches."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_the_daemons_own_user_is_an_administrator_without_a_token(tmp_path: Path) -> None:
    login = pwd.getpwuid(os.geteuid()).pw_name
    with running_daemon(tmp_path, http={"token": TOKEN}) as daemon:
        path = daemon.state_dir / "sched.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with by_socket(path) as client:
            found = client.get("/v1/whoami").json()
            assert (found["user"], found["role"], found["identified_by"]) == (login, "admin", "login")
            job_id = client.post("/v1/jobs", json={"command": "true"}).json()["id"]
            assert client.get(f"/v1/jobs/{job_id}").json()["user"] == login
            told = client.get("/v1/whoami", headers={"authorization": f"Bearer {TOKEN}"}).json()
            assert told["identified_by"] == "http.token", "a token that is sent counts"
            assert client.get("/v1/whoami", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert httpx.get(f"{daemon.url}/v1/whoami").status_code == 401
        assert daemon.stop() == 0
        assert not path.exists()


def test_a_daemon_that_was_killed_leaves_a_socket_that_the_next_one_replaces(tmp_path: Path) -> None:
    with running_daemon(tmp_path) as daemon:
        path = daemon.state_dir / "sched.sock"
        daemon.kill()
        assert path.is_socket()
        daemon.start()
        with by_socket(path) as client:
            assert client.get("/v1/whoami").json()["identified_by"] == "login"


@needs_root
def test_members_of_the_group_come_by_their_login_and_address_and_forged_names_open_nothing(
    tmp_path: Path, reachable: Path
) -> None:
    path, group = reachable / "sched.sock", "daemon"
    gid = grp.getgrnam(group).gr_gid
    with running_daemon(tmp_path, http={"socket": path, "socket_group": group}) as daemon:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        status, found = asked(path, "GET", "/v1/whoami", gid=gid)
        assert (status, found["user"], found["role"], found["identified_by"]) == (200, "nobody", "user", "login")
        assert httpx.get(f"{daemon.url}/v1/jobs").status_code == 401, "at the address nobody is known"
        with by_socket(path) as root:
            job_id = root.post("/v1/jobs", json={"command": "sleep 600"}).json()["id"]
            status, told = asked(path, "POST", f"/v1/jobs/{job_id}/cancel", gid=gid)
            assert (status, told["error"]["code"]) == (403, "forbidden")
            status, told = asked(path, "POST", "/v1/jobs", {"command": "true", "user": "root"}, gid=gid)
            assert (status, told["error"]["field"]) == (403, "user")
            assert asked(path, "GET", "/v1/tokens", gid=gid)[0] == 403
            status, mine = asked(path, "POST", "/v1/jobs", {"command": "sleep 600"}, gid=gid)
            assert status == 201
            assert root.get(f"/v1/jobs/{mine['id']}").json()["user"] == "nobody"
            assert asked(path, "POST", f"/v1/jobs/{mine['id']}/cancel", gid=gid)[0] == 202
            assert root.post(f"/v1/jobs/{job_id}/cancel").status_code == 202


@needs_root
def test_who_is_not_in_the_group_is_stopped_by_the_kernel(tmp_path: Path, reachable: Path) -> None:
    path = reachable / "sched.sock"
    shared = running_daemon(tmp_path, http={"socket": path, "socket_group": "daemon"})
    with shared, pytest.raises(AssertionError, match="PermissionError"):
        asked(path, "GET", "/v1/whoami")
