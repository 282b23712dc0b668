"""The process that owns the workers of a local node: it outlives the daemon and enforces deadlines without it.

`link` launches it with `main(state directory, clock, ...)`. It talks to one daemon at a time over a socket (`wire`),
and ends by itself when it has neither workers nor a daemon for a while. When it is killed, its workers go on and the
next supervisor adopts them. Standard library only and few modules: it must start fast and stay small.
"""

import fcntl
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from scheduler.clusters.local.launch_as import Birth
from scheduler.clusters.local.processes import become_subreaper
from scheduler.clusters.local.recovery import recover
from scheduler.clusters.local.wire import PROTOCOL, LineReader, Notice, Request, encode, listen
from scheduler.clusters.local.worker import LocalWorker
from scheduler.clusters.local.workers import LocalWorkers, SupervisorClock
from scheduler.clusters.logs.files import LogTrimmer

_LAUNCHES_PER_ROUND = 8
_OUTBOX_BYTES_MAX = 256 * 1024 * 1024
_DEFAULT_LOG_LIMITS = (16 * 1024 * 1024, 3)


def main(state_dir: str, clock: SupervisorClock, idle_seconds: float) -> None:
    """Run until there is nothing left to do. Returns at once if another supervisor has this state directory."""
    if os.fork():  # the daemon waits for this one; the supervisor itself is nobody's child
        os._exit(0)
    os.chdir("/")
    lock = os.open(f"{state_dir}/supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    become_subreaper()
    Supervisor(Path(state_dir), clock, idle_seconds).run()


class _Client:
    """The connected daemon."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.reader = LineReader()
        self.outbox = bytearray()

    def flush(self) -> None:
        """Send bytes that the socket accepts; none if the daemon is gone, whose last requests may still be unread."""
        try:
            while self.outbox:
                del self.outbox[: self.connection.send(self.outbox)]
        except BlockingIOError:
            pass
        except OSError:
            self.outbox.clear()


class Supervisor:
    """One round: handle signals and requests, launch, enforce deadlines, trim logs, send changes to the daemon."""

    def __init__(self, state_dir: Path, clock: SupervisorClock, idle_seconds: float) -> None:
        self._clock = clock
        self._state_dir, self._directory = state_dir, os.stat(state_dir)
        self._idle_seconds = idle_seconds
        self._idle_since: float | None = clock.monotonic()
        self._ending = False
        self._client: _Client | None = None
        self._forgotten: list[str] = []
        self._trimmer = LogTrimmer(*_DEFAULT_LOG_LIMITS)
        self._selector = selectors.DefaultSelector()
        self._watch_signals()
        self._workers = LocalWorkers(state_dir, clock)
        for worker in recover(state_dir):
            self._workers.adopt(worker)
            if worker.pidfd is not None:
                self._watch_adopted(worker, worker.pidfd)
        self._listener = listen(state_dir)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _watch_signals(self) -> None:
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

        def on_signal() -> None:
            os.read(reading, 65536)
            self._workers.reap()

        self._selector.register(reading, selectors.EVENT_READ, on_signal)

    def _watch_adopted(self, worker: LocalWorker, pidfd: int) -> None:
        def on_end() -> None:
            self._selector.unregister(pidfd)
            os.close(pidfd)
            self._workers.first_ended(worker)

        self._selector.register(pidfd, selectors.EVENT_READ, on_end)

    def _watch_births(self) -> None:
        for worker in self._workers.take_births():
            if worker.birth is not None:
                self._watch_birth(worker, worker.birth)

    def _watch_birth(self, worker: LocalWorker, birth: Birth) -> None:
        def on_told() -> None:
            self._selector.unregister(birth)
            self._workers.told(worker, birth)

        self._selector.register(birth, selectors.EVENT_READ, on_told)

    def run(self) -> None:
        while not self._is_over():
            for key, _ in self._selector.select(self._timeout()):
                act: Callable[[], None] = key.data
                act()
            self._workers.launch_next(_LAUNCHES_PER_ROUND)
            self._watch_births()
            self._workers.enforce()
            for path in self._workers.take_ended_logs():
                self._trimmer.trim(path)
            self._report()
            self._tidy()

    def _tidy(self) -> None:
        """Housekeeping: keep logs within their limits, write records that a full disk has refused."""
        now = self._clock.monotonic()
        if self._has_to_look and now >= self._trimmer.due_at:
            self._workers.save_again()
            self._trimmer.look(self._workers.live_logs(), now)

    @property
    def _has_to_look(self) -> bool:
        return self._workers.any_live or self._workers.any_unsaved

    def _timeout(self) -> float | None:
        if self._workers.any_waiting:
            return 0.0
        deadlines = [self._workers.next_deadline()]
        if self._has_to_look:
            deadlines.append(self._trimmer.due_at)
        elif self._idle_since is not None:
            deadlines.append(self._idle_since + self._idle_seconds)
        known = [deadline for deadline in deadlines if deadline is not None]
        return max(min(known) - self._clock.monotonic(), 0.0) if known else None

    def _is_over(self) -> bool:
        """Whether to end: told to and every worker gone, or neither worker nor daemon for long enough.

        Not of itself as long as a full disk refuses how a worker ended: nobody else knows that.
        """
        if self._workers.any_live or (self._workers.any_unsaved and not self._ending):
            self._idle_since = None
            return False
        if self._client is not None:
            self._idle_since = None
            return self._ending and not self._client.outbox
        now = self._clock.monotonic()
        self._idle_since = now if self._idle_since is None else self._idle_since
        return self._ending or now >= self._idle_since + self._idle_seconds

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # it has gone again
        if self._client is not None:
            self._send(Notice(replaced=True))
            self._drop_client()
        connection.setblocking(False)
        self._client = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ, self._serve_client)
        self._workers.take_changes()
        self._forgotten.clear()
        first = Notice(protocol=PROTOCOL, pid=os.getpid(), workers=self._workers.notices(), starts_as_users=True)
        if self._is_moved():
            first["moved_from"] = str(self._state_dir)
            self._ending = self._ending or not self._workers.any_live  # another one can do what this one cannot
        self._send(first)

    def _is_moved(self) -> bool:
        """Whether the state directory is no longer where it was."""
        try:
            return not os.path.samestat(os.stat(self._state_dir), self._directory)
        except FileNotFoundError:
            return True

    def _serve_client(self) -> None:
        client = self._client
        if client is None:
            return
        client.flush()
        try:
            data = client.connection.recv(1 << 20)
            if not data:
                self._drop_client()
                return
            for request in client.reader.feed(data):
                self._obey(request)
        except BlockingIOError:
            self._watch_client(client)  # only ready to be written to
        except (OSError, ValueError):
            self._drop_client()

    def _obey(self, request: Request) -> None:
        if "log_limits" in request:
            self._trimmer = LogTrimmer(*request["log_limits"])
        if request.get("shutdown"):
            self._ending = True
            self._workers.stop_all()
        env = request.get("env", {})
        for kind, data in request.get("actions", ()):
            if kind == "start" and not self._ending:
                self._workers.start(data, env)
                self._trimmer.began(self._clock.monotonic())
            elif kind == "stop":
                self._workers.stop(data["id"], data["grace_seconds"])
            elif kind == "forget":
                self._forget(data["id"])

    def _forget(self, worker: str) -> None:
        try:
            self._workers.forget(worker)
        except OSError as error:
            print(f"records of worker {worker}: {error}", file=sys.stderr)
        self._forgotten.append(worker)

    def _report(self) -> None:
        if self._client is None:
            return
        changed = self._workers.take_changes()
        if changed or self._forgotten:
            self._send(Notice(workers=changed, forgotten=self._forgotten))
            self._forgotten = []

    def _send(self, notice: Notice) -> None:
        client = self._client
        if client is None:
            return
        client.outbox += encode(notice)
        client.flush()
        if len(client.outbox) > _OUTBOX_BYTES_MAX:
            self._drop_client()  # it has not read for very long; when it connects again it gets everything
        else:
            self._watch_client(client)

    def _watch_client(self, client: _Client) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.outbox else 0)
        self._selector.modify(client.connection, events, self._serve_client)

    def _drop_client(self) -> None:
        if self._client is not None:
            self._selector.unregister(self._client.connection)
            self._client.connection.close()
            self._client = None
