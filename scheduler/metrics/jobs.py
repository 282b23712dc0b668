"""Jobs and their workers, summed up for scrapes."""

import math
import threading
from collections import Counter as Tally
from collections.abc import Iterable

from scheduler.metrics.classes import PriorityClasses
from scheduler.metrics.families import Families
from scheduler.metrics.metric import Metric
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.worker import WorkerState
from scheduler.model.world import World

LEAVING = "leaving"

#: Reasons to wait that no slots which come free end.
_NEVER = frozenset({WaitReason.NO_MATCHING_NODE, WaitReason.EXCEEDS_CLUSTER, WaitReason.POLICY_WITHOUT_FIXED})

JOB_METRICS = (
    Metric(
        "sched_jobs",
        "gauge",
        ("state", "priority_class"),
        "Jobs that have not ended. A class is named by its lowest priority.",
    ),
    Metric("sched_waiting_jobs", "gauge", ("reason",), "Queued jobs by wait reason."),
    Metric(
        "sched_waiting_slots",
        "gauge",
        ("reason", "priority_class"),
        "Slots that queued jobs need to start at their minimum.",
    ),
    Metric(
        "sched_oldest_wait_seconds",
        "gauge",
        ("priority_class",),
        "Wait of the job that has waited longest for slots since it was queued or requeued. Waits for the start of a "
        "booking or in a pause after a failure do not count, nor do jobs that would not fit on empty nodes or that the "
        "current policy never starts.",
    ),
    Metric("sched_workers", "gauge", ("state",), "Live workers by state; leaving workers have been asked to leave."),
    Metric(
        "sched_held_slots",
        "gauge",
        ("priority_class",),
        "Physical slots held by workers, including leaving ones.",
    ),
    Metric(
        "sched_elastic_slots",
        "gauge",
        ("state",),
        "Slots of running elastic jobs: at_minimum cannot be taken without stopping the job, above_minimum can; "
        "missing are those up to the maximum.",
    ),
    Metric("sched_data_jobs", "gauge", (), "Active jobs whose workers take shards from a data queue."),
)

#: What one job adds to: the metric and its labels.
_Key = tuple[str, *tuple[str, ...]]
_Share = Tally[_Key]


class JobTally:
    """Sums over all jobs. Jobs that changed are taken in at the next scrape, the others need not be looked at again."""

    def __init__(self, classes: PriorityClasses) -> None:
        self._classes = classes
        self._lock = threading.Lock()
        self._changed: dict[JobId, Job] = {}
        self._shares: dict[JobId, _Share] = {}
        self._sums: _Share = self._zeros()

    def begin(self, world: World) -> None:
        """Begin anew with these jobs."""
        with self._lock:
            self._shares, self._sums = {}, self._zeros()
            self._changed = {job.id: job for job in (*world.all_jobs(), *world.held.values())}

    def put(self, changed: Iterable[Job]) -> None:
        """These have changed."""
        with self._lock:
            self._changed.update((job.id, job) for job in changed)

    def add_to(self, families: Families, world: World, now: float) -> None:
        """The sums as they are now; `world` tells since when jobs wait."""
        with self._lock:
            self._take_in()
            for (name, *labels), value in self._sums.items():
                families[name].add(labels, value)
        oldest = dict.fromkeys(self._classes.names, now)
        for job in world.queued.values():
            name = self._classes.of(job.priority)
            oldest[name] = min(oldest[name], _waits_since(job, world))
        for name, since in oldest.items():
            families["sched_oldest_wait_seconds"].add([name], now - since)

    def _take_in(self) -> None:
        for job in self._changed.values():
            self._sums.subtract(self._shares.pop(job.id, Tally()))
            if not job.state.terminal:
                share = self._shares[job.id] = _share(job, self._classes.of(job.priority))
                self._sums.update(share)
        self._changed = {}

    def _zeros(self) -> _Share:
        """Every sum that there is."""
        names = self._classes.names
        sums: _Share = Tally()
        for keys in (
            (("sched_jobs", state, name) for state in JobState if not state.terminal for name in names),
            (("sched_waiting_jobs", reason) for reason in WaitReason),
            (("sched_waiting_slots", reason, name) for reason in WaitReason for name in names),
            (("sched_workers", state) for state in (*(state for state in WorkerState if state.live), LEAVING)),
            (("sched_held_slots", name) for name in names),
            (("sched_elastic_slots", state) for state in ("at_minimum", "above_minimum", "missing")),
            (("sched_data_jobs",),),
        ):
            sums.update(dict.fromkeys(keys, 0))
        return sums


def _share(job: Job, name: str) -> _Share:
    """What the job, of a priority class, adds to each sum."""
    share: _Share = Tally()
    share["sched_jobs", job.state, name] = 1
    if job.state is JobState.QUEUED:
        reason = job.wait_reason or WaitReason.SUBMITTED
        share["sched_waiting_jobs", reason] = 1
        share["sched_waiting_slots", reason, name] = job.min_workers * job.shape.slots
    if job.state.active:
        for worker in job.all_workers:
            share["sched_workers", worker.state if worker.wanted else LEAVING] += 1
            share["sched_held_slots", name] += 0 if worker.shared else len(worker.slot_ids)
        share["sched_data_jobs",] = job.spec.data is not None
        if job.elastic:
            size, slots = len(job.wanted_workers), job.shape.slots
            share["sched_elastic_slots", "at_minimum"] = min(size, job.min_workers) * slots
            share["sched_elastic_slots", "above_minimum"] = max(size - job.min_workers, 0) * slots
            share["sched_elastic_slots", "missing"] = max(job.max_workers - size, 0) * slots
    return share


def _waits_since(job: Job, world: World) -> float:
    """From when on the queued job has waited for slots; in the future where it does not wait for them now."""
    if job.wait_reason in _NEVER:
        return math.inf
    booking = world.booking_of(job)
    return max(job.queued_at, job.not_before, booking.start_at if booking is not None else 0.0)
