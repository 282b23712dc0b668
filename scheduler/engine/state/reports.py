"""Reports of workers since the last tick, and when each was last heard. Written by HTTP threads, read by the engine."""

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.model.data_queue import DataQueue
from scheduler.model.ids import JobId, NodeName, WorkerId, worker_id
from scheduler.model.job import Job
from scheduler.model.observation import Agreed, Missed, WorkerReport
from scheduler.model.worker import Worker


class ReportBox:
    """The newest report of each worker.

    Not stored: workers repeat their whole state, so that a lost report does not matter.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[WorkerId, WorkerReport] = {}
        #: Those that no tick has looked at yet.
        self._fresh: dict[WorkerId, WorkerReport] = {}
        #: Those that the present tick looks at.
        self._taken: Mapping[WorkerId, WorkerReport] = {}

    def put(self, report: WorkerReport) -> bool:
        """Keep the report; True if the engine should look at it now rather than at its next tick."""
        with self._lock:
            before = self._latest.get(report.worker_id)
            self._latest[report.worker_id] = report
            self._fresh[report.worker_id] = report
        return before is None or _urgent(before) != _urgent(report)

    def take(self) -> Mapping[WorkerId, WorkerReport]:
        """The reports that are not absorbed yet, newest per worker."""
        with self._lock:
            fresh, self._fresh = self._fresh, {}
        self._taken = {**self._taken, **fresh}
        return self._taken

    def absorbed(self) -> None:
        """Record that the effects of the reports that were taken are committed."""
        self._taken = {}

    def latest(self, worker_id: WorkerId) -> WorkerReport | None:
        return self._latest.get(worker_id)

    def last_checkpoint_at(self, job: Job) -> float | None:
        """When a checkpoint was last written, by the newest reports of the job's workers; None: unknown."""
        latest = None
        for worker in job.workers:
            report = self._latest.get(worker.id)
            if report is not None and report.last_checkpoint_at is not None:
                latest = latest_moment(latest, report.last_checkpoint_at)
        return latest

    def forget(self, workers: Iterable[WorkerId]) -> None:
        """Drop the reports of ended workers."""
        with self._lock:
            for worker_id in workers:
                self._latest.pop(worker_id, None)
                self._fresh.pop(worker_id, None)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._latest.clear()
            self._fresh.clear()
        self._taken = {}


@dataclass(slots=True)
class Liveness:
    """When workers were last heard. While this engine could not hear them, silence proves nothing."""

    reports: ReportBox
    #: When this engine began to listen, or went on after it had stood still; unix seconds.
    since: float = 0.0
    #: When nodes were last out of reach; unix seconds.
    cut_off: dict[NodeName, float] = field(default_factory=dict)
    #: When workers came to be heard whose job could not be read before; unix seconds.
    heard_from: dict[WorkerId, float] = field(default_factory=dict)
    #: When workers last called about their shards, as far as that was looked up; unix seconds.
    called: dict[WorkerId, float] = field(default_factory=dict)

    def could_since(self, worker: Worker) -> float:
        """Since when a report of this worker would have been heard; unix seconds."""
        return max(self.since, self.cut_off.get(worker.node, 0.0), self.heard_from.get(worker.id, 0.0))

    def last(self, worker: Worker) -> float:
        """When silence of this worker began to count; unix seconds."""
        report = self.reports.latest(worker.id)
        reported_at = report.received_at if report else 0.0
        return max(self.could_since(worker), reported_at, self.called.get(worker.id, 0.0))

    def look_up(self, queues: Mapping[JobId, DataQueue]) -> None:
        """Count calls about shards as signs of life, whichever replica answered them."""
        for job_id, queue in queues.items():
            self.called.update((worker_id(job_id, ordinal), at) for ordinal, at in queue.heard().items())

    def hear_from(self, now: float, workers: Iterable[Worker]) -> None:
        """Record that these workers can be heard from now on."""
        self.heard_from.update((worker.id, now) for worker in workers)

    def cut_off_from(self, nodes: Iterable[NodeName], now: float) -> None:
        """Record that these nodes are out of reach."""
        self.cut_off.update((name, now) for name in nodes)

    def forget(self, workers: Collection[WorkerId], nodes: Iterable[NodeName]) -> None:
        """Drop workers that have ended, and nodes that are gone."""
        self.reports.forget(workers)
        for ended in workers:
            self.called.pop(ended, None)
            self.heard_from.pop(ended, None)
        for gone in nodes:
            self.cut_off.pop(gone, None)

    def clear(self) -> None:
        """Drop what was heard of workers."""
        self.reports.clear()
        self.called.clear()
        self.heard_from.clear()


def latest_moment(*moments: float | None) -> float | None:
    """The latest of the known moments."""
    return max([moment for moment in moments if moment is not None], default=None)


def _urgent(report: WorkerReport) -> tuple[bool, int, str | None, Agreed | None, Missed | None]:
    return report.ready, report.generation, report.endpoint, report.agreed, report.missed
