"""What slots were spent on: slot-seconds by what their workers did, and pauses of resizes.

Between two ticks nothing is known to change, so each tick adds what the last one left times the time since. Only jobs
that changed are looked at: a tick in which little happens stays cheap, however many jobs there are.
"""

from collections import Counter as Tally
from collections.abc import Iterable
from enum import StrEnum

from scheduler.metrics.classes import PriorityClasses
from scheduler.metrics.metric import ANY_CLASS, Metric, each
from scheduler.metrics.recorder import Recorder
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.worker import Worker, WorkerState
from scheduler.model.world import World


class Spent(StrEnum):
    """What a worker that holds slots does."""

    #: A member of its job's published generation.
    WORKING = "working"
    #: Ready, but not a member yet.
    STANDBY = "standby"
    STARTING = "starting"
    #: It was asked to leave.
    LEAVING = "leaving"


SPENT_METRICS = (
    Metric(
        "sched_slot_seconds_total",
        "counter",
        ("spent", "priority_class"),
        "Time that workers held physical slots, by phase: working (members of their job's generation), "
        "standby (ready, not yet members), starting, leaving.",
        series=each(Spent, (ANY_CLASS,)),
    ),
)

_Slots = Tally[tuple[Spent, str]]


class SlotSeconds:
    """Follows the jobs of one leadership; used on the engine's thread."""

    def __init__(self, recorder: Recorder, classes: PriorityClasses) -> None:
        self._recorder = recorder
        self._classes = classes
        #: What each job holds, and the workers and the priority that this follows from.
        self._by_job: dict[JobId, tuple[_Slots, tuple[Worker, ...], JobState, int]] = {}
        self._slots: _Slots = Tally()
        #: Up to when it is counted; None: nothing is followed.
        self._until: float | None = None
        #: The last pause that each job's workers measured.
        self._pauses: dict[JobId, float] = {}

    @property
    def following(self) -> bool:
        return self._until is not None

    def stop(self) -> None:
        """Another daemon leads, or the world is unknown."""
        self._by_job, self._slots, self._pauses, self._until = {}, Tally(), {}, None

    def begin(self, world: World, now: float) -> None:
        """Follow this world's jobs. Pauses that were measured before are not counted."""
        self.stop()
        self._until = now
        for job in world.all_jobs():
            self._put(job)
            if job.progress.resize_seconds is not None:
                self._pauses[job.id] = job.progress.resize_seconds

    def move(self, changed: Iterable[Job], now: float) -> None:
        """Count the time since the last call, then take in the jobs that have changed."""
        if self._until is None:
            return
        seconds, self._until = max(0.0, now - self._until), now
        for (spent, name), slots in self._slots.items():
            if slots:
                self._recorder.count("sched_slot_seconds_total", slots * seconds, spent=spent, priority_class=name)
        for job in changed:
            self._put(job)
            self._measure_pause(job)

    def _put(self, job: Job) -> None:
        before = self._by_job.get(job.id)
        if before is not None:
            if before[1:] == (job.all_workers, job.state, job.priority):
                return
            self._slots.subtract(self._by_job.pop(job.id)[0])
        if job.state.active:
            held = _held(job, self._classes.of(job.priority))
            self._by_job[job.id] = (held, job.all_workers, job.state, job.priority)
            self._slots.update(held)

    def _measure_pause(self, job: Job) -> None:
        pause = job.progress.resize_seconds
        if pause is not None and pause != self._pauses.get(job.id):
            self._recorder.observe("sched_resize_pause_seconds", pause, job=job.id)
            slots = job.published_size * job.shape.slots
            self._recorder.count("sched_resize_pause_slot_seconds_total", pause * slots)
            self._pauses[job.id] = pause
        if job.state.terminal:
            self._pauses.pop(job.id, None)


def _held(job: Job, name: str) -> _Slots:
    slots: _Slots = Tally()
    for worker in job.all_workers:
        if not worker.shared:
            slots[_spent(job, worker), name] += len(worker.slot_ids)
    return slots


def _spent(job: Job, worker: Worker) -> Spent:
    if not worker.wanted or job.state is JobState.STOPPING:
        return Spent.LEAVING
    if worker.state is not WorkerState.READY:
        return Spent.STARTING
    return Spent.WORKING if worker.member or worker.fixed else Spent.STANDBY
