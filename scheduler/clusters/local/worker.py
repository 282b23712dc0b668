"""One local worker as its supervisor knows it. Standard library only."""

from dataclasses import dataclass

from scheduler.clusters.local.launch_as import Birth
from scheduler.clusters.local.records import ExitRecord, ProcessRecord, WorkerSpec
from scheduler.clusters.local.wire import WorkerNotice
from scheduler.model.observation import EndCause, Phase


@dataclass(slots=True)
class LocalWorker:
    """Changed in place by the supervisor's single thread."""

    spec: WorkerSpec
    log: str
    phase: Phase = Phase.LAUNCHING
    process: ProcessRecord | None = None
    #: The first process runs; when it has ended, others of the worker may still be there.
    first_alive: bool = False
    #: Of the first process, until it has told whether it became the user's program.
    birth: Birth | None = None
    #: Started by a former supervisor: not a child of this one, so its exit code stays unknown.
    adopted: bool = False
    #: Watches an adopted first process.
    pidfd: int | None = None
    stop_asked: bool = False
    #: When all of it is killed, on the monotonic clock.
    kill_at: float | None = None
    killed: bool = False
    #: When the rest is looked at again after the first process has ended, and the pause after that.
    check_at: float = 0.0
    check_seconds: float = 0.01
    exit_code: int | None = None
    detail: str = ""
    cause: EndCause | None = None
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def pid(self) -> int:
        """Of the first process; also the id of its group and session. 0 before the launch."""
        return self.process.pid if self.process else 0

    def exit_record(self, gone: bool) -> ExitRecord:
        return ExitRecord(self.phase, gone, self.exit_code, self.detail, self.started_at, self.ended_at, self.cause)

    def notice(self) -> WorkerNotice:
        return WorkerNotice(
            id=self.spec.id,
            job_id=self.spec.job_id,
            node=self.spec.node,
            phase=self.phase,
            slot_ids=list(self.spec.slot_ids),
            cpus=self.spec.cpus,
            memory_mib=self.spec.memory_mib,
            shared=self.spec.shared,
            exit_code=self.exit_code,
            detail=self.detail,
            cause=self.cause,
            started_at=self.started_at,
            ended_at=self.ended_at,
        )
