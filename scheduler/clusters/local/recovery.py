"""Recovery from a former supervisor's records: which workers still run, and which ended unseen.

Standard library only.
"""

from pathlib import Path

from scheduler.clusters.local.processes import (
    Process,
    all_processes,
    boot_id,
    kill_process,
    may_be_of,
    open_pidfd,
    worker_of,
)
from scheduler.clusters.local.records import ProcessRecord, Records, WorkerRecord
from scheduler.clusters.local.worker import LocalWorker
from scheduler.clusters.logs.files import log_path
from scheduler.model.observation import EndCause, Phase

_UNSEEN = "ended while no supervisor was running: exit code unknown"
_REBOOTED = "the machine was restarted: exit code unknown"


def recover(state_dir: Path) -> list[LocalWorker]:
    """Every recorded worker; if its first process runs, with a `pidfd`. Kills processes that ended workers left."""
    boot = boot_id()
    members: dict[str, list[Process]] = {}
    for process in all_processes():
        name = worker_of(process.pid, str(state_dir))
        if name is not None:
            members.setdefault(name, []).append(process)
    workers = []
    for record in Records(state_dir).load():
        own = [each for each in members.pop(record.spec.id, []) if may_be_of(each.pid, record.spec.uid)]
        members[record.spec.id] = own
        workers.append(_recover_one(state_dir, record, boot, own))
    running = {worker.spec.id for worker in workers if worker.phase is Phase.RUNNING}
    for name, processes in members.items():
        if name not in running:
            for process in processes:
                kill_process(process)
    return workers


def _recover_one(state_dir: Path, record: WorkerRecord, boot: str, members: list[Process]) -> LocalWorker:
    worker = LocalWorker(record.spec, log_path(state_dir, record.spec.job_id, record.spec.id), adopted=True)
    worker.phase = Phase.RUNNING
    worker.process = record.process
    worker.started_at = record.process.started_at if record.process else None
    if record.stop is not None and record.stop.boot_id == boot:
        worker.stop_asked, worker.kill_at = True, record.stop.kill_at
    if record.exit is not None:
        worker.process = None
        worker.exit_code, worker.detail = record.exit.exit_code, record.exit.detail
        worker.started_at, worker.ended_at = record.exit.started_at, record.exit.ended_at
        worker.cause = None if record.exit.cause is None else EndCause(record.exit.cause)
        if record.exit.gone:
            worker.phase = Phase(record.exit.phase)
        return worker
    if record.process is None:
        worker.process = _find_first(members, boot)
    if worker.process is not None and worker.process.boot_id == boot:
        worker.pidfd = open_pidfd(worker.process.pid, worker.process.start_ticks)
    worker.first_alive = worker.pidfd is not None
    if not worker.first_alive:
        rebooted = worker.process is not None and worker.process.boot_id != boot
        worker.detail = _REBOOTED if rebooted else _UNSEEN
        # Its pid may be another's by now. Processes that it left behind are known by their environment.
        worker.process = None
    return worker


def _find_first(members: list[Process], boot: str) -> ProcessRecord | None:
    """The session leader of a worker whose supervisor died between the fork and the record of it."""
    for process in members:
        if process.pid == process.session == process.group:
            return ProcessRecord(process.pid, process.start_ticks, boot, 0.0)
    return None
