"""`sched` and a daemon behind a proxy that adds TLS: real certificates, and what is wrong with them in one line."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from scheduler.cli.client.login import login_file
from tests.certificates import Authority
from tests.cli.calls import Call
from tests.daemon import Daemon, running_daemon
from tests.tls_front import tls_front

Sched = Callable[..., Call]
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("tls"), http={"token": TOKEN}) as daemon:
        yield daemon


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.made(tmp_path)


@contextmanager
def fronted(daemon: Daemon, authority: Authority, directory: Path, **certificate: object) -> Iterator[str]:
    """The address of the daemon behind TLS."""
    context = authority.server(directory, **certificate)  # type: ignore[arg-type]
    with tls_front(int(daemon.url.rpartition(":")[2]), context) as port:
        yield f"https://127.0.0.1:{port}"


def test_a_private_authority_is_named_by_an_option_a_variable_or_the_login(
    alone: Sched, secured: Daemon, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHED_STATE_DIR")
    with fronted(secured, authority, tmp_path) as url:
        given = ("whoami", "-o", "json", "--url", url, "--token", TOKEN)
        assert alone(*given, "--ca", str(authority.file)).document["role"] == "admin"
        monkeypatch.setenv("SCHED_CA", str(authority.file))
        assert alone(*given).document["role"] == "admin"
        monkeypatch.delenv("SCHED_CA")
        alone(*given).failed(5, f"{url}: its certificate is not accepted: ", "with --ca or SCHED_CA")
        monkeypatch.chdir(authority.file.parent)
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{TOKEN}\n"))
        alone("login", url, "--ca", authority.file.name).ok()
        monkeypatch.chdir("/")
        assert alone("whoami", "-o", "json").document["role"] == "admin"
        assert alone("submit", "--", "true").ok().out
        login_file().write_text(json.dumps({**json.loads(login_file().read_text()), "ca": 7}))
        alone("whoami").failed(2, "is damaged: use sched login again")


def test_the_token_goes_to_nobody_whose_certificate_is_wrong(
    alone: Sched, secured: Daemon, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "else").mkdir()
    other = Authority.made(tmp_path / "else")
    unknown = ("certificate is not accepted", "name the file of the authority that signs it with --ca or SCHED_CA")
    for trusted, certificate, why in (
        (other, {}, unknown),
        (authority, {"address": "10.0.0.1"}, ("not valid for '127.0.0.1'", "use the name that it is made for")),
        (authority, {"valid": timedelta(hours=-1)}, ("certificate has expired", "it has to be renewed there")),
    ):
        with fronted(secured, authority, tmp_path, **certificate) as url:
            alone("list", "--url", url, "--token", TOKEN, "--ca", str(trusted.file)).failed(5, url, *why)


def test_an_address_without_tls_is_told_from_one_where_nobody_is(
    alone: Sched, secured: Daemon, authority: Authority
) -> None:
    url = secured.url.replace("http:", "https:")
    ca = ("--token", TOKEN, "--ca", str(authority.file))
    alone("list", "--url", url, *ca).failed(5, "no TLS there", "check whether the address begins with http://")
    alone("list", "--url", "https://127.0.0.1:1", *ca).failed(5, "no daemon answers at https://127.0.0.1:1")


def test_a_file_without_certificates_is_told(alone: Sched, tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    asked = ("list", "--url", "https://127.0.0.1:1", "--token", TOKEN, "--ca")
    alone(*asked, str(tmp_path / "no.pem")).failed(2, "--ca", "no.pem: holds no certificates in PEM")
    alone(*asked, str(tmp_path / "gone.pem")).failed(2, "--ca", "gone.pem: No such file or directory")
