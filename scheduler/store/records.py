"""What the store takes and gives beside the model's values."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.errors import UserError
from scheduler.model.audit import AuditRecord
from scheduler.model.data import DataSet
from scheduler.model.identity import Identity, UserToken
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.shard_calls import ShardAnswer, ShardCall
from scheduler.model.unreadable import Unreadable
from scheduler.model.worker import Worker


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job that a spec led to; not created where its client key was known already."""

    id: JobId
    created: bool


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; what is empty or None does not narrow."""

    states: tuple[JobState, ...] = ()
    name: str | None = None
    user: str | None = None
    #: Path of the queue that contains a job, itself or through queues inside it.
    queue: str | None = None
    #: Labels that a job must all have.
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs in the order of their ids."""

    jobs: tuple[Job, ...]
    #: Jobs of the same page whose row cannot be read.
    unreadable: tuple[Unreadable, ...]
    #: After which id the next page begins; None: there is none.
    next: int | None


@dataclass(frozen=True, slots=True)
class WorkerPage:
    """Some workers of a job in the order of their ordinals."""

    workers: tuple[Worker, ...]
    unreadable: tuple[Unreadable, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row that cannot be read, with its columns as they are stored."""

    row: Unreadable
    columns: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Recurring:
    """A job to be submitted again at every time that a cron expression names."""

    id: int
    cron: str
    timezone: str
    spec: JobSpec
    created_at: float
    #: The newest time of the expression that was submitted for.
    last_run_at: float | None = None
    #: Who created it; None: nobody knows, as it was created before that was stored.
    submitter: Identity | None = None
    #: Why no job was submitted for the time that is due; None: nothing is due, or it was not tried yet.
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """How far a webhook has got, and how its tries go."""

    name: str
    #: All events up to this id are delivered, as far as they are asked for.
    position: int
    delivered: int = 0
    delivered_at: float | None = None
    #: Tries of the next event that have failed, the first and the next of them, and why; None: none has.
    attempts: int = 0
    failing_since: float | None = None
    next_try_at: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TokenList:
    """All tokens of users, those too that expired or were revoked."""

    tokens: tuple[UserToken, ...]
    #: Those whose row cannot be read; they open nothing.
    unreadable: tuple[Unreadable, ...]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some records of requests with their ids, oldest first."""

    records: tuple[tuple[int, AuditRecord], ...]
    #: Records of the same page whose row cannot be read.
    unreadable: tuple[Unreadable, ...]
    #: Before which id the next page ends; None: there is none.
    next: int | None


@dataclass(frozen=True, slots=True)
class Purged:
    """How many rows a purge removed."""

    jobs: int
    events: int


@dataclass(frozen=True, slots=True)
class ShardsAsked:
    """A reader's call about the data of its worker's job."""

    job_id: JobId
    worker_id: WorkerId
    call: ShardCall
    #: Of the job that the caller works for; None: a user calls.
    nonce: str | None = None


@dataclass(frozen=True, slots=True)
class ShardsGiven:
    """What became of it."""

    data: DataSet
    answer: ShardAnswer
    #: The worker was asked to leave.
    leave: bool


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What became of calls that were made together, in their order; a refusal is one's own and not the group's."""

    #: None where the call was not made: it is still to make.
    outcomes: list[ShardsGiven | UserError | None]
    #: Jobs that have new events by it.
    told: frozenset[JobId]
