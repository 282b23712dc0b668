"""One worker's life between start and exit: lists, groups, agreement, checkpoints. Imports torch."""

import logging
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed.rendezvous import rendezvous

from scheduler.elastic.errors import GroupBroken, Resized, Stopped, Superseded
from scheduler.elastic.group.group import Group, form
from scheduler.elastic.group.rendezvous_store import Meeting, worth_meeting
from scheduler.elastic.group.sockets import Connections
from scheduler.elastic.membership.absence_reporter import AbsenceReporter
from scheduler.elastic.membership.agent import EXIT_DRAINED, Agent, Order
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.standalone import Alone
from scheduler.elastic.state import State
from scheduler.elastic.step_watch import StepWatch
from scheduler.elastic.training.checkpoint import CheckpointDirectory

_LOG = logging.getLogger("scheduler.elastic")
#: A decision is one integer, so that the largest wins: stop before any generation, a later before an earlier one.
_STOP = 1 << 62
_RANK_BITS = 20
_WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """See `run`."""

    group_timeout_seconds: float
    checkpoint_every_seconds: float | None
    quorum_after_seconds: float | None
    step_timeout_seconds: float | None


class Session:
    """The side of `run` that faces the scheduler and the peers; it is the state's `Boundary`."""

    def __init__(
        self,
        agent: Agent | Alone,
        meeting: Meeting | None,
        checkpoints: CheckpointDirectory | None,
        state: State,
        options: Options,
    ) -> None:
        self._agent = agent
        self._meeting = meeting
        self._checkpoints = checkpoints
        self._state = state
        self._options = options
        self._group: Group | None = None
        #: newest membership of which this worker was a member, and how often its group broke
        self._version = (0, 0)
        self._attempt = 0
        self._checkpoint_at = time.monotonic()
        self._steps = StepWatch(options.step_timeout_seconds)

    def join(self, membership: Membership | None) -> None:
        """Becomes a member of the newest possible group, with the state that all of it share.

        Args:
            membership: the list that the last group agreed on; None to wait for one.
        """
        while True:
            if membership is None:
                membership = self._next_list()
            try:
                self._group = self._form(membership)
                self._state._join(self._group, self, self._load_checkpoint)
            except Superseded:
                self._agent.unwatch()
                membership = None
            except Exception as error:
                if not is_broken_group(error):
                    raise
                _LOG.info("generation %s: %s", membership.name, error)
                self.abandon()
                membership = None
            else:
                # What was measured at the old size must not be taken for the new one's.
                fields = {"generation": membership.generation, "samples_per_second": None, "efficiency": None}
                self._agent.update(fields, at_once=True)
                self._steps.begin()
                return

    def abandon(self) -> None:
        """Leaves a broken group, so that no peer waits for this rank, and goes back to the last commit."""
        self.leave_group(broken=True)
        self._attempt += 1
        self._state.restore()

    def leave_group(self, broken: bool = False) -> None:
        """Takes the group down."""
        self._steps.pause()
        self._agent.unwatch()
        if self._group is not None:
            if broken:
                self._group.shut()
            self._group.dissolve()
            self._group = None
        self._state._leave_group()

    def finish(self) -> None:
        """Ends a completed training: no rank goes before all have come this far."""
        self._steps.pause()
        if self._group is not None:
            try:
                self._group.largest(0)
            except (RuntimeError, GroupBroken) as error:
                # Training is complete here, and so it is wherever this last exchange was reached.
                _LOG.info("a peer left before the end: %s", error)
            else:
                self.leave_group()
        self._agent.flush()

    def stop(self) -> NoReturn:
        """Ends this worker after all ranks agreed that the job stops; rank 0 writes the checkpoint."""
        if self._group is not None and self._group.rank == 0:
            self._write_checkpoint(last=True)
        leave()

    def agree(self, voted: bool | None, tell: Callable[[], tuple[float, ...]]) -> tuple[int, tuple[float, ...]]:
        """See `Boundary`."""
        group = self._require_group()
        group.settle_device()
        self._steps.pause()
        told = tell()
        if voted is False:
            return 0, (0.0,) * len(told)
        order = self._agent.order(group.generation)
        newest = self._agent.membership()
        mine = 0
        if order is Order.LEAVE:
            leave()
        if order is Order.STOP:
            mine = _STOP
        elif order is Order.MOVE and newest is not None:
            mine = newest.generation << _RANK_BITS | group.rank
        return group.agree(mine, told)

    def proceed(self, decision: int) -> None:
        """See `Boundary`."""
        group = self._require_group()
        if decision == 0:
            every = self._options.checkpoint_every_seconds
            if every is not None and group.rank == 0 and time.monotonic() - self._checkpoint_at >= every:
                self._write_checkpoint()
            self._steps.begin()
            return
        if decision == _STOP:
            raise Stopped
        # Whoever saw the newest list hands it to the others: all move to the same one, even those whose own poll lags.
        source = decision & ((1 << _RANK_BITS) - 1)
        newest = self._agent.membership()
        payload = newest.encode() if newest is not None and group.rank == source else None
        agreed = Membership.parse(group.send_bytes(payload, source))
        if agreed.rank_of(self._agent.worker) is None:
            leave()
        raise Resized(agreed)

    def tell(self, fields: dict[str, Any]) -> None:
        """See `Boundary`."""
        self._agent.update(fields)

    def wants_change(self) -> bool:
        """See `Boundary`."""
        return self._agent.order(self._require_group().generation) is not Order.CONTINUE

    def survives(self, error: Exception) -> bool:
        """Whether training can go on after this error of the training function."""
        if isinstance(self._agent, Alone):
            return False
        # SIGTERM may reach the loader's processes as well: that is no fault of the script.
        killed_loader = self._agent.asked_to_leave() and "DataLoader worker" in str(error)
        return is_broken_group(error) or killed_loader

    def close(self) -> None:
        """Frees the peers and gives SIGTERM back; the process may go on by itself."""
        self.leave_group(broken=True)
        self._agent.close()

    @property
    def _generation(self) -> int:
        return self._version[0]

    def _require_group(self) -> Group:
        if self._group is None:
            raise GroupBroken("there is no group")
        return self._group

    def _next_list(self) -> Membership:
        """Waits for a list to form a group of. That of a group that broke is tried again: maybe nobody died."""
        while True:
            self._leave_if_asked()
            newest = self._agent.membership()
            if newest is not None:
                if newest.rank_of(self._agent.worker) is not None:
                    return newest
                if self._generation and newest.generation > self._generation:
                    leave()
            self._agent.wait(_WAIT_SECONDS)

    def _leave_if_asked(self) -> None:
        """Outside of a group a worker decides alone: there is no step to finish."""
        if self._state._committed_step < 0:
            if self._agent.asked_to_leave():
                leave()
        elif (order := self._agent.order(self._generation)) is Order.LEAVE:
            leave()
        elif order is Order.STOP:
            # The group broke before it could agree. All survivors of a step hold the same commit, and a file is named
            # for it, so it does not matter which of them writes it.
            self._write_checkpoint(last=True)
            leave()

    def _form(self, membership: Membership) -> Group:
        rank = membership.rank_of(self._agent.worker)
        if rank is None:
            leave()
        if membership.version != self._version:
            self._version, self._attempt = membership.version, 0
        timeout_seconds = self._options.group_timeout_seconds
        if self._meeting is None:
            return _fixed_group(membership, rank, timeout_seconds)
        endpoint = self._meeting.endpoint if rank == 0 else membership.rendezvous
        still_wanted = worth_meeting(self._agent, membership, rank, endpoint, self._leave_if_asked)
        connections = self._meeting.connections(frozenset(membership.peers.values()))
        self._agent.watch(membership, connections.shut, any_change=True)
        # A newcomer misses nobody: the others come when they are through with their step, however long that takes.
        patience_seconds = timeout_seconds if self._state._committed_step >= 0 else math.inf
        with AbsenceReporter(self._agent, membership, patience_seconds) as absence_reporter:
            group = form(
                endpoint,
                self._meeting.token,
                connections,
                membership,
                rank,
                self._attempt,
                timeout_seconds,
                still_wanted,
                absence_reporter.note,
            )
        self._agent.watch(membership, group.shut, any_change=False)
        return group

    def _load_checkpoint(self) -> Any:
        found = self._checkpoints.read() if self._checkpoints is not None else None
        return found[1] if found is not None else None

    def _write_checkpoint(self, *, last: bool = False) -> None:
        committed = self._state._committed()
        if self._checkpoints is None or committed is None:
            return
        self._checkpoint_at = time.monotonic()
        if not self._agent.confirm(self._generation, last=last):
            _LOG.warning("no checkpoint written: the scheduler did not confirm generation %d", self._generation)
            return
        step, tree = committed
        try:
            self._checkpoints.write(self._generation, step, tree)
        except OSError as error:
            _LOG.error("no checkpoint written for step %d: %s", step, error)


def is_broken_group(error: BaseException) -> bool:
    """Whether an exception says that a collective failed, rather than that the script is wrong.

    gloo raises plain RuntimeErrors; they name its source files. One of ours that has gone through torch is one, too.
    """
    if isinstance(error, GroupBroken | dist.DistError):
        return True
    return isinstance(error, RuntimeError) and any(
        sign in str(error)
        for sign in ("GroupBroken:", "/gloo/", "Connection closed by peer", "Connection reset by peer", "NCCL")
    )


def leave() -> NoReturn:
    """Exits as asked, at once: tearing torch down takes longer than the slots should wait."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a full disk, a reader that has gone, or a stream that was closed or never open
            stream.flush()
    logging.shutdown()
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(EXIT_DRAINED)


def _fixed_group(membership: Membership, rank: int, timeout_seconds: float) -> Group:
    if membership.size == 1:
        return Group(membership, rank, HashStore(), timeout_seconds, Connections(frozenset(), frozenset()))
    store, _, _ = next(rendezvous("env://"))
    return Group(membership, rank, store, timeout_seconds, Connections(frozenset(), frozenset()))
