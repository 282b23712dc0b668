"""`sched login` and `sched whoami` with a token of an issuer, and a real daemon that believes it."""

import io
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from scheduler.cli.client.login import login_file
from tests.cli.calls import Call
from tests.daemon import ROOT, Daemon, running_daemon
from tests.issuer import Issuer

Sched = Callable[..., Call]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer().listening() as listening:
        yield listening


@pytest.fixture(scope="module")
def believing(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[Daemon]:
    """A daemon that has no token but those of the issuer."""
    settings = issuer.settings(roles="ml=operator, staff = viewer", queues="ml=lab")
    with running_daemon(tmp_path_factory.mktemp("believing"), oidc=settings) as daemon:
        yield daemon


def test_a_token_of_the_issuer_is_stored_and_used(
    alone: Sched, tmp_path: Path, believing: Daemon, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SCHED_STATE_DIR")
    # Longer than what a terminal takes as one line.
    token = issuer.token(time.time(), groups=["ml"], padding="x" * 6000)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n"))
    said = alone("login", believing.url).ok().out
    assert said == f"logged in to {believing.url} as ann (operator); stored in {login_file()}\n"
    shown = {words[0]: words[1:] for words in map(str.split, alone("whoami").ok().out.splitlines())}
    assert shown["user"] == ["ann"]
    assert " ".join(shown["known"]) == "by a token of its issuer (OpenID Connect)"
    assert "expires" in shown
    assert shown["queue"] == ["lab"]
    alone("submit", "--queue", "nowhere", "--", "true").failed(2, "queue", "nowhere")
    monkeypatch.setattr("sys.stdin", io.StringIO(issuer.token(time.time(), exp=int(time.time()) - 3600)))
    alone("login", believing.url).failed(6, "the token of ann has expired: get a new one from the issuer")


def test_from_an_issuer_on_everybody_needs_a_token_but_at_the_socket(believing: Daemon, issuer: Issuer) -> None:
    assert httpx.get(f"{believing.url}/v1/jobs").status_code == httpx.codes.UNAUTHORIZED
    socket = httpx.HTTPTransport(uds=str(believing.state_dir / "sched.sock"))
    with httpx.Client(transport=socket, base_url="http://localhost") as client:
        assert client.get("/v1/whoami").json()["role"] == "admin"


def test_an_issuer_without_its_library_is_one_line(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['jwt'] = None; from scheduler.daemon.__main__ import main; sys.exit(main([]))"
    environment = {
        "SCHED_STATE_DIR": str(tmp_path / "state"),
        "SCHED_HTTP__PORT": "0",
        "SCHED_OIDC__ISSUER": "https://login.example.org",
        "SCHED_OIDC__AUDIENCE": "sched",
        "PYTHONPATH": str(ROOT),
    }
    run = subprocess.run([sys.executable, "-c", hide], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode != 0
    last = run.stderr.splitlines()[-1]
    assert "setting oidc.issuer: jwt is not installed: pip install 'elastic-gpu-scheduler[oidc]'" in last
    assert "Traceback" not in run.stderr
