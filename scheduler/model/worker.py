"""One launched unit of a job on one node: what is desired of it and what was seen of it."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.errors import IllegalTransition
from scheduler.model.ids import JobId, NodeName, WorkerId


class Desired(StrEnum):
    RUN = "RUN"
    #: Asked to leave; killed at its deadline.
    STOP = "STOP"


class WorkerState(StrEnum):
    """What was seen of a worker."""

    #: Decided and stored; not yet seen on its node.
    PENDING = "PENDING"
    #: Seen on its node; has not reported ready.
    STARTING = "STARTING"
    #: Imports and device initialisation are done (for a plain command: its process runs).
    READY = "READY"
    #: Gone, and its exit is known.
    EXITED = "EXITED"
    #: Gone or out of reach, and its exit is unknown.
    LOST = "LOST"

    @property
    def live(self) -> bool:
        return self in LIVE_STATES


LIVE_STATES = frozenset({WorkerState.PENDING, WorkerState.STARTING, WorkerState.READY})

WORKER_TRANSITIONS: dict[WorkerState, frozenset[WorkerState]] = {
    WorkerState.PENDING: frozenset({WorkerState.STARTING, WorkerState.READY, WorkerState.EXITED, WorkerState.LOST}),
    WorkerState.STARTING: frozenset({WorkerState.READY, WorkerState.EXITED, WorkerState.LOST}),
    WorkerState.READY: frozenset({WorkerState.EXITED, WorkerState.LOST}),
    WorkerState.EXITED: frozenset(),
    WorkerState.LOST: frozenset(),
}


class LeaveReason(StrEnum):
    """Why a worker was asked to leave."""

    #: A more important job needs its slots.
    PREEMPTED = "PREEMPTED"
    #: Its node is being drained, or a slot of it is unhealthy.
    DRAINED = "DRAINED"
    #: It gains more in another job that is at least as important.
    REBALANCED = "REBALANCED"
    #: By its reported speeds, its job was faster with fewer workers.
    NO_GAIN = "NO_GAIN"
    #: Its slots are booked.
    BOOKED = "BOOKED"
    #: Pods of others than this scheduler need its slots.
    FOREIGN = "FOREIGN"
    #: Its job's queue had borrowed its slots from one that needs them for its guarantee or share.
    RECLAIMED = "RECLAIMED"
    #: A user lowered the maximum of the job.
    SCALED = "SCALED"
    #: The load of a slot that it shares crossed a limit, or the slot is no longer oversold.
    OVERSOLD = "OVERSOLD"
    #: The whole job is being stopped.
    JOB_STOPPING = "JOB_STOPPING"
    #: The members of the job are done; a standby worker has nothing to join, a fixed worker nothing to serve.
    JOB_FINISHING = "JOB_FINISHING"
    #: It never got ready, or missed its heartbeat limit; it is killed without being asked, and replaced.
    HUNG = "HUNG"
    #: The cluster could not run it in time because of what the job asks for; it is given up without being asked.
    NOT_LAUNCHED = "NOT_LAUNCHED"
    #: The cluster could not run it in time for a reason outside the job; it is given up without being asked.
    NOT_ADMITTED = "NOT_ADMITTED"
    #: Its node is out of reach; the others go on without it.
    UNREACHABLE = "UNREACHABLE"
    #: While no scheduler answered, the other workers could not reach it and went on without it.
    LEFT_OUT = "LEFT_OUT"


class ExitReason(StrEnum):
    """What the end of a worker means; see engine/exits.py for the rules."""

    #: It left because it was asked to; never a failure, whatever its exit status.
    ASKED = "ASKED"
    #: It finished its work and exited with 0.
    DONE = "DONE"
    #: It left in order without being asked by the scheduler, because its machine told it to.
    DRAINED = "DRAINED"
    #: It asked for a replacement; uses no retry.
    REPLACE = "REPLACE"
    #: It exited with a status that means failure.
    FAILED = "FAILED"
    #: It was killed because it stopped reporting or never got ready; a failure.
    HUNG = "HUNG"
    #: Its process could not be started; a failure.
    LAUNCH_FAILED = "LAUNCH_FAILED"
    #: Its process could not be started, and no further try can: there is no such program or directory; a failure.
    CANNOT_START = "CANNOT_START"
    #: The user of its job has no account on the machine, or one that may have no jobs; not a failure.
    NO_ACCOUNT = "NO_ACCOUNT"
    #: It used more memory than it may; a failure.
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    #: The cluster did not run it for a reason outside the job; not a failure.
    NOT_ADMITTED = "NOT_ADMITTED"
    #: Its node ran short of a resource; not a failure.
    EVICTED = "EVICTED"
    #: The cluster gave its place to something more important; not a failure.
    DISPLACED = "DISPLACED"
    #: Somebody other than this scheduler removed it; not a failure.
    REMOVED = "REMOVED"
    #: It is gone with its node or without a trace, or its place was closed before it began; not a failure.
    LOST = "LOST"


#: Before Python 3.12 reading a member of an enumeration calls a function.
_RUN = Desired.RUN

#: Reasons for which a worker is killed without being asked.
CONDEMNING = frozenset({LeaveReason.HUNG, LeaveReason.NOT_LAUNCHED, LeaveReason.NOT_ADMITTED})


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of one job. Live workers are part of their `Job`; ended ones are history in the store."""

    id: WorkerId
    job_id: JobId
    #: Age order within the job: smaller is older.
    ordinal: int
    node: NodeName
    #: Where other workers reach it: its node's address at the time of placement, or a name of its own.
    host: str
    slot_ids: tuple[int, ...]
    created_at: float
    cpus: float = 0.0
    memory_mib: int = 0
    #: Whether it shares its slots with others, beyond the physical count; else they are its own.
    shared: bool = False
    #: Its place in the job's fixed group, from 0; None: one of the workers that are scaled.
    fixed_index: int | None = None
    #: Not to be launched before (a replacement backs off); unix seconds.
    not_before: float = 0.0
    desired: Desired = Desired.RUN
    state: WorkerState = WorkerState.PENDING
    #: Rank in the published generation; None while standby or leaving.
    rank: int | None = None
    #: The newest generation that it reported to be a member of; 0 for none. Of a fixed one: not 0 if it ever reported.
    reported_generation: int = 0
    #: Where its rendezvous store listens, `host:port`; None until it reports one.
    endpoint: str | None = None
    #: Where it answers the job's other workers, `host:port`; None where it does not.
    peer: str | None = None
    started_at: float | None = None
    ready_at: float | None = None
    leave_reason: LeaveReason | None = None
    #: The job for which it has to leave.
    leave_for: JobId | None = None
    #: When it is killed; unix seconds.
    stop_deadline: float | None = None
    ended_at: float | None = None
    #: As a shell counts: 128 + signal number for a signal; None if unknown.
    exit_code: int | None = None
    exit_reason: ExitReason | None = None
    #: One line of the cluster for people: why it does not run yet, or how it ended.
    detail: str = ""

    @property
    def fixed(self) -> bool:
        """Whether it is one of the job's fixed group."""
        return self.fixed_index is not None

    @property
    def wanted(self) -> bool:
        """Whether it counts towards the job's size: live and not asked to leave."""
        return self.desired is _RUN and self.state in LIVE_STATES

    @property
    def condemned(self) -> bool:
        """Whether it is being killed without being asked; until it is gone it keeps its place in the job."""
        return self.leave_reason in CONDEMNING

    @property
    def member(self) -> bool:
        """Whether it belongs to the published generation."""
        return self.rank is not None


def check_worker_transition(worker: Worker, target: WorkerState) -> None:
    """Raise `IllegalTransition` unless the worker's table has this edge."""
    if target not in WORKER_TRANSITIONS[worker.state]:
        raise IllegalTransition(f"worker {worker.id}: {worker.state} -> {target}")
