"""`sched token`, `sched login`, `sched logout` and `sched whoami`, with a real daemon."""

import io
import json
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from scheduler.cli.client.connection import find_daemon
from scheduler.cli.client.login import Login, login_file, read_login, write_login
from scheduler.errors import UserError
from tests.cli.calls import Call
from tests.daemon import Daemon, running_daemon
from tests.eventually import eventually

Sched = Callable[..., Call]
TOKEN = "0123456789abcdef"


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's directory of settings, in which no login is."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a token."""
    with running_daemon(tmp_path_factory.mktemp("secured"), http={"token": TOKEN}) as daemon:
        yield daemon


def new_token(alone: Sched, daemon: Daemon, *words: str) -> tuple[int, str]:
    """Id and secret of a token of ann."""
    made = alone("token", "create", "--user", "ann", *words, "-o", "json", "--url", daemon.url, "--token", TOKEN)
    document = made.ok().document
    return document["id"], document["token"]


def test_a_token_is_shown_once_listed_and_revoked(alone: Sched, secured: Daemon) -> None:
    admin = ("--url", secured.url, "--token", TOKEN)
    made = alone("token", "create", "--user", "ann", "--name", "laptop", "--expires", "90d", *admin).ok()
    secret = made.out.strip()
    assert secret.startswith("sched_")
    assert "of ann (user) expires" in made.err
    token_id = alone("token", "list", "-o", "json", *admin).document["tokens"][-1]["id"]
    listed = alone("token", "list", *admin).ok().out
    assert "laptop" in listed
    assert "valid for " in listed
    assert secret not in listed
    mine = ("--url", secured.url, "--token", secret)
    assert "ann" in alone("whoami", *mine).ok().out
    alone("token", "list", *mine).failed(6, "this needs the role admin, and you are ann (user)")
    assert alone("token", "revoke", str(token_id), *admin).ok().out == f"token {token_id} revoked\n"
    assert "revoked" in alone("token", "list", *admin).ok().out
    alone("whoami", *mine).failed(6, f"token {token_id} of ann was revoked", "check SCHED_TOKEN")
    alone("token", "revoke", "999", *admin).failed(3, "token 999 not found")
    alone("token", "create", "--user", "ann", "--expires", "soon", *admin).failed(2, "--expires")


def test_the_list_of_tokens_names_their_queues(alone: Sched, secured: Daemon) -> None:
    admin = ("--url", secured.url, "--token", TOKEN)
    assert "QUEUE" not in alone("token", "list", *admin).ok().out
    alone("queue", "create", "lab", *admin).ok()
    alone("token", "create", "--user", "bob", "--queue", "lab", *admin).ok()
    heading, *rows = alone("token", "list", *admin).ok().out.splitlines()
    assert heading.split()[-1] == "QUEUE"
    assert [row.split()[-1] for row in rows if " bob " in row] == ["lab"]


@pytest.mark.usefixtures("configured")
def test_a_login_is_private_and_used_until_logout(
    alone: Sched, secured: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHED_STATE_DIR")
    token_id, secret = new_token(alone, secured, "--role", "viewer")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{secret}\n"))
    said = alone("login", secured.url).ok().out
    assert said == f"logged in to {secured.url} as ann (viewer); stored in {login_file()}\n"
    assert stat.S_IMODE(login_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(login_file().parent.stat().st_mode) == 0o700
    assert alone("whoami", "-o", "json").document["token_id"] == token_id
    alone("submit", "--", "true").failed(6, "this needs the role user, and you are ann (viewer)")
    assert alone("whoami", "-o", "json", "--token", TOKEN, "--url", secured.url).document["role"] == "admin"
    alone("token", "revoke", str(token_id), "--token", TOKEN, "--url", secured.url).ok()
    alone("whoami").failed(6, "was revoked", "use sched login again")
    alone("logout").ok()
    assert alone("logout").ok().out == "not logged in\n"
    assert not login_file().exists()


@pytest.mark.usefixtures("configured")
def test_a_token_that_the_daemon_does_not_accept_is_not_stored(
    alone: Sched, secured: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("sched_wrong\n"))
    alone("login", secured.url).failed(6, "invalid token")
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    alone("login", secured.url).failed(2, "no token")
    alone("login", "nowhere").failed(2, "not a valid address")
    assert read_login() is None


def test_the_page_is_opened_with_a_code_for_one_use(
    alone: Sched, secured: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    _, secret = new_token(alone, secured)
    said = alone("page", "--open", "--url", secured.url, "--token", secret).ok().out.strip()
    assert opened == [said]
    address, _, code = said.partition("#code=")
    assert address == f"{secured.url}/"
    token = httpx.post(f"{secured.url}/v1/page-tokens", json={"code": code}).json()["token"]
    assert alone("whoami", "-o", "json", "--url", secured.url, "--token", token).document["user"] == "ann"
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    silent = alone("page", "--open", "-o", "json", "--url", secured.url, "--token", secret).ok()
    assert silent.document["url"].startswith(address)
    assert "no browser was found" in silent.err
    monkeypatch.setenv("SCHED_STATE_DIR", str(secured.state_dir))
    assert "#code=" in alone("page").ok().out, "by the socket"
    by_socket = f"unix://{secured.state_dir / 'sched.sock'}"
    alone("page", "--url", by_socket).failed(2, "is not an address for a browser: set --url to that of the daemon")


def test_the_page_of_a_daemon_without_tokens_needs_no_code(sched: Sched, daemon: Daemon) -> None:
    assert sched("page").ok().out == f"{daemon.url}/\n"


@pytest.mark.usefixtures("configured")
def test_a_login_may_be_for_a_socket(alone: Sched, secured: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHED_STATE_DIR")
    token_id, secret = new_token(alone, secured)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{secret}\n"))
    url = f"unix://{secured.state_dir / 'sched.sock'}"
    assert f"logged in to {url} as ann (user)" in alone("login", url).ok().out
    assert alone("whoami", "-o", "json").document["token_id"] == token_id


def test_a_daemon_without_tokens_has_nothing_to_log_in_with(
    alone: Sched, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("sched_typo\n"))
    alone("login", daemon.url).failed(2, "has no tokens: it takes you for admin without one, nothing is stored")
    assert read_login() is None


@pytest.mark.usefixtures("configured")
def test_the_token_of_a_login_goes_to_its_daemon_only(tmp_path: Path) -> None:
    write_login(Login("http://10.0.0.1:8470", "sched_x"))
    found = find_daemon(None, None, None)
    assert (found.url, found.token) == ("http://10.0.0.1:8470", "sched_x")
    assert find_daemon("http://10.0.0.1:8470/", None, None).token == "sched_x"
    assert find_daemon("http://10.0.0.2:8470", None, tmp_path).token is None
    assert find_daemon("http://10.0.0.1:8470", "given", None).token == "given"
    given = find_daemon(None, "given", None)
    assert (given.url, given.token) == ("http://10.0.0.1:8470", "given")
    assert find_daemon("http://10.0.0.1:8470", None, tmp_path).token is None, "the state directory goes before it"
    assert find_daemon(None, None, tmp_path).url == f"unix://{tmp_path / 'sched.sock'}"


@pytest.mark.usefixtures("configured")
def test_a_login_that_others_can_read_or_that_is_damaged_is_refused(
    alone: Sched, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_login(Login("http://10.0.0.1:8470", "sched_x"))
    path.chmod(0o640)
    with pytest.raises(UserError, match=r"login\.json: other users can read the token in it: chmod 600 it"):
        read_login()
    for text in ("{", "[]", json.dumps({"url": 3, "token": "x"}), "{}"):
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(UserError, match="is damaged: use sched login again, or sched logout"):
            read_login()
    monkeypatch.delenv("SCHED_STATE_DIR")
    alone("hosts", "12").failed(2, "is damaged: use sched login again")
    alone("logout").ok()
    assert read_login() is None


def test_the_daemons_own_user_needs_no_token_on_its_machine(
    alone: Sched, secured: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    (secured.state_dir / "token").unlink(missing_ok=True)
    monkeypatch.setenv("SCHED_STATE_DIR", str(secured.state_dir))
    found = alone("whoami", "-o", "json").document
    login = pwd.getpwuid(os.geteuid()).pw_name
    assert (found["user"], found["role"], found["identified_by"]) == (login, "admin", "login")
    assert "by the login on its machine" in alone("whoami").ok().out
    by_address = alone("whoami", "-o", "json", "--url", f"unix://{secured.state_dir / 'sched.sock'}").document
    assert by_address == found
    alone("list", "--url", "unix:///nowhere.sock").failed(5, "no daemon answers at unix:///nowhere.sock")
    alone("cancel", "99999").failed(3)
    alone("token", "revoke", "99999").failed(3)
    listed = ("audit", "--since", "1h", "--user", login)
    eventually(lambda: "DELETE" in alone(*listed).ok().out, "the refusal is not recorded")
    assert alone("audit", "--since", "2001-01-01", "--user", login, "-o", "json").document["records"]
    shown = alone("audit", "--since", "1h", "--limit", "1", "-o", "json").document
    [record] = shown["records"]
    assert (record["object"], record["user"], record["status"]) == ("token 99999", login, 404)
    assert shown["next"] == record["id"]
