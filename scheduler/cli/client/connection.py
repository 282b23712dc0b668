"""Where the daemon is and how to be let in: as the user says, else as stored by a login or by the daemon."""

import json
import re
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.bounds import TOKEN_PATTERN
from scheduler.cli.client.certificates import NO_FILES, TlsFiles
from scheduler.cli.client.login import login_file, read_login
from scheduler.errors import InvalidInput

DEFAULT_URL = "http://127.0.0.1:8470"
DEFAULT_STATE_DIR = Path("~/.sched")
#: The UNIX socket in a state directory.
SOCKET_FILE = "sched.sock"
#: Of the daemon of the whole machine.
SYSTEM_SOCKET = Path("/run/sched/sched.sock")
_FILE_BYTES_MAX = 64 * 1024
NOBODY_THERE = "nobody listens there"
_UNIX = "unix://"
_TOKEN_HINT = "check SCHED_TOKEN"
#: How long a UNIX socket may take to accept a connection.
_PROBE_SECONDS = 5.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Connection:
    """`origin` says where the address comes from, for messages; empty where it is the default or was given."""

    url: str
    token: str | None
    origin: str = ""
    #: What to look at where the token is not accepted.
    token_hint: str = _TOKEN_HINT
    #: UNIX socket by which the daemon is asked; None: by its address.
    socket: Path | None = None
    tls: TlsFiles = NO_FILES

    @property
    def loopback(self) -> bool:
        return self.socket is not None or urlsplit(self.url).hostname in _LOOPBACK

    def why_not(self) -> str | None:
        """Why nobody can be asked at the UNIX socket, in one line; None where somebody listens, or without a socket.

        It is tried apart, since the HTTP library leaves open what could not be connected.
        """
        if self.socket is None:
            return None
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_PROBE_SECONDS)
            try:
                probe.connect(str(self.socket))
            except (FileNotFoundError, ConnectionRefusedError):
                return NOBODY_THERE
            except PermissionError:
                return "permission denied: only the daemon's user and the members of http.socket_group may use it"
            except (TimeoutError, BlockingIOError):
                return "the daemon does not answer: check its log"
            except OSError as error:  # such as a path that is too long
                return (error.strerror or str(error)) if self.socket.exists() else NOBODY_THERE
        return None

    @property
    def base_url(self) -> str:
        """The address for requests, which over a UNIX socket says nothing of where they go."""
        return "http://localhost" if self.url.startswith(_UNIX) else self.url


def find_daemon(
    url: str | None,
    token: str | None,
    state_dir: Path | None,
    tls: TlsFiles = NO_FILES,
    system_socket: Path = SYSTEM_SOCKET,
) -> Connection:
    """How to ask the daemon: as given, else as `sched login` stored it, else as the daemon of this machine wrote it.

    Where the user has no daemon and nothing is given, that of the whole machine is asked, by its UNIX socket.

    What is stored for one daemon is never sent to another: the token of a login goes to its address only, the token
    file of a state directory to this machine only. A state directory that is given goes before a login, and where no
    daemon wrote its address there, no other one is asked; a token that is given without an address goes to that of the
    login.
    Raises `InvalidInput` for an address or a token that cannot be one, and `UserError` for a login that cannot be used.
    """
    found = _find(url, token, state_dir, system_socket)
    return replace(found, tls=tls.over(found.tls))


def _find(url: str | None, token: str | None, state_dir: Path | None, system_socket: Path) -> Connection:
    given, token = checked_url(url) if url else None, checked_token(token, "SCHED_TOKEN")
    login = read_login() if state_dir is None and not (given and token) else None
    if login is not None and given in (None, login.url):
        origin = f"from {login_file()}"
        if token is not None:
            return replace(connection_to(login.url, token, origin), tls=login.tls)
        stored = checked_token(login.token, str(login_file()))
        hint = f"{origin}: use sched login again"
        return replace(connection_to(login.url, stored, origin, hint), tls=login.tls)
    directory = (state_dir or DEFAULT_STATE_DIR).expanduser()
    if given is not None:
        return _with_written_token(connection_to(given, token), directory)
    written, socket_path = _written(directory / "daemon.json")
    if written is None and state_dir is not None:
        return connection_to(f"{_UNIX}{directory.absolute() / SOCKET_FILE}", token)
    if written is None and token is None and system_socket.is_socket():
        return connection_to(f"{_UNIX}{system_socket}", None)
    origin = f"from {directory / 'daemon.json'}" if written else ""
    found = connection_to(checked_url(written or DEFAULT_URL), token, origin)
    if socket_path is not None and token is None:
        by_socket = replace(found, socket=socket_path, token_hint=origin)
        if by_socket.why_not() is None:
            return by_socket
    return _with_written_token(found, directory)


def connection_to(url: str, token: str | None, origin: str = "", token_hint: str = _TOKEN_HINT) -> Connection:
    """The connection to a checked address, which may be that of a UNIX socket."""
    socket_path = Path(url.removeprefix(_UNIX)) if url.startswith(_UNIX) else None
    return Connection(url, token, origin, token_hint, socket_path)


def _with_written_token(connection: Connection, directory: Path) -> Connection:
    """The connection, with the token in the state directory where it has none and goes to this machine's loopback."""
    if connection.token is not None or connection.socket is not None or not connection.loopback:
        return connection
    file = directory / "token"
    return replace(connection, token=checked_token(_read_small(file), str(file)), token_hint=f"from {file}")


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
