"""Behaviour of a simulated worker: set by the test or the simulator, driven by the simulated cluster."""

from dataclasses import dataclass

from scheduler.clusters.simulated.work import Work, WorkerSeconds
from scheduler.engine.absorb.exits import EXIT_DONE, EXIT_DRAINED, EXIT_REPLACE
from scheduler.engine.ports import Role, StartWorker
from scheduler.model.ids import NodeName
from scheduler.model.job import Runtime
from scheduler.model.observation import EndCause, Phase, SlotLoad, WorkerObservation

EXIT_KILLED = 137
#: Exit codes that are no failure of a worker that was not asked to leave.
HARMLESS_EXITS = frozenset({EXIT_DONE, EXIT_DRAINED, EXIT_REPLACE})
STUCK_DETAIL = "no room for it on its node"
NO_PROGRAM_DETAIL = "there is no such program"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the workers of one job behave; all times in seconds. Fixed ones run until they are asked to leave."""

    runtime: Runtime = Runtime.COMMAND
    #: From the start call until the process runs.
    launch_seconds: float = 0.01
    #: From running until an elastic worker reports ready; None: it never does, which is a failure of its own.
    ready_seconds: float | None = 1.0
    #: From being published until the elastic members of a generation have formed their group and report it.
    form_seconds: float = 0.2
    #: Whether the whole job stands still meanwhile; otherwise the workers that worked before go on.
    pause_to_form: bool = False
    #: Between two reports of an elastic worker without news; None: it does not repeat reports.
    heartbeat_seconds: float | None = 1.0
    #: Between two reports of a fixed worker; None: fixed workers report nothing.
    fixed_heartbeat_seconds: float | None = None
    #: Between two checkpoints of a job whose workers watch for them; 0: one with each report.
    checkpoint_seconds: float = 0.0
    #: From being asked until it is gone; None ignores the request until it is killed.
    leave_seconds: float | None = 0.1
    #: Work of the whole job in worker-seconds, done while workers are members; None runs for ever.
    work_seconds: float | None = None
    #: Work of another kind; elastic workers then report their speed, too.
    work: Work | None = None
    #: Whether they report how much of it is done.
    tells_fraction: bool = False
    #: Whether the job goes back to its last report or orderly leave where the last of its workers fails.
    loses_work: bool = False
    #: Exit code that every worker ends with, this long after it runs; None: ends by its work only.
    crash_after_seconds: float | None = None
    crash_code: int = 1
    #: Load that a running worker puts on each of its slots.
    load: SlotLoad = SlotLoad()
    #: Speed of a worker that shares its slots, relative to one that has them to itself.
    shared_speed: float = 1.0
    #: From the start call until the cluster reports a worker that does not run yet as stuck; None: it never does.
    stuck_seconds: float | None = None
    #: Cause that the cluster reports for that.
    stuck_cause: EndCause | None = None
    #: Whether no node can start its workers: there is no such program.
    cannot_start: bool = False
    #: Whether its user has no account on any node.
    no_account: bool = False

    def seconds_between_reports(self, role: Role) -> float | None:
        """From one report of such a worker to the next; None: it does not repeat reports."""
        return self.fixed_heartbeat_seconds if role is Role.FIXED else self.heartbeat_seconds

    @property
    def start_refused(self) -> EndCause | None:
        """Why none of its workers starts; None: they do."""
        if self.no_account:
            return EndCause.NO_ACCOUNT
        return EndCause.CANNOT_START if self.cannot_start else None

    @property
    def whole_work(self) -> Work | None:
        """The job's work; None: it runs for ever."""
        return WorkerSeconds(self.work_seconds) if self.work is None and self.work_seconds is not None else self.work


@dataclass(slots=True)
class Process:
    """One worker's process."""

    start: StartWorker
    node: NodeName
    phase: Phase
    phase_since: float
    elastic: bool = False
    ready: bool = False
    hung: bool = False
    #: The newest generation that it has formed with others; 0: standby.
    generation: int = 0
    heard_at: float = 0.0
    asked_at: float | None = None
    kill_at: float | None = None
    exit_code: int | None = None
    ended_at: float | None = None
    #: When it begins to count as stuck, if it does not run.
    stuck_at: float | None = None
    stuck_cause: EndCause | None = None
    #: Cause that the cluster reports for its end.
    end_cause: EndCause | None = None
    #: The last observation; the same object until something changes.
    seen: WorkerObservation | None = None

    @property
    def alive(self) -> bool:
        return self.phase in (Phase.LAUNCHING, Phase.RUNNING)

    @property
    def working(self) -> bool:
        """Whether it does its share of the job's work: an elastic one does once its group has formed."""
        runs = self.phase is Phase.RUNNING and not self.hung and self.asked_at is None
        if self.start.role is Role.FIXED:
            return False
        return runs and (self.generation > 0 or not self.elastic)

    def observe(self, now: float, lag_seconds: float) -> WorkerObservation:
        """The cluster's observation of it; its end is seen `lag_seconds` late."""
        unseen = self.ended_at is not None and now < self.ended_at + lag_seconds
        phase = Phase.RUNNING if unseen else self.phase
        stuck = phase is Phase.LAUNCHING and self.stuck_at is not None and now >= self.stuck_at
        if self.seen is None or (self.seen.phase, self.seen.stuck) != (phase, stuck):
            self.seen = WorkerObservation(
                self.start.worker_id,
                self.start.job_id,
                self.node,
                phase,
                self.start.slot_ids,
                self.start.cpus,
                self.start.memory_mib,
                self.start.shared,
                None if unseen else self.exit_code,
                detail=_detail(stuck, self.end_cause),
                stuck=stuck,
                cause=self.stuck_cause if stuck else self.end_cause,
                started_at=self.phase_since,
                ended_at=None if unseen else self.ended_at,
                nonce=self.start.nonce,
            )
        return self.seen


def _detail(stuck: bool, end_cause: EndCause | None) -> str:
    if stuck:
        return STUCK_DETAIL
    return NO_PROGRAM_DETAIL if end_cause is EndCause.CANNOT_START else ""
