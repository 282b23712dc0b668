"""This worker's line to the scheduler: two background threads that know the newest list and report.

Standard library only.
"""

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from types import FrameType
from typing import Any

from scheduler.elastic.environment import Environment
from scheduler.elastic.membership import checkpoint_watch
from scheduler.elastic.membership.checkpoint_watch import CheckpointWatch
from scheduler.elastic.membership.client import Acknowledged, Client, Standing
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.sigterm import Sigterm

_LOG = logging.getLogger("scheduler.elastic")
#: Exit status of a worker that left because it was asked to.
EXIT_DRAINED = 64

#: A report is sent at least this often.
HEARTBEAT_SECONDS = 1.0

_POLL_SECONDS = 30
_RETRY_SECONDS = 0.2
#: How long after SIGTERM a list without this worker may take to arrive.
_PATIENCE_SECONDS = 1.0
#: Part of the grace period after which a worker goes without knowing why it was asked to.
_GRACE_SHARE = 0.8
#: A list that workers handed on, and that the scheduler does not know by then though it answers, is not its own. A
#: replica of the scheduler lags behind for less.
_LAG_SECONDS_MAX = 10.0
#: Limit on the number of different refusals that are logged.
_REFUSALS_MAX = 10
#: Job states, as the scheduler answers them, in which the whole job is ending.
_ENDING = frozenset({"STOPPING", "QUEUED", "SUSPENDED", "SUCCEEDED", "FAILED", "CANCELLED"})


class Order(Enum):
    """What the worker should do at the next step boundary, as far as it knows alone."""

    #: go on as it is
    CONTINUE = "continue"
    #: a newer list is published
    MOVE = "move"
    #: the whole job is being stopped
    STOP = "stop"
    #: this worker was told to go and nobody can be asked why; the others stay
    LEAVE = "leave"


def leave_fenced() -> None:
    """Ends the process at once: the scheduler has given this worker up and nothing it does may last."""
    os._exit(EXIT_DRAINED)


class Agent:
    """Follows the published list by long poll and reports every heartbeat; everything it knows is level-triggered.

    The threads are daemons and are abandoned at exit. SIGTERM is noticed at once, even while the main thread is
    inside a collective, because Python's C handler writes to the wake-up pipe that the reporting thread waits on.
    """

    def __init__(
        self,
        environment: Environment,
        endpoint: str,
        end: Callable[[], None] = leave_fenced,
        checkpoints: CheckpointWatch | None = None,
    ) -> None:
        """`end` ends this process at once, from any thread: nothing that it does may last.

        `checkpoints` tells of those that the script writes; None where the training itself reports its progress.
        """
        self.environment = environment
        self._end = end
        self._checkpoints = checkpoints
        self._changed = threading.Condition()
        self._report: dict[str, Any] = {"generation": 0, "ready": True, "endpoint": endpoint}
        self._membership: Membership | None = None
        #: Since when the list is one that the scheduler itself has not told.
        self._handed_on_at: float | None = None
        #: Generation of such a list that it turned out not to know.
        self._disowned: int | None = None
        self._withdrawn = False
        self._leave = False
        self._job_state = ""
        self._terminated_at: float | None = None
        self._listed_at: float | None = None
        self._answered_at = time.monotonic()
        self._forming_since: float | None = None
        self._watch: tuple[Membership, Callable[[], None], bool] | None = None
        self._refusals: set[str] = set()
        self._confirm_client = Client(environment)
        self._sigterm = Sigterm(_ignore)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def start(self) -> None:
        """Takes over SIGTERM (in the main thread) and starts the threads."""
        if self._sigterm.take():
            signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
            os.register_at_fork(after_in_child=partial(_part_from, os.getpid()))
        for loop in (self._poll_forever, self._report_forever):
            threading.Thread(target=loop, name=loop.__name__.strip("_"), daemon=True).start()
        if self._checkpoints is not None:
            self._checkpoints.start()

    @property
    def worker(self) -> str:
        """This worker's id."""
        return self.environment.worker

    def membership(self) -> Membership | None:
        """The newest list seen, or None before the first."""
        return self._membership

    def order(self, generation: int) -> Order:
        """What a member of this generation should do; cheap, asked at every step."""
        terminated_at = self._terminated_at
        if terminated_at is not None and (self._withdrawn or self._job_state in _ENDING):
            return Order.STOP
        newest = self._membership
        if newest is not None and (newest.generation > generation or self._is_disowned(generation, newest)):
            return Order.MOVE
        if terminated_at is None:
            return Order.CONTINUE
        # Still listed, though the scheduler has had time to publish a list without this worker: the job is stopped.
        patience = min(_PATIENCE_SECONDS, self.environment.grace_seconds / 5)
        if self._listed_at is not None and self._listed_at - terminated_at >= patience:
            return Order.STOP
        return Order.CONTINUE if self._has_grace() else Order.LEAVE

    def asked_to_leave(self) -> bool:
        """Whether this worker got SIGTERM or was told to leave, for whatever reason."""
        return self._terminated_at is not None or self._leave

    def silent_seconds(self) -> float:
        """How long the scheduler has not answered."""
        return time.monotonic() - self._answered_at

    def forming_seconds(self) -> float | None:
        """How long this worker has been waiting for a group to be formed; None where it is not."""
        since = self._forming_since
        return None if since is None else time.monotonic() - since

    def wait(self, seconds: float) -> None:
        """Sleeps until something changed, or that long."""
        with self._changed:
            self._changed.wait(seconds)

    def update(self, fields: Mapping[str, Any], at_once: bool = False) -> None:
        """Changes what is reported; it goes out with the next heartbeat, or at once."""
        with self._changed:
            self._report.update(fields)
        if at_once:
            self._wake()

    def confirm(self, generation: int, *, last: bool) -> bool:
        """Asks the scheduler whether this worker still belongs to its job and to this generation.

        Only then may a checkpoint be written: a group that the scheduler has given up must leave no trace. For the
        `last` checkpoint it asks again while the scheduler is away and the grace lasts.
        """
        while True:
            answer = self._send(self._confirm_client)
            if answer.standing is Standing.FENCED:
                self._end()
            away = answer.standing in (Standing.AWAY, Standing.WITHDRAWN)
            if not (last and away and self._has_grace()):
                return answer.standing is Standing.OK and answer.generation in (0, generation)
            time.sleep(_RETRY_SECONDS)

    def watch(self, membership: Membership, on_void: Callable[[], None], any_change: bool) -> None:
        """Calls `on_void` once, from another thread or at once, when a group of this list cannot work any more.

        That is when a member turns out to be gone unasked; with `any_change`, for a group that is still being formed,
        also when a newer list is there: some members will follow that one without looking back.
        """
        with self._changed:
            self._watch = (membership, on_void, any_change)
            self._forming_since = time.monotonic() if any_change else None
        self._notify_watcher()

    def unwatch(self) -> None:
        """Ends `watch`."""
        with self._changed:
            self._watch = None
            self._forming_since = None

    def take_list(self, membership: Membership) -> None:
        """Goes by this list, which another worker of this job handed on, where it is the newest."""
        with self._changed:
            known = self._membership
            if known is None or membership.version >= known.version:
                if known is None or membership.generation > known.generation:
                    self._handed_on_at = time.monotonic()
                self._go_by(membership)
        self._notify_watcher()

    def take_published(self, membership: Membership | None) -> None:
        """Goes by this list of the scheduler where it is the newest, or where a newer one is not the scheduler's."""
        if membership is None:
            return
        with self._changed:
            known = self._membership
            if known is None or membership.version >= known.version:
                self._handed_on_at = None
                self._go_by(membership)
            elif membership.generation == known.generation:
                self._handed_on_at = None  # workers have agreed to go on without others of that list
            elif self._handed_on_at is not None and time.monotonic() - self._handed_on_at >= _LAG_SECONDS_MAX:
                _LOG.error(
                    "generation %d, which another worker handed on, is not the scheduler's: going by its generation %d",
                    known.generation,
                    membership.generation,
                )
                self._handed_on_at, self._disowned = None, known.generation
                self._go_by(membership)
        self._notify_watcher()

    def _go_by(self, membership: Membership) -> None:
        self._membership = membership
        self._changed.notify_all()

    def _is_disowned(self, generation: int, newest: Membership) -> bool:
        return generation == self._disowned and newest.generation < generation

    def end(self) -> None:
        """Ends this process at once: it was given up."""
        self._end()

    def refresh(self) -> Standing:
        """Asks for the list now, for what can change within a generation (the rendezvous endpoint)."""
        published = self._confirm_client.discover(0, 0)
        self.take_published(published.membership)
        return published.standing

    def flush(self) -> None:
        """Sends the report now; used before the process ends."""
        self._send(self._confirm_client)

    def close(self) -> None:
        """Gives SIGTERM back. The threads go on reporting until the process ends."""
        self._confirm_client.close()
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)
        self._sigterm.give_back()

    def _has_grace(self) -> bool:
        """Whether it was asked to leave, and has time until it must."""
        terminated_at = self._terminated_at
        share = self.environment.grace_seconds * _GRACE_SHARE
        return terminated_at is not None and time.monotonic() - terminated_at < share

    def _wake(self) -> None:
        # A full pipe wakes the reader as well.
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    def _poll_forever(self) -> None:
        client = Client(self.environment)
        while True:
            known = self._membership.generation if self._membership is not None else 0
            answer = client.discover(known, _POLL_SECONDS)
            self._tell_refusal(answer.refusal)
            if answer.standing is Standing.ENDED:
                self._absorb_state("FAILED")
            if answer.standing is Standing.OK:
                self.take_published(answer.membership)
            # What is older than the known list, as of a replica that lags behind, comes at once instead of being held.
            if answer.membership is None or answer.membership.generation < known:
                time.sleep(_RETRY_SECONDS)

    def _report_forever(self) -> None:
        client = Client(self.environment)
        while True:
            answer = self._send(client)
            if answer.standing is Standing.FENCED:
                self._end()
            if answer.standing is Standing.OK:
                with self._changed:
                    self._answered_at = time.monotonic()
                    self._leave = answer.leave
                    self._job_state = answer.job_state
                    self._changed.notify_all()
                if self._terminated_at is not None:
                    self._look_after_termination(client)
            self._sleep_until_woken()

    def _send(self, client: Client) -> Acknowledged:
        with self._changed:
            report = dict(self._report)
        checkpoints = self._checkpoints
        if checkpoints is not None and (seconds := checkpoints.seconds_ago()) is not None:
            report[checkpoint_watch.FIELD] = seconds
        answer = client.report(report)
        if checkpoints is not None and checkpoint_watch.FIELD in answer.refusal:
            self._give_up_checkpoints(checkpoints)
        else:
            self._tell_refusal(answer.refusal)
        return answer

    def _give_up_checkpoints(self, checkpoints: CheckpointWatch) -> None:
        """The scheduler is of an earlier version, which refuses reports that tell of checkpoints."""
        self._checkpoints = None
        checkpoints.stop()
        _LOG.info("this version of the scheduler takes no reports of checkpoints: none are sent")

    def _tell_refusal(self, refusal: str) -> None:
        """Each once: it comes again with every heartbeat."""
        with self._changed:
            if not refusal or refusal in self._refusals or len(self._refusals) >= _REFUSALS_MAX:
                return
            self._refusals.add(refusal)
        _LOG.error("the scheduler rejected the report of this worker: %s", refusal)

    def _look_after_termination(self, client: Client) -> None:
        """Finds out what SIGTERM means. Call only after an answered report: a starting scheduler publishes nothing."""
        asked_at = time.monotonic()
        published = client.discover(0, 0)
        if published.standing is Standing.OK:
            self.take_published(published.membership)
        with self._changed:
            self._withdrawn = published.standing in (Standing.WITHDRAWN, Standing.ENDED)
            if published.standing is Standing.OK:
                self._listed_at = asked_at
            self._changed.notify_all()

    def _sleep_until_woken(self) -> None:
        seconds = HEARTBEAT_SECONDS if self._terminated_at is None else min(HEARTBEAT_SECONDS, 0.25)
        poll = select.poll()  # select() takes no descriptor from 1024 on, and scripts open many files
        poll.register(self._wake_read, select.POLLIN)
        came = os.read(self._wake_read, 4096) if poll.poll(seconds * 1000) else b""
        if signal.SIGTERM in came and self._terminated_at is None:
            with self._changed:
                self._terminated_at = time.monotonic()
                self._changed.notify_all()

    def _absorb_state(self, job_state: str) -> None:
        with self._changed:
            self._job_state = job_state
            self._changed.notify_all()

    def _notify_watcher(self) -> None:
        with self._changed:
            if self._watch is None or self._membership is None:
                return
            watched, on_void, any_change = self._watch
            newer = self._membership.version > watched.version
            newer = newer or self._is_disowned(watched.generation, self._membership)
            if newer and (any_change or self._membership.lost_since(watched)):
                # Under the lock, so that no group formed later can be meant.
                on_void()
                self._watch = None


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """The wake-up pipe has told the reporting thread; a Python handler must exist for that."""


def _part_from(worker: int) -> None:
    """In a process forked from this worker: its signals are none to the worker, nor those to the worker's group its."""
    signal.set_wakeup_fd(-1)
    if os.getppid() == worker and os.getsid(0) != os.getpid():
        os.setsid()
