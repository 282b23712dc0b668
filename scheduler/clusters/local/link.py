"""The daemon's connection to its supervisor: launches one if none runs, reads its notices, reconnects."""

import os
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from scheduler.backoff import Backoff
from scheduler.clusters.local.env import inherited_env
from scheduler.clusters.local.wire import PROTOCOL, LineReader, Notice, Request, connect, encode
from scheduler.engine.timing.repeating import one_line
from scheduler.errors import ClusterError

_log = structlog.get_logger(__name__)

#: Composes the supervisor: isolated from the user's environment and without site packages, so that it starts fast.
_SUPERVISOR = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from scheduler.clock import SystemClock; from scheduler.clusters.local.supervisor import main; "
    "main(sys.argv[2], SystemClock(), float(sys.argv[3]))"
)
_PACKAGE_ROOT = Path(__file__).parents[3]

_LAUNCH_SECONDS_MAX = 10.0
_CONNECT_PAUSE_SECONDS = 0.005
_SEND_SECONDS_MAX = 10
_JOIN_SECONDS_MAX = 20.0
_RETRY = Backoff(_CONNECT_PAUSE_SECONDS, 2.0)


class SupervisorLink:
    """One connection at a time, kept up by a thread until it is closed.

    `on_notice` gets every notice and `on_down` the reason of every interruption, both on that thread.
    """

    def __init__(
        self,
        state_dir: Path,
        log_limits: tuple[int, int],
        idle_seconds: float,
        on_notice: Callable[[Notice], None],
        on_down: Callable[[str], None],
    ) -> None:
        self._state_dir = state_dir
        self._log_limits = log_limits
        self._idle_seconds = idle_seconds
        self._on_notice = on_notice
        self._on_down = on_down
        self._connection: socket.socket | None = None
        self._supervisor_pid = 0
        #: Another daemon has the supervisor; this link has ended for good.
        self.taken_over = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="local-supervisor-link", daemon=True)
        self._thread.start()

    def send(self, request: Request) -> None:
        """Raises `ClusterError` if it cannot be delivered; then it may have been obeyed in part."""
        connection = self._connection
        if connection is None:
            raise ClusterError("no connection to the supervisor of local workers")
        try:
            connection.sendall(encode(request))
        except OSError as error:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # a part of a line may be out: only a new connection is clean
            raise ClusterError(f"supervisor of local workers: {error.strerror or error}") from None

    def close(self) -> None:
        """Leave the supervisor and its workers alone."""
        self._closed.set()
        connection = self._connection
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(_JOIN_SECONDS_MAX)

    def shutdown(self) -> None:
        """Kill all workers and end the supervisor; returns when they are gone. Raises `ClusterError` if that fails."""
        self._closed.set()  # the coming end of the connection is no reason for another one
        pid = self._supervisor_pid
        try:
            supervisor = os.pidfd_open(pid)
        except (OSError, ValueError):
            raise ClusterError("no supervisor of local workers is running") from None
        try:
            self.send(Request(shutdown=True))
            poll = select.poll()  # select() takes no descriptor from 1024 on, and a daemon has many connections
            poll.register(supervisor, select.POLLIN)
            ended = poll.poll(_JOIN_SECONDS_MAX * 1000)
        finally:
            os.close(supervisor)
            self.close()
        if not ended:
            raise ClusterError(f"the supervisor of local workers (pid {pid}) did not end")

    def _keep(self) -> None:
        failures = 0
        while not self._closed.is_set():
            reason = "it ended"
            try:
                connection = self._open()
                if connection is not None and self._listen(connection):
                    self.taken_over = True
                    self._on_down("another daemon has taken over this state directory")
                    return
                failures = 0
            except Exception as error:  # whatever it is, workers have to be seen again
                reason = one_line(error)
                failures += 1
            if not self._closed.is_set():
                self._on_down(f"cannot reach the supervisor of local workers: {reason}")
                _log.warning("reconnecting to the supervisor of local workers", reason=reason)
                self._closed.wait(_RETRY.pause_seconds(failures))

    def _open(self) -> socket.socket | None:
        """A connection to the supervisor that runs, or to a new one; None once this link is closed."""
        tries = 40
        while not self._closed.is_set():
            with suppress(FileNotFoundError, ConnectionRefusedError):
                return connect(self._state_dir)
            _launch(self._state_dir, self._idle_seconds)
            for _ in range(tries):
                with suppress(FileNotFoundError, ConnectionRefusedError):
                    return connect(self._state_dir)
                if self._closed.wait(_CONNECT_PAUSE_SECONDS):
                    return None
            # The one before may have been about to end and held its lock still; or the machine is busy.
            tries = min(tries * 2, 400)
        return None

    def _listen(self, connection: socket.socket) -> bool:
        """Pass on notices until the connection ends; True if another daemon has taken it."""
        reader = LineReader()
        with connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS_MAX, 0))
            connection.sendall(encode(Request(log_limits=self._log_limits)))
            self._connection = connection
            try:
                if self._closed.is_set():  # `close` may have looked for the connection just before
                    return False
                while data := _receive(connection):
                    for notice in reader.feed(data):
                        if notice.get("replaced"):
                            return True
                        self._check(notice)
                        self._on_notice(notice)
            finally:
                self._connection = None
        return False

    def _check(self, notice: Notice) -> None:
        if "protocol" in notice:
            self._supervisor_pid = notice["pid"]
            if notice["protocol"] != PROTOCOL:
                raise ClusterError(
                    f"the running one (pid {notice['pid']}) has another version and must be stopped first"
                )
            if "moved_from" in notice:
                raise ClusterError(
                    f"workers run that were started at {notice['moved_from']}, from where their directory was moved: "
                    f"move {self._state_dir} back until they have ended"
                )


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 20)
    except ConnectionError:
        return b""


def _launch(state_dir: Path, idle_seconds: float) -> None:
    """Start a supervisor that is no child of this process and shares neither terminal nor files with it."""
    command = [sys.executable, "-I", "-S", "-c", _SUPERVISOR, str(_PACKAGE_ROOT), str(state_dir), str(idle_seconds)]
    environ: Mapping[str, str] = inherited_env(os.environ)
    with open(state_dir / "supervisor.log", "ab") as errors:
        try:
            code = subprocess.run(
                command,
                env=environ,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                check=False,
                timeout=_LAUNCH_SECONDS_MAX,
            ).returncode
        except subprocess.TimeoutExpired:
            raise ClusterError("it did not start in time") from None
    if code != 0:
        raise ClusterError(f"it did not start; see {state_dir / 'supervisor.log'}")
