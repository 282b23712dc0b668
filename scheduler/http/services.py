"""The parts of the daemon that routes need: put together once, handed to the application."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from fastapi import Depends, Request

from scheduler.clusters.local.accounts import Accounts
from scheduler.config import Settings
from scheduler.engine.board import Board
from scheduler.engine.ports import EngineClock, Leader
from scheduler.engine.state.reports import ReportBox
from scheduler.http.auth.access import Access
from scheduler.http.auth.login_groups import groups_of
from scheduler.http.auth.page_codes import PageCodes
from scheduler.http.auth.tokens import TokenBook
from scheduler.http.hosts import HostAnswers
from scheduler.http.live.notifier import Notifier
from scheduler.http.runtime.audit import AuditTrail
from scheduler.http.runtime.compute_slot import ComputeSlot
from scheduler.http.runtime.relay import Relay
from scheduler.http.runtime.shard_batcher import ShardBatcher
from scheduler.http.server.bodies import Bodies
from scheduler.model.identity import Identity
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import JobSpec
from scheduler.store.records import Recurring
from scheduler.store.sqlstore import SqlStore


class Logs(Protocol):
    """Output of workers."""

    def read(self, worker: WorkerId, offset: int = 0, limit: int = 65536, *, nonce: str = "") -> tuple[bytes, int]:
        """Read bytes from the offset (negative: from the end); returns them and the offset to go on from.

        `nonce` is that of the worker's job.
        """
        ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """A recurring job and the time of its next submission; None: never again."""

    recurring: Recurring
    next_run_at: float | None


class Recurrence(Protocol):
    """Recurring jobs, as the daemon runs them."""

    def add(self, cron: str, timezone: str, spec: JobSpec, submitter: Identity) -> Schedule:
        """Store a recurring job. Raises `InvalidInput` for an expression or a timezone that does not exist."""
        ...

    def get(self, recurring_id: int) -> Schedule | None: ...

    def list(self) -> Sequence[Schedule]: ...

    def delete(self, recurring_id: int) -> bool:
        """Remove a recurring job; returns whether there was one."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one daemon that HTTP uses."""

    settings: Settings
    store: SqlStore
    board: Board
    reports: ReportBox
    clock: EngineClock
    access: Access
    tokens: TokenBook
    page_codes: PageCodes
    audit: AuditTrail
    logs: Logs
    recurrence: Recurrence
    #: Makes the engine look at its inbox now.
    wake: Callable[[], None]
    #: Metrics in the format that an Accept header asks for, and its content type.
    metrics: Callable[[str], tuple[bytes, str]]
    #: Why no decisions are made now, in one line; None if they are.
    not_ready: Callable[[], str | None]
    #: Troubles that do not stop decisions, one line each.
    troubles: Callable[[], list[str]]
    #: Number of this daemon's leadership; None while it does not lead.
    term: Callable[[], int | None]
    #: Whether this daemon leads and no other can by now; it may have stood still for longer than its lease.
    leads: Callable[[], bool]
    #: The leader, this daemon or another, if known.
    leader: Callable[[], Leader | None]
    relay: Relay
    shards: ShardBatcher
    answers: HostAnswers
    #: Rung with the ids of jobs whose posting changed.
    hosts_bell: Notifier = field(default_factory=Notifier)
    #: Rung with the ids of jobs that have new events, and with None for every event.
    events_bell: Notifier = field(default_factory=Notifier)
    #: Turns of long computations.
    compute_slot: ComputeSlot = field(default_factory=ComputeSlot)
    #: Memory held by the bodies of all requests.
    bodies: Bodies = field(default_factory=Bodies)
    #: The groups of a login of this machine.
    groups_of: Callable[[str], Collection[str]] = groups_of
    #: The users as whom jobs run; None: all run as the user of the daemon, or in pods.
    accounts: Accounts | None = None

    def stored(self, job_ids: Sequence[JobId]) -> None:
        """Announce new jobs in the store: they are known at once, and the next tick decides on them."""
        if job_ids:
            self.board.expect(max(job_ids))
        self.wake()
        self.events_bell.ring([None, *job_ids])

    def live_workers(self, job_id: JobId) -> int:
        """Number of the job's live workers, as far as this replica knows."""
        posting = self.board.posting(job_id)
        return 0 if posting is None else len(posting.live)

    def within(self, seconds: float) -> Callable[[], bool]:
        """Return a function that tells whether less than `seconds` have passed since this call."""
        until = self.clock.now() + seconds
        return lambda: self.clock.now() < until

    def ahead_seconds(self) -> float:
        """How far people's clocks are ahead of the engine's."""
        return self.clock.wall() - self.clock.now()

    def booked_ahead_seconds(self) -> float:
        """How far people's clocks are ahead of the engine's, as the world has confirmed it; bookings go by that."""
        return self.board.world.ahead_seconds if self.board.world is not None else 0.0

    def wake_all(self) -> None:
        """End all waits, since the server stops."""
        self.hosts_bell.close()
        self.events_bell.close()


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _given(request: Request) -> Services:
    """On the event loop: FastAPI calls what is not async on a thread, once for each request."""
    return services_of(request)


ServicesDep = Annotated[Services, Depends(_given)]
