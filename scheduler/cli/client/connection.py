"""Where the daemon is and how to be let in: as the user says, else as stored by a login or by the daemon."""

import json
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.bounds import TOKEN_PATTERN
from scheduler.cli.client.login import login_file, read_login
from scheduler.errors import InvalidInput

DEFAULT_URL = "http://127.0.0.1:8470"
DEFAULT_STATE_DIR = Path("~/.sched")
_FILE_BYTES_MAX = 64 * 1024
_UNIX = "unix://"
_AGAIN = "use sched login again"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Connection:
    """`origin` says where the address comes from, for messages; empty where it is the default or was given."""

    url: str
    token: str | None
    origin: str = ""
    #: What to look at where the token is not accepted.
    token_hint: str = "check SCHED_TOKEN"
    #: UNIX socket by which the daemon is asked; None: by its address.
    socket: Path | None = None

    @property
    def loopback(self) -> bool:
        return self.socket is not None or urlsplit(self.url).hostname in _LOOPBACK

    @property
    def listened_to(self) -> bool:
        """Whether somebody listens at the UNIX socket, so that the HTTP library leaves none open that failed."""
        if self.socket is None:
            return True
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True

    @property
    def base_url(self) -> str:
        """The address for requests, which over a UNIX socket says nothing of where they go."""
        return "http://localhost" if self.url.startswith(_UNIX) else self.url


def find_daemon(url: str | None, token: str | None, state_dir: Path | None) -> Connection:
    """Address and token: as given, else as `sched login` stored them, else as the daemon of this machine wrote them.

    What is stored for one daemon is never sent to another: the token of a login goes to its address only, the token
    file of a state directory to this machine only. A state directory that is given goes before a login.
    Raises `InvalidInput` for an address or a token that cannot be one, and `UserError` for a login that cannot be used.
    """
    given = checked_url(url) if url else None
    token = checked_token(token, "SCHED_TOKEN")
    login = read_login() if token is None and (given is not None or state_dir is None) else None
    if login is not None and given in (None, login.url):
        origin = f"from {login_file()}"
        return Connection(login.url, checked_token(login.token, str(login_file())), origin, f"{origin}: {_AGAIN}")
    directory = (state_dir or DEFAULT_STATE_DIR).expanduser()
    if given is not None:
        return _at(given, token, directory, origin="")
    written, socket_path = _written(directory / "daemon.json")
    origin = f"from {directory / 'daemon.json'}" if written else ""
    address = checked_url(written or DEFAULT_URL)
    if socket_path is not None and token is None and os.access(socket_path, os.W_OK):
        return Connection(address, None, origin, origin, socket_path)
    return _at(address, token, directory, origin)


def _at(url: str, token: str | None, directory: Path, origin: str) -> Connection:
    """The connection to an address: without a token by its socket, or with what the state directory has for it."""
    if url.startswith(_UNIX):
        return Connection(url, token, socket=Path(url.removeprefix(_UNIX)))
    connection = Connection(url, token, origin)
    if token is None and connection.loopback:
        file = directory / "token"
        return Connection(url, checked_token(_read_small(file), str(file)), origin, f"from {file}")
    return connection


def checked_url(url: str) -> str:
    """The address without a slash at its end. Raises `InvalidInput` unless it is http(s) with a host, or a socket."""
    if url.startswith(f"{_UNIX}/"):
        return url
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise InvalidInput("--url", f"{url!r} is not a valid address: use the form {DEFAULT_URL} or unix:///PATH")
    return url.rstrip("/")


def checked_token(token: str | None, origin: str) -> str | None:
    """The token without spaces around it, None for an empty one. Raises `InvalidInput` for one no header can carry."""
    token = (token or "").strip()
    if token and not re.fullmatch(TOKEN_PATTERN, token):
        raise InvalidInput(origin, "the token must consist of printable ASCII characters")
    return token or None


def _written(path: Path) -> tuple[str | None, Path | None]:
    """The address and the UNIX socket that a daemon wrote; None for what is not there."""
    text = _read_small(path)
    try:
        document = json.loads(text or "")
    except ValueError:
        return None, None
    if not isinstance(document, dict):
        return None, None
    url, at = document.get("url"), document.get("socket")
    return url if isinstance(url, str) else None, Path(at) if isinstance(at, str) else None


def _read_small(path: Path) -> str | None:
    """The file's text; None where there is none or it is not for us to read."""
    try:
        with path.open("rb") as file:
            return file.read(_FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError):
        return None
