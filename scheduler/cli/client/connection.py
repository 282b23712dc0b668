"""Where the daemon is and how to be let in: as the user says, else as stored by a login or by the daemon."""

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.cli.client.login import login_file, read_login
from scheduler.errors import InvalidInput

DEFAULT_URL = "http://127.0.0.1:8470"
DEFAULT_STATE_DIR = Path("~/.sched")
_FILE_BYTES_MAX = 64 * 1024
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Connection:
    """`origin` says where the address comes from, for messages; empty where it is the default or was given."""

    url: str
    token: str | None
    origin: str = ""
    #: What to look at where the token is not accepted.
    token_hint: str = "check SCHED_TOKEN"

    @property
    def loopback(self) -> bool:
        return urlsplit(self.url).hostname in _LOOPBACK


def find_daemon(url: str | None, token: str | None, state_dir: Path | None) -> Connection:
    """Address and token: as given, else as `sched login` stored them, else as the daemon of this machine wrote them.

    What is stored for one daemon is never sent to another: the token of a login goes to its address only, the token
    file of a state directory to this machine only. A state directory that is given goes before a login.
    Raises `InvalidInput` for an address that is none, and `UserError` for a login that cannot be used.
    """
    given = checked_url(url) if url else None
    login = read_login() if not token and (given is not None or state_dir is None) else None
    if login is not None and given in (None, login.url):
        return Connection(login.url, login.token, f"from {login_file()}", f"from {login_file()}: use sched login again")
    directory = (state_dir or DEFAULT_STATE_DIR).expanduser()
    origin = ""
    if given is None:
        written = _written_url(directory / "daemon.json")
        origin = f"from {directory / 'daemon.json'}" if written else ""
        given = checked_url(written or DEFAULT_URL)
    connection = Connection(given, token or None, origin)
    if connection.token is None and connection.loopback:
        file = directory / "token"
        return Connection(connection.url, _written_token(file), origin, f"from {file}")
    return connection


def checked_url(url: str) -> str:
    """The address without a slash at its end. Raises `InvalidInput` unless it is http(s) with a host."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise InvalidInput("--url", f"{url!r} is not a valid address: use the form {DEFAULT_URL}")
    return url.rstrip("/")


def _written_url(path: Path) -> str | None:
    text = _read_small(path)
    if text is None:
        return None
    try:
        document = json.loads(text)
    except ValueError:
        return None
    url = document.get("url") if isinstance(document, dict) else None
    return url if isinstance(url, str) else None


def _written_token(path: Path) -> str | None:
    text = _read_small(path)
    return text.strip() or None if text is not None else None


def _read_small(path: Path) -> str | None:
    """The file's text; None where there is none or it is not for us to read."""
    try:
        with path.open("rb") as file:
            return file.read(_FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError):
        return None
