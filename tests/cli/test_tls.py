"""`sched` and a daemon with TLS, its own or of a proxy: real certificates, and what is wrong with them in one line."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from scheduler.cli.client.discovery import print_hosts_at_once
from scheduler.cli.client.login import login_file
from tests.certificates import Authority, Pair
from tests.cli.calls import Call
from tests.daemon import Daemon, running_daemon
from tests.eventually import eventually
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


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Authority, Pair]]:
    """A daemon with TLS that asks for certificates, its authority, and the certificate of a user."""
    directory = tmp_path_factory.mktemp("asking")
    authority = Authority.made(directory / "authority")
    own = authority.issue(directory / "own", name="ann")
    http = {**authority.issue(directory / "pair").settings, "tls_ca": authority.file, "tls_client_ca": authority.file}
    http |= {"tls_client_certificate": own.certificate, "tls_client_key": own.key}
    with running_daemon(directory, http={**http, "token": TOKEN}) as daemon:
        yield daemon, authority, own


def test_a_certificate_of_the_user_is_named_by_options_variables_or_the_login(
    alone: Sched, asking: tuple[Daemon, Authority, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, authority, own = asking
    monkeypatch.delenv("SCHED_STATE_DIR")
    given = ("whoami", "-o", "json", "--url", daemon.url, "--token", TOKEN, "--ca", str(authority.file))
    named = ("--cert", str(own.certificate), "--key", str(own.key))
    assert alone(*given, *named).document["role"] == "admin"
    monkeypatch.setenv("SCHED_CERT", str(own.certificate))
    monkeypatch.setenv("SCHED_KEY", str(own.key))
    assert alone(*given).document["role"] == "admin"
    monkeypatch.delenv("SCHED_CERT")
    monkeypatch.delenv("SCHED_KEY")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TOKEN}\n"))
    alone("login", daemon.url, "--ca", str(authority.file), *named).ok()
    assert alone("whoami", "-o", "json").document["role"] == "admin"
    page = alone("page", "--no-open").ok().out
    assert page.startswith(f"{daemon.url}/#code=")


def test_a_certificate_that_is_missing_or_not_accepted_is_told(
    alone: Sched, asking: tuple[Daemon, Authority, Pair], tmp_path: Path
) -> None:
    daemon, authority, own = asking
    given = ("list", "--url", daemon.url, "--token", TOKEN, "--ca", str(authority.file))
    remedy = "name one with --cert and --key"
    alone(*given).failed(5, daemon.url, "does not let in without a certificate of yours", remedy)
    stranger = Authority.made(tmp_path / "else").issue(tmp_path / "stranger", name="ann")
    told = ("does not let in without a certificate of yours: unknown ca", remedy)
    alone(*given, "--cert", str(stranger.certificate), "--key", str(stranger.key)).failed(5, *told)
    expired = authority.issue(tmp_path / "expired", name="ann", valid=timedelta(hours=-1))
    told = ("certificate of yours: certificate expired", remedy)
    alone(*given, "--cert", str(expired.certificate), "--key", str(expired.key)).failed(5, *told)
    alone(*given, "--cert", str(own.certificate), "--key", str(stranger.key)).failed(2, "--cert", "belong to its key")
    alone(*given, "--cert", str(own.certificate)).failed(2, "--cert", "holds no certificate with its key in PEM")
    alone(*given, "--cert", str(tmp_path / "gone")).failed(2, "--cert", "gone: No such file or directory")
    alone(*given, "--key", str(own.key)).failed(2, "--cert", "is required with --key")


def test_hosts_are_asked_for_on_the_short_way_as_horovodrun_does(
    alone: Sched,
    asking: tuple[Daemon, Authority, Pair],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    daemon, authority, own = asking
    job = daemon.client.post("/v1/jobs", json={"command": "exec sleep 600"}).json()["id"]
    path = f"/v1/jobs/{job}/discover_hosts"
    eventually(lambda: daemon.client.get(path).status_code == 200, "the job does not start")
    for name, value in (("URL", daemon.url), ("TOKEN", TOKEN), ("CA", authority.file)):
        monkeypatch.setenv(f"SCHED_{name}", str(value))
    assert not print_hosts_at_once(["hosts", str(job)])  # left to the command, which says what is missing
    alone("hosts", str(job)).failed(5, "name one with --cert and --key")
    monkeypatch.setenv("SCHED_CERT", str(own.certificate))
    monkeypatch.setenv("SCHED_KEY", str(own.key))
    assert print_hosts_at_once(["hosts", str(job)])
    assert capsys.readouterr().out == "127.0.0.1:1\n"
    assert alone("hosts", str(job)).ok().out == "127.0.0.1:1\n"


def test_plain_http_is_told_what_to_use(alone: Sched, asking: tuple[Daemon, Authority, Pair]) -> None:
    url = asking[0].url.replace("https:", "http:")
    alone("list", "--url", url, "--token", TOKEN).failed(2, "this address speaks TLS: use https:// in place of http://")
