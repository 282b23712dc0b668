"""From the reports of ticks to a `Result`."""

from dataclasses import dataclass

from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.engine.tick import TickReport
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.worker import LeaveReason
from scheduler.simulate.result import JobResult, QueueStep, Result, SlotStep
from scheduler.simulate.workload import Workload


@dataclass(slots=True)
class _Record:
    """One job so far."""

    index: int
    name: str
    submitted_at: float
    state: JobState = JobState.QUEUED
    started_at: float | None = None
    finished_at: float | None = None
    generations: int = 0
    stops: int = 0
    preemptions: int = 0
    lost_slot_seconds: float = 0.0
    slots: int = 0
    shared_slots: int = 0
    slot_seconds: float = 0.0
    shared_slot_seconds: float = 0.0
    slots_since: float = 0.0

    def hold(self, slots: int, shared_slots: int, now: float) -> None:
        self.slot_seconds += self.slots * (now - self.slots_since)
        self.shared_slot_seconds += self.shared_slots * (now - self.slots_since)
        self.slots, self.shared_slots, self.slots_since = slots, shared_slots, now


class Recorder:
    """Follows a run; times are counted from `start`."""

    def __init__(self, workload: Workload, cluster: SimulatedCluster, start: float) -> None:
        self._workload = workload
        self._cluster = cluster
        self._start = start
        self._records: dict[JobId, _Record] = {}
        self._held: list[SlotStep] = []
        self._queue: list[QueueStep] = [QueueStep(0.0, 0)]
        self._waiting = 0
        self._ticks = 0
        self.ended = 0

    def submitted(self, job_id: JobId, index: int, now: float) -> None:
        """A job was stored at this moment of the clock; `index` is its place in the workload."""
        submission = self._workload.submissions[index]
        self._records[job_id] = _Record(index, submission.spec.name, submission.at, slots_since=submission.at)
        self._count_waiting(1, now - self._start)

    def ticked(self, report: TickReport) -> None:
        """Take over what one tick did."""
        self._ticks += 1
        for event in report.events:
            if event.job_id in self._records:
                _count(self._records[event.job_id], event, event.at - self._start)
        for job in report.changed:
            self._follow(self._records[job.id], job, report.at - self._start)

    def _follow(self, record: _Record, job: Job, now: float) -> None:
        waits, waited = job.state is JobState.QUEUED, record.state is JobState.QUEUED
        if waits is not waited:
            self._count_waiting(1 if waits else -1, now)
        record.state = job.state
        slots = sum(len(worker.slot_ids) for worker in job.all_workers if not worker.shared)
        shared = sum(len(worker.slot_ids) for worker in job.all_workers if worker.shared)
        if (slots, shared) != (record.slots, record.shared_slots):
            record.hold(slots, shared, now)
            self._held.append(SlotStep(now, record.index, slots, shared))
        if job.state.terminal and record.finished_at is None:
            job_progress = self._cluster.job_progress(job.id)
            done_at = job_progress.finished_at if job_progress is not None and job.state is JobState.SUCCEEDED else None
            record.finished_at = now if done_at is None else done_at - self._start
            self.ended += 1

    def _count_waiting(self, change: int, now: float) -> None:
        self._waiting += change
        if self._queue[-1].at == now:
            self._queue.pop()
        self._queue.append(QueueStep(now, self._waiting))

    def result(self, slots: int, now: float) -> Result:
        """What came of it until now; jobs that were never submitted count as queued."""
        by_index = {record.index: record for record in self._records.values()}
        for record in self._records.values():
            record.hold(record.slots, record.shared_slots, now - self._start)
        records = [
            by_index.get(index) or _Record(index, each.spec.name, each.at)
            for index, each in enumerate(self._workload.submissions)
        ]
        return Result(
            self._workload.name,
            slots,
            tuple(_job_result(record) for record in records),
            tuple(self._held),
            tuple(self._queue),
            self._ticks,
            now - self._start,
        )


def _count(record: _Record, event: Event, now: float) -> None:
    match event.kind:
        case EventKind.JOB_STARTED:
            record.started_at = now if record.started_at is None else record.started_at
        case EventKind.GENERATION_PUBLISHED:
            record.generations += 1
        case EventKind.JOB_REQUEUED:
            record.stops += 1
        case EventKind.JOB_SHRANK if event.cause in (LeaveReason.PREEMPTED, LeaveReason.RECLAIMED):
            record.preemptions += 1
        case EventKind.JOB_STOPPING if event.cause in (StopReason.PREEMPTED, StopReason.RECLAIMED):
            record.preemptions += 1
    if event.kind in (EventKind.WORKER_ENDED, EventKind.JOB_STOPPING):
        record.lost_slot_seconds += event.amount or 0.0


def _job_result(record: _Record) -> JobResult:
    return JobResult(
        name=record.name,
        state=record.state,
        submitted_at=record.submitted_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        resizes=max(record.generations - 1, 0),
        stops=record.stops,
        preemptions=record.preemptions,
        lost_slot_seconds=record.lost_slot_seconds,
        slot_seconds=record.slot_seconds,
        shared_slot_seconds=record.shared_slot_seconds,
    )
