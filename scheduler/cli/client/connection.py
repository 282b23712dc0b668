"""Where the daemon is and how to be let in: as the user says, else as the daemon wrote into its state directory."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.bounds import TOKEN_PATTERN
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

    @property
    def loopback(self) -> bool:
        return urlsplit(self.url).hostname in _LOOPBACK


def find_daemon(url: str | None, token: str | None, state_dir: Path | None) -> Connection:
    """Address and token: as given, else as the daemon of the state directory wrote them, else the default address.

    A token file is read only for an address on this machine, so that it never travels to another one by accident.
    Raises `InvalidInput` for an address or a token that cannot be one.
    """
    directory = (state_dir or DEFAULT_STATE_DIR).expanduser()
    origin = ""
    if not url:
        url = _written_url(directory / "daemon.json")
        if url:
            origin = f"from {directory / 'daemon.json'}"
    connection = Connection(checked_url(url or DEFAULT_URL), _checked_token(token, "SCHED_TOKEN"), origin)
    if connection.token is None and connection.loopback:
        written = directory / "token"
        return Connection(connection.url, _checked_token(_written_token(written), str(written)), origin)
    return connection


def checked_url(url: str) -> str:
    """The address without a slash at its end. Raises `InvalidInput` unless it is http(s) with a host."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise InvalidInput("--url", f"{url!r} is not a valid address: use the form {DEFAULT_URL}")
    return url.rstrip("/")


def _checked_token(token: str | None, origin: str) -> str | None:
    """The token, None for an empty one. Raises `InvalidInput` for one that no header can carry."""
    if token and not re.fullmatch(TOKEN_PATTERN, token):
        raise InvalidInput(origin, "the token must consist of printable ASCII characters")
    return token or None


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
