"""A real PostgreSQL server for tests, from the installed binaries: one per session, one database per test."""

import ctypes
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.ports import free_port

START_SECONDS = 60
#: Linux: the signal that a child gets when its parent ends.
PR_SET_PDEATHSIG = 1
_TEMPLATE = "sched_template"


@dataclass
class PostgresServer:
    """A server that listens on a socket in a private directory, so that no port can be taken.

    Where it also listens on an address, those who come from elsewhere need a password.
    """

    socket_dir: Path
    _binaries: Path
    #: Who runs it; None: who runs the tests.
    _user: str | None
    listen_address: str = ""
    port: int = 5432
    _process: "subprocess.Popen[bytes] | None" = None
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def data(self) -> Path:
        return self.socket_dir / "data"

    def start(self) -> None:
        """Begin to serve the data, and return when it answers."""
        root = self.socket_dir
        # Speed: what survives a power failure is not what these tests ask.
        settings = ["fsync=off", "full_page_writes=off", f"unix_socket_directories={root}"]
        settings += [f"listen_addresses={self.listen_address}", f"port={self.port}"]
        settings += ["max_connections=60", "shared_buffers=32MB", "log_min_messages=fatal"]
        options = (part for setting in settings for part in ("-c", setting))
        with (root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.data, *options],
                user=self._user,
                stdout=log,
                stderr=log,
                cwd=root,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        _wait_until_ready(self._binaries, root, self.port, self._process)

    def stop(self) -> None:
        """End now, with clean data, whoever is connected."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(START_SECONDS)
            self._process = None

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.socket_dir}&port={self.port}"

    def make_template(self) -> str:
        """An empty database to be filled once; returns its URL. Those made by `new_database` are copies of it."""
        self._execute(f"CREATE DATABASE {_TEMPLATE}")
        return self.url(_TEMPLATE)

    def new_database(self, *, empty: bool = False) -> str:
        """The URL of a fresh database: a copy of the template, or one without tables."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {'template0' if empty else _TEMPLATE}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove it, whoever is still connected."""
        name = url.partition("@/")[2].partition("?")[0]
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def make_role(self, name: str, password: str) -> str:
        """A role with an empty database of its own; the URL by which it comes from elsewhere."""
        self._execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        self._execute(f"CREATE DATABASE {name} OWNER {name}")
        return f"postgresql+psycopg://{name}:{password}@{self.listen_address}:{self.port}/{name}"

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())


def find_binaries() -> Path | None:
    """The directory of `initdb` and `postgres`; None where they are not installed."""
    on_path = shutil.which("initdb")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)
    return next((path for path in candidates if (path / "initdb").exists() and (path / "postgres").exists()), None)


def missing_reason() -> str | None:
    """Why no server can be started here; None where one can."""
    if find_binaries() is None:
        return "PostgreSQL is not installed (no initdb on PATH or in /usr/lib/postgresql)"
    if os.geteuid() == 0 and _server_user() is None:
        return "PostgreSQL refuses to run as root and there is no user postgres"
    return None


@contextmanager
def running_server(listen_address: str = "") -> Iterator[PostgresServer]:
    """Start a server with its data in a new directory; stop it and remove the directory at the end."""
    binaries = find_binaries()
    assert binaries is not None, missing_reason()
    user = _server_user() if os.geteuid() == 0 else None
    # Short, since the path of a socket may have 107 bytes at most.
    root = Path(tempfile.mkdtemp(prefix="sched-pg-", dir="/tmp"))
    try:
        if user is not None:
            shutil.chown(root, user)
        server = PostgresServer(root, binaries, user, listen_address, free_port() if listen_address else 5432)
        initdb = [binaries / "initdb", "-D", server.data, "-U", "postgres"]
        initdb += ["-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        subprocess.run(initdb, user=user, check=True, capture_output=True, cwd=root)
        with (server.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _end_with_parent() -> None:
    """In the child before it becomes the server: it is told to end if the tests are killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def _wait_until_ready(binaries: Path, root: Path, port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(START_SECONDS * 10):
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL did not start: {(root / 'log').read_text(errors='replace')}")
        ready = subprocess.run([binaries / "pg_isready", "-q", "-h", root, "-p", str(port), "-t", "1"], check=False)
        if ready.returncode == 0:
            return
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise RuntimeError(f"PostgreSQL was not ready after {START_SECONDS} seconds")


def _server_user() -> str | None:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None
