"""The file in which `sched login` keeps a daemon's address and a token: private to its user."""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from scheduler.cli.client.certificates import NO_FILES, TlsFiles
from scheduler.errors import UserError

_FILE_BYTES_MAX = 64 * 1024
#: Of `TlsFiles`, kept by their names.
_FILES = ("ca", "cert", "key")


@dataclass(frozen=True, slots=True)
class Login:
    """A daemon, and how to be let in."""

    url: str
    token: str
    tls: TlsFiles = NO_FILES


def login_file() -> Path:
    """Where the login is kept: below `XDG_CONFIG_HOME`, or `~/.config`."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path("~/.config").expanduser()) / "sched" / "login.json"


def read_login() -> Login | None:
    """The login, if there is one. Raises `UserError` for a file that other users can read, or that is damaged."""
    path = login_file()
    try:
        with path.open("rb") as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read(_FILE_BYTES_MAX)
    except OSError:
        return None
    if stat.S_IMODE(mode) & 0o077:
        raise UserError(f"{path}: other users can read the token in it: chmod 600 it, or use sched logout")
    try:
        document = json.loads(text)
        url, token = document["url"], document["token"]
        files = {name: document[name] for name in _FILES if name in document}
    except (ValueError, KeyError, TypeError, AttributeError):
        url = token = None
        files = {}
    if not all(isinstance(each, str) for each in (url, token, *files.values())):
        raise UserError(f"{path}: is damaged: use sched login again, or sched logout")
    return Login(url, token, TlsFiles(**{name: Path(file) for name, file in files.items()}))


def write_login(login: Login) -> Path:
    """Keep the login in place of any other; the file that holds it. Raises `UserError` where it cannot be written."""
    path = login_file()
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(json.dumps(_document(login)) + "\n")
        new.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def _document(login: Login) -> dict[str, str]:
    named = {name: getattr(login.tls, name) for name in _FILES}
    files = {name: str(path.absolute()) for name, path in named.items() if path is not None}
    return {"url": login.url, "token": login.token, **files}


def forget_login() -> bool:
    """Remove the login; whether there was one. Raises `UserError` where it cannot be removed."""
    path = login_file()
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UserError(f"{path}: cannot be removed: {error.strerror}") from None
    return True
