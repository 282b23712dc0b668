"""Where the secret of a token may not be found: the log of the daemon and its database."""

from pathlib import Path

import httpx

from tests.daemon import running_daemon

TOKEN = "0123456789abcdef"
ADMIN = {"authorization": f"Bearer {TOKEN}"}


def test_the_secret_of_a_token_stands_neither_in_the_log_nor_in_the_database(tmp_path: Path) -> None:
    with running_daemon(tmp_path, http={"token": TOKEN}) as daemon:
        made = httpx.post(f"{daemon.url}/v1/tokens", json={"user": "ann"}, headers=ADMIN).json()
        ann = {"authorization": f"Bearer {made['token']}"}
        assert httpx.get(f"{daemon.url}/v1/whoami", headers=ann).json()["user"] == "ann"
        assert httpx.get(f"{daemon.url}/v1/tokens", headers=ann).status_code == httpx.codes.FORBIDDEN
        assert httpx.delete(f"{daemon.url}/v1/tokens/{made['id']}", headers=ADMIN).is_success
        assert httpx.get(f"{daemon.url}/v1/whoami", headers=ann).status_code == httpx.codes.UNAUTHORIZED
        daemon.stop()
    written = [daemon.log_path, *daemon.state_dir.glob("sched.db*")]
    assert len(written) > 1
    for path in written:
        assert made["token"].encode() not in path.read_bytes(), path


def test_the_last_requests_before_a_stop_are_in_the_audit(tmp_path: Path) -> None:
    with running_daemon(tmp_path, http={"token": TOKEN}) as daemon:
        httpx.get(f"{daemon.url}/v1/nodes")
        made = httpx.post(f"{daemon.url}/v1/tokens", json={"user": "ann"}, headers=ADMIN).json()
        daemon.stop()
        daemon.start()
        records = httpx.get(f"{daemon.url}/v1/audit", headers=ADMIN).json()["records"]
    assert [(record["method"], record["route"], record["status"]) for record in records] == [
        ("GET", "/v1/nodes", 401),
        ("POST", "/v1/tokens", 201),
    ]
    assert made["token"] not in str(records)
