"""How the daemon is found."""

import json
import socket
from pathlib import Path

import pytest

from scheduler.cli.client.client import Client
from scheduler.cli.client.connection import (
    DEFAULT_STATE_DIR,
    DEFAULT_URL,
    NOBODY_THERE,
    SOCKET_FILE,
    connection_to,
    find_daemon,
)
from scheduler.cli.exits import Unreachable
from scheduler.config import Settings
from scheduler.daemon import local_socket
from scheduler.errors import InvalidInput, UserError


def test_defaults_are_those_of_the_daemon() -> None:
    settings = Settings()
    assert settings.state_dir == DEFAULT_STATE_DIR
    assert f"http://{settings.http.host}:{settings.http.port}" == DEFAULT_URL
    assert local_socket.SOCKET_FILE == SOCKET_FILE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of a user who gives none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    directory = tmp_path / ".sched"
    directory.mkdir()
    return directory


def test_the_address_is_the_given_one_else_the_written_one_else_the_default(home: Path, tmp_path: Path) -> None:
    assert find_daemon(None, None, None, system_socket=tmp_path / "none").url == DEFAULT_URL
    (home / "daemon.json").write_text(json.dumps({"url": "http://127.0.0.1:1235"}))
    assert find_daemon(None, None, None).url == "http://127.0.0.1:1235"
    (tmp_path / "daemon.json").write_text(json.dumps({"url": "http://127.0.0.1:1234/", "pid": 1}))
    found = find_daemon(None, None, tmp_path)
    assert (found.url, found.origin) == ("http://127.0.0.1:1234", f"from {tmp_path / 'daemon.json'}")
    assert find_daemon("http://10.0.0.1:80", None, tmp_path).url == "http://10.0.0.1:80"


@pytest.mark.parametrize("token", ["tök-0123456789abcdef", "line\nfeed"])
def test_a_token_that_no_header_can_carry_is_refused_where_it_stands(token: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"SCHED_TOKEN: the token must consist of printable ASCII"):
        find_daemon("http://elsewhere:1", token, tmp_path)
    (tmp_path / "token").write_text(token)
    (tmp_path / "daemon.json").write_text(json.dumps({"url": "http://127.0.0.1:1"}))
    with pytest.raises(InvalidInput, match=r"/token: the token must consist of printable ASCII"):
        find_daemon(None, None, tmp_path)


@pytest.mark.parametrize("proxy", ["ftp://x:1", "http://[::1"])
def test_a_proxy_that_cannot_be_used_is_one_line(proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(UserError, match=r"^http://elsewhere:1 cannot be asked: .*: check the address, and HTTP_PROXY"):
        Client(find_daemon("http://elsewhere:1", None, tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 3}', "\x00\xff"])
def test_a_broken_daemon_file_counts_as_none(home: Path, tmp_path: Path, text: str) -> None:
    (home / "daemon.json").write_bytes(text.encode("latin-1"))
    assert find_daemon(None, None, None, system_socket=tmp_path / "none").url == DEFAULT_URL


def test_a_daemon_of_another_state_directory_than_the_given_one_is_not_asked(home: Path, tmp_path: Path) -> None:
    (home / "daemon.json").write_text(json.dumps({"url": "http://127.0.0.1:1235"}))
    for token in (None, "0123456789abcdef"):
        found = find_daemon(None, token, tmp_path)
        assert found.url == f"unix://{tmp_path / 'sched.sock'}"
        with pytest.raises(Unreachable, match=r"no daemon answers at unix:.* start one with"):
            Client(found).get("/v1/jobs")
    assert find_daemon("http://127.0.0.1:1235", None, tmp_path).url == "http://127.0.0.1:1235"


def test_the_token_file_is_for_this_machine_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame\n")
    assert find_daemon("http://localhost:1", None, tmp_path).token == "sesame"
    assert find_daemon("http://localhost:1", "given", tmp_path).token == "given"
    assert find_daemon("http://10.0.0.1:1", None, tmp_path).token is None


@pytest.mark.parametrize(
    "url", ["localhost", "127.0.0.1:8470", "ftp://a", "http://", "http://a:x", "http://a:99999", "http://a?x"]
)
def test_what_is_no_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"--url: .* is not a valid address: use the form http"):
        find_daemon(url, None, tmp_path)


def test_the_socket_that_the_daemon_wrote_goes_before_its_address_unless_a_token_is_given(tmp_path: Path) -> None:
    path = tmp_path / "sched.sock"
    written = {"url": "http://127.0.0.1:1234", "pid": 1, "socket": str(path)}
    (tmp_path / "daemon.json").write_text(json.dumps(written))
    (tmp_path / "token").write_text("sesame")
    assert find_daemon(None, None, tmp_path).socket is None, "it is not there"
    path.touch()
    assert find_daemon(None, None, tmp_path).socket is None, "it is no socket"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        by_address = find_daemon(None, None, tmp_path)
        assert (by_address.socket, by_address.token) == (None, "sesame"), "nobody listens, as on another machine"
        listening.listen()
        found = find_daemon(None, None, tmp_path)
        assert (found.url, found.token, found.socket) == ("http://127.0.0.1:1234", None, path)
        assert find_daemon(None, "given", tmp_path).socket is None
        assert find_daemon("http://127.0.0.1:1234", None, tmp_path).socket is None


def test_why_a_socket_cannot_be_used_is_said(tmp_path: Path) -> None:
    def why(path: Path) -> str | None:
        return connection_to(f"unix://{path}", None).why_not()

    assert why(tmp_path / "none") == NOBODY_THERE
    long = tmp_path / ("d" * 120)
    assert why(long) == NOBODY_THERE
    long.touch()
    assert why(long) == "AF_UNIX path too long"
    path = tmp_path / "full"
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as first:
        listening.bind(str(path))
        listening.listen(0)
        first.connect(str(path))
        assert why(path) in (None, "the daemon does not answer: check its log")
    with pytest.raises(Unreachable, match="AF_UNIX path too long"):
        Client(connection_to(f"unix://{long}", None)).get("/v1/jobs")


def test_a_socket_may_be_given_as_an_address(tmp_path: Path) -> None:
    found = find_daemon("unix:///run/sched/sched.sock", None, tmp_path)
    assert (found.url, found.base_url) == ("unix:///run/sched/sched.sock", "http://localhost")
    assert (found.socket, found.loopback) == (Path("/run/sched/sched.sock"), True)
    with pytest.raises(InvalidInput, match="not a valid address"):
        find_daemon("unix://run/sched.sock", None, tmp_path)


def test_who_has_no_daemon_and_gives_nothing_asks_that_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    machine = tmp_path / "machine.sock"
    assert find_daemon(None, None, None, system_socket=machine).url == DEFAULT_URL
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(machine))
        found = find_daemon(None, None, None, system_socket=machine)
        assert (found.url, found.socket, found.token) == (f"unix://{machine}", machine, None)
        assert find_daemon("http://127.0.0.1:1", None, None, system_socket=machine).socket is None
        assert find_daemon(None, "given", None, system_socket=machine).socket is None
        assert find_daemon(None, None, tmp_path, system_socket=machine).socket == tmp_path / SOCKET_FILE
        (tmp_path / ".sched").mkdir()
        (tmp_path / ".sched" / "daemon.json").write_text(json.dumps({"url": "http://127.0.0.1:2", "pid": 1}))
        assert find_daemon(None, None, None, system_socket=machine).url == "http://127.0.0.1:2"
