"""What the routes need of the daemon: put together once, handed to the application."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from fastapi import Depends, Request

from scheduler.config import Settings
from scheduler.engine.board import Board
from scheduler.engine.ports import EngineClock, Leader
from scheduler.engine.state.reports import ReportBox
from scheduler.http.auth.access import Access
from scheduler.http.hosts import HostAnswers
from scheduler.http.live.notifier import Notifier
from scheduler.http.runtime.compute_slot import ComputeSlot
from scheduler.http.runtime.relay import Relay
from scheduler.http.runtime.shard_batcher import ShardBatcher
from scheduler.http.server.bodies import Bodies
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import JobSpec
from scheduler.store.records import Recurring
from scheduler.store.sqlstore import SqlStore


class Logs(Protocol):
    """Output of workers."""

    def read(self, worker: WorkerId, offset: int = 0, limit: int = 65536, *, nonce: str = "") -> tuple[bytes, int]:
        """Bytes from the offset (negative: from the end), and the offset to go on from.

        `nonce` is that of the worker's job.
        """
        ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """A recurring job and when it is submitted next; None: never again."""

    recurring: Recurring
    next_run_at: float | None


class Recurrence(Protocol):
    """Recurring jobs, as the daemon runs them."""

    def add(self, cron: str, timezone: str, spec: JobSpec) -> Schedule:
        """Raises `InvalidInput` for an expression or a timezone that does not exist."""
        ...

    def get(self, recurring_id: int) -> Schedule | None: ...

    def list(self) -> Sequence[Schedule]: ...

    def delete(self, recurring_id: int) -> bool:
        """Whether there was one."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """One daemon's parts, as far as HTTP uses them."""

    settings: Settings
    store: SqlStore
    board: Board
    reports: ReportBox
    clock: EngineClock
    access: Access
    logs: Logs
    recurrence: Recurrence
    #: Look at the inbox now.
    wake: Callable[[], None]
    #: What is measured, in the format that an Accept header asks for, and the type of that.
    metrics: Callable[[str], tuple[bytes, str]]
    #: Why jobs are not being decided on now, in one line; None if they are.
    not_ready: Callable[[], str | None]
    #: What is wrong although jobs are being decided on, one line each.
    troubles: Callable[[], list[str]]
    #: Number of this daemon's leadership; None while it does not lead.
    term: Callable[[], int | None]
    #: Who leads, this daemon or another, as far as it knows.
    leader: Callable[[], Leader | None]
    relay: Relay
    shards: ShardBatcher
    answers: HostAnswers
    #: Rung with the ids of jobs whose posting changed.
    hosts_bell: Notifier = field(default_factory=Notifier)
    #: Rung with the ids of jobs that have new events, and with None for every event.
    events_bell: Notifier = field(default_factory=Notifier)
    #: Whose turn it is to have something computed.
    compute_slot: ComputeSlot = field(default_factory=ComputeSlot)
    #: What the bodies of all requests hold.
    bodies: Bodies = field(default_factory=Bodies)

    def stored(self, job_ids: Sequence[JobId]) -> None:
        """New jobs are in the store: known at once, decided on at the next tick."""
        if job_ids:
            self.board.expect(max(job_ids))
        self.wake()
        self.events_bell.ring([None, *job_ids])

    def live_workers(self, job_id: JobId) -> int:
        """How many workers of the job live, as far as this replica knows."""
        posting = self.board.posting(job_id)
        return 0 if posting is None else len(posting.live)

    def within(self, seconds: float) -> Callable[[], bool]:
        """Whether so much time from now on is not over yet."""
        until = self.clock.now() + seconds
        return lambda: self.clock.now() < until

    def ahead_seconds(self) -> float:
        """How far people's clocks are ahead of the engine's."""
        return self.clock.wall() - self.clock.now()

    def booked_ahead_seconds(self) -> float:
        """The same, as far as it was confirmed: bookings stand by it."""
        return self.board.world.ahead_seconds if self.board.world is not None else 0.0

    def wake_all(self) -> None:
        """The server stops: nobody waits any longer."""
        self.hosts_bell.close()
        self.events_bell.close()


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]
