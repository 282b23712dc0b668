"""torchrun's rendezvous where the scheduler says who meets: `--rdzv-backend=sched`. Imports torch.

torchrun finds it by this package's entry point `torchrun.handlers`. A worker of such a job is one torchrun agent; this
runs inside the agent, the training runs in the processes that the agent starts anew for each generation.
"""

import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import NoReturn

from torch.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)

from scheduler.elastic.environment import Environment
from scheduler.elastic.errors import Superseded
from scheduler.elastic.group.rendezvous_store import Meeting, connect, meet, worth_meeting
from scheduler.elastic.membership.absence_reporter import AbsenceReporter
from scheduler.elastic.membership.agent import EXIT_DRAINED, Agent, Order
from scheduler.elastic.membership.checkpoint_watch import watch_of
from scheduler.elastic.membership.client import Standing
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.quorum_runner import Agreement
from scheduler.elastic.torchrun.generation import Round
from scheduler.elastic.torchrun.served_stores import ServedStores

_LOG = logging.getLogger("scheduler.elastic")
_EXIT_FAILED = 1
_WAIT_SECONDS = 0.5
#: If a worker is lost and the scheduler has answered no worker for this long, the others agree to go on without it.
_QUORUM_AFTER_SECONDS = 5.0
#: How long an agent may take to come to a new generation, beyond the grace of its processes.
_COME_SECONDS = 30.0
#: How long the others may take to notice a failure that one has noticed.
_NOTICE_SECONDS = 5.0
#: How long the others wait for a newer list after a failure before one of them gives up instead.
_BLAME_SECONDS_MAX = 60.0
_ASK_SECONDS = 0.25


def creator() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """What the entry point names: makes handlers for torchrun."""
    return _create


def _create(parameters: RendezvousParameters) -> RendezvousHandler:
    environment = Environment.read(os.environ)
    if environment is None:
        raise SystemExit("--rdzv-backend=sched requires a worker started by the scheduler: SCHED_URL is not set")
    if not {"--run-path", "--run_path"}.isdisjoint(sys.argv):
        # Processes are forked from this one. What any training imports at its first step is best imported here; the GPU
        # must not be touched, not even to see whether there is one, or no forked process could use it.
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        import torch._dynamo  # noqa: F401
    return SchedulerRendezvous(environment, parameters.run_id)


class SchedulerRendezvous(RendezvousHandler):
    """The published list is the membership: one group per generation, no store that outlives it, no last call.

    A newer list makes all agents that go on stop their processes at the same moment, which torchrun counts as no
    restart. One that is not listed any more lets its processes train until then, and leaves.

    torchrun gives up after a number of failures of its own; here the scheduler counts. When processes fail and no newer
    list tells why, the agent that saw it first ends with a failure; the others wait for the list without it.
    Where another's processes were done before, that one is let go instead. While the scheduler is away, they agree on
    a list without those that are lost.
    """

    def __init__(self, environment: Environment, run_id: str) -> None:
        self._run_id = run_id
        self._address = environment.own_address()
        self._token = environment.token
        self._meeting = Meeting(self._address, self._token)
        #: of the list that is joined, where this agent is its rank 0
        self._served = ServedStores(self._address, self._token)
        self._round: Round | None = None
        self._moving = False
        self._left = False
        watch = watch_of(environment)
        self._agent = Agent(environment, self._meeting.endpoint, end=_end_with_processes, checkpoints=watch)
        Agreement(self._agent, self._address, _QUORUM_AFTER_SECONDS).start()
        self._agent.start()

    @property
    def use_agent_store(self) -> bool:
        """The processes do not serve a store: this agent does, as long as they may live."""
        return True

    def get_backend(self) -> str:
        """The name under which torchrun knows it."""
        return "sched"

    def get_run_id(self) -> str:
        """The job's id."""
        return self._run_id

    def is_closed(self) -> bool:
        """Never: an agent that has nothing to join is asked to leave."""
        return False

    def set_closed(self) -> None:
        """Whether the job goes on is for the scheduler to say."""

    def shutdown(self) -> bool:
        """Ends the store that this agent serves, and the agent itself where it was asked to leave.

        It is the last that torchrun does, and taking torch down takes longer than the slots should wait.
        """
        if self._left:
            logging.shutdown()
            os._exit(EXIT_DRAINED)
        self._end_round()
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Waits for a list that has this worker, and for all others of it. SystemExit where it has to leave."""
        if self._round is not None and not self._moving:
            with self._without_group(self._round.membership) as absence_reporter:
                self._wait_after_failure(self._round, absence_reporter)
        self._moving = False
        self._end_round()
        while True:
            try:
                return self._join(self._next_list())
            except Superseded:
                continue
            except (OSError, RuntimeError) as error:
                _LOG.info("rendezvous failed, retrying: %s", error)
                self._agent.wait(_WAIT_SECONDS)

    def num_nodes_waiting(self) -> int:
        """1 where the agent has to stop its processes for a newer generation. SystemExit where it has to leave."""
        if self._round is None:
            return 0
        self._leave_if_asked()
        newest = self._agent.membership()
        if newest is None or not self._is_news(newest) or not self._round.ready_together(newest):
            return 0
        if newest.rank_of(self._agent.worker) is None:
            self._leave()
        self._moving = True
        return 1

    @property
    def _version(self) -> tuple[int, int]:
        return self._round.membership.version if self._round is not None else (0, 0)

    def _is_news(self, newest: Membership) -> bool:
        """Whether to go on with this list: it is newer, or that of the round turned out not to be the scheduler's."""
        return newest.version > self._version or self._agent.order(self._version[0]) is Order.MOVE

    def _next_list(self) -> Membership:
        while True:
            self._leave_if_asked()
            newest = self._agent.membership()
            if newest is not None and self._is_news(newest):
                if newest.rank_of(self._agent.worker) is not None:
                    return newest
                if self._round is not None:
                    self._leave()
            self._agent.wait(_WAIT_SECONDS)

    def _join(self, membership: Membership) -> RendezvousInfo:
        rank = membership.workers.index(self._agent.worker)
        endpoint = self._meeting.endpoint if rank == 0 else membership.rendezvous
        still_wanted = worth_meeting(self._agent, membership, rank, endpoint, self._leave_if_asked)
        with self._without_group(membership) as absence_reporter:
            place = meet(endpoint, self._token, membership, rank, 0, still_wanted, absence_reporter.note)
            with closing(place):
                if rank == 0:
                    agents, processes = self._served.of(membership)
                    place.set("store", agents)
                    place.set("processes", processes)
                store = connect(place.get("store").decode(), self._token)
                store.set(f"joined/{rank}", "1")
                host, _, port = place.get("processes").decode().rpartition(":")
        self._round = Round(membership, rank, store)
        self._agent.update({"generation": membership.generation}, at_once=True)
        return RendezvousInfo(store, rank, membership.size, RendezvousStoreInfo(host, int(port)))

    def _end_round(self) -> None:
        """Nobody needs its connection to this generation's store any more, nor others this agent's store."""
        if self._round is not None:
            self._round.store.close()
        self._served.close()

    def _wait_after_failure(self, failed: Round, absence_reporter: AbsenceReporter) -> None:
        """Returns once a newer list is there; ends this agent where it is the one to count."""
        patience_seconds = _NOTICE_SECONDS if failed.note_failure() else _BLAME_SECONDS_MAX
        gives_up_at = time.monotonic() + patience_seconds
        early = False
        while True:
            self._leave_if_asked()
            absence_reporter.note(frozenset)
            if not early and failed.dismiss_done():
                _LOG.warning("processes of another worker ended with exit code 0 before these: continuing without it")
                early, patience_seconds = True, _BLAME_SECONDS_MAX
                gives_up_at = time.monotonic() + patience_seconds
            standing = self._agent.refresh()
            newest = self._agent.membership()
            if newest is not None and self._is_news(newest):
                return
            if standing is not Standing.OK:
                # The scheduler knows already that somebody is missing, or is away: that is no failure of this worker.
                gives_up_at = time.monotonic() + patience_seconds
            elif time.monotonic() >= gives_up_at or (
                patience_seconds == _NOTICE_SECONDS and failed.failed_everywhere()
            ):
                _LOG.error("a process failed: this worker exits, and the scheduler starts another")
                raise SystemExit(_EXIT_FAILED)
            self._agent.wait(_ASK_SECONDS)

    @contextmanager
    def _without_group(self, membership: Membership) -> Iterator[AbsenceReporter]:
        """Meanwhile this worker has no group of this list: while the scheduler is away, it may ask for another."""
        come_seconds = self._agent.environment.grace_seconds + _COME_SECONDS
        self._agent.watch(membership, lambda: None, any_change=True)
        try:
            # A newcomer misses nobody: where the others' processes are done already, they do not come any more.
            with AbsenceReporter(
                self._agent, membership, math.inf if self._round is None else come_seconds
            ) as absence_reporter:
                yield absence_reporter
        finally:
            self._agent.unwatch()

    def _leave_if_asked(self) -> None:
        if self._round is None:
            if self._agent.asked_to_leave():
                self._leave()
        elif self._agent.order(self._version[0]) in (Order.STOP, Order.LEAVE):
            self._leave()

    def _leave(self) -> NoReturn:
        """torchrun stops the processes on the way out."""
        self._left = True
        raise SystemExit(EXIT_DRAINED)


def _end_with_processes() -> None:
    """Ends this agent at once, and its processes first: each leads a session of its own."""
    for task in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{task}/children") as children:
            for pid in children.read().split():
                with suppress(OSError):
                    os.killpg(int(pid), signal.SIGKILL)
    os._exit(EXIT_DRAINED)
