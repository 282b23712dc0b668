"""A worker of a Horovod job: it holds the slots, and starts the processes that horovodrun wants on them.

Standard library only. Each process is a child of this one, in a session of its own: the slots are free when it is gone,
and a SIGTERM to the worker does not reach it. A worker that has to leave waits for Horovod to remove its process, which
it does at its next commit once the list has the worker no more. Only where the whole job stops is the process told.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from scheduler.elastic.environment import Environment
from scheduler.elastic.horovod.protocol import HELLO_SECONDS, PURPOSE, watch_for_loss
from scheduler.elastic.horovod.say import say
from scheduler.elastic.horovod.warm import Process, WarmProcesses
from scheduler.elastic.membership.agent import EXIT_DRAINED, Agent, Order
from scheduler.elastic.membership.checkpoint_watch import watch_of
from scheduler.elastic.membership.signed_line import Door, Line

_EXIT_NOT_STARTED = 127
_LOOK_SECONDS = 0.5
#: How long a listed worker without a process stays open to one after it was asked to leave: horovodrun may have decided
#: to start one, and the processes that wait for it would die if it never came.
_EXPECTED_SECONDS = 3.0
#: Between asking a process to end, because horovodrun gave it up, and killing it.
_END_SECONDS = 5.0
#: torch's own variables, which are of the worker's launch: Horovod has others, and frameworks must not find both.
_NOT_PASSED_ON = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Holder:
    """Runs until it is asked to leave, or until a process of it fails."""

    def __init__(self, environment: Environment, warm: int) -> None:
        """`warm`: how many processes are to be ready beforehand."""
        self._variables = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
        self._warm = WarmProcesses(warm, self._variables)
        self._token = environment.token
        self._listener = socket.create_server((environment.own_address(), 0))
        host, port = self._listener.getsockname()[:2]
        self._door = Door()
        self._lock = threading.Lock()
        self._processes: set[Process] = set()
        #: Those that end because this worker ended them, which is no failure.
        self._ended: set[Process] = set()
        #: The newest list that had this worker, and the newest of which it said to be a member.
        self._listed = 0
        self._joined = 0
        self._asked_at: float | None = None
        self._agent = Agent(environment, f"{host}:{port}", end=self._end_fenced, checkpoints=watch_of(environment))

    def run(self) -> NoReturn:
        """Call it in the main thread, which is told of SIGTERM."""
        self._agent.start()
        threading.Thread(target=self._accept_forever, daemon=True).start()
        while True:
            self._look()
            self._agent.wait(_LOOK_SECONDS)

    def _look(self) -> None:
        """Does what the scheduler wants."""
        self._report_membership()
        if not self._agent.asked_to_leave():
            return
        self._asked_at = self._asked_at or time.monotonic()
        ending = self._agent.order(self._listed) in (Order.STOP, Order.LEAVE)
        with self._lock:
            processes = list(self._processes)
            expected = bool(self._listed) and not self._joined and not ending
        if not processes and not (expected and time.monotonic() - self._asked_at < _EXPECTED_SECONDS):
            self._exit(EXIT_DRAINED)
        if ending:
            for process in processes:
                self._end(process, signal.SIGTERM)

    def _report_membership(self) -> None:
        """It is a member of a list as soon as it has a process for it."""
        newest = self._agent.membership()
        if newest is None or newest.rank_of(self._agent.worker) is None:
            return
        with self._lock:
            self._listed = max(self._listed, newest.generation)
            news = bool(self._processes) and self._listed > self._joined
            self._joined = self._listed if news else self._joined
        if news:
            self._agent.update({"generation": newest.generation}, at_once=True)

    def _leaving(self) -> bool:
        newest = self._agent.membership()
        unlisted = newest is not None and newest.rank_of(self._agent.worker) is None
        return unlisted or self._agent.asked_to_leave()

    def _accept_forever(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """One process, from the order for it to its end."""
        with connection, suppress(OSError, ValueError, KeyError):
            watch_for_loss(connection)
            line, order = self._door.accept(connection, self._token, PURPOSE, HELLO_SECONDS)
            process = self._start(order["command"], order["variables"])
            threading.Thread(target=self._end_with, args=(connection, process), daemon=True).start()
            with suppress(OSError):
                line.send({"started": True})
            self._report_membership()
            self._settle(process, line)

    def _start(self, command: Sequence[str], variables: Mapping[str, str]) -> Process:
        with self._lock:
            process = self._warm.start(command, variables) or self._start_cold(command, variables)
            self._processes.add(process)
        return process

    def _start_cold(self, command: Sequence[str], variables: Mapping[str, str]) -> Process:
        env = {**self._variables, **variables}
        try:
            return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as error:
            say(f"{command[0]}: {error.strerror}")
            self._exit(_EXIT_NOT_STARTED)

    def _settle(self, process: Process, line: Line) -> None:
        """Waits for the end of a process, and does what follows from it."""
        code = process.wait()
        code = 128 - code if code < 0 else code
        _signal_group(process, signal.SIGKILL)  # what it left behind
        with self._lock:
            self._processes.discard(process)
            others = list(self._processes)
            leaving = self._leaving()
            failed = code != 0 and process not in self._ended and not leaving
        with suppress(OSError):
            line.send({"exit": code, "failed": failed})
        if failed:
            for other in others:
                _signal_group(other, signal.SIGKILL)
            say(f"the process ended with exit code {code}; this worker exits with the same code")
            self._exit(code)
        if leaving and not others:
            self._exit(EXIT_DRAINED)

    def _end_with(self, connection: socket.socket, process: Process) -> None:
        """Ends the process when horovodrun does not want it any more, or is gone."""
        connection.settimeout(None)
        with suppress(OSError):
            connection.recv(1)
        if process.poll() is None:
            self._end(process, signal.SIGTERM)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._end(process, signal.SIGKILL)

    def _end(self, process: Process, number: signal.Signals) -> None:
        """Tells it once by each signal."""
        with self._lock:
            told = process in self._ended and number is signal.SIGTERM
            self._ended.add(process)
        if not told:
            _signal_group(process, number)

    def _end_fenced(self) -> None:
        for process in list(self._processes):
            _signal_group(process, signal.SIGKILL)
        self._exit(EXIT_DRAINED)

    def _exit(self, code: int) -> NoReturn:
        """From any thread."""
        self._warm.end()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
