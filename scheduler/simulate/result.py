"""What came of a simulated run: one record per job, and what was used when."""

from dataclasses import dataclass

from scheduler.model.job_state import JobState
from scheduler.simulate.faults import FaultCounts


@dataclass(frozen=True, slots=True)
class JobResult:
    """One job; times in seconds since the beginning of the workload, None for what never happened."""

    name: str
    state: JobState
    submitted_at: float
    #: When the scheduler started it first.
    started_at: float | None
    #: When its work was done (the scheduler sees it a little later), or it ended otherwise.
    finished_at: float | None
    #: Changes of its membership after the first; starts after a stop count.
    resizes: int
    #: How often it was stopped and went back into the queue.
    stops: int
    #: How often it had to shrink for a more important job, or was stopped for one.
    preemptions: int
    #: Work that preemptions and failures may have lost: since the last commit or checkpoint, times slots.
    lost_slot_seconds: float
    #: Slots of its own that it held, over time.
    slot_seconds: float
    #: Slots beyond the physical count that it shared with others, over time.
    shared_slot_seconds: float

    @property
    def waiting_seconds(self) -> float | None:
        """From its submission to its first start; the clock's rounding is no time."""
        return None if self.started_at is None else max(self.started_at - self.submitted_at, 0.0)

    @property
    def completion_seconds(self) -> float | None:
        """From its submission to its end."""
        return None if self.finished_at is None else self.finished_at - self.submitted_at


@dataclass(frozen=True, slots=True)
class ForeignResult:
    """One pod of others; times in seconds since the beginning of the workload, None for what never happened."""

    name: str
    slots: int
    came_at: float
    #: When it got room on a node.
    ran_at: float | None
    #: When it went, whether it had run or not.
    went_at: float | None

    @property
    def waiting_seconds(self) -> float | None:
        """From its coming until it got room."""
        return None if self.ran_at is None else max(self.ran_at - self.came_at, 0.0)


@dataclass(frozen=True, slots=True)
class SlotStep:
    """From `at` on, a job (by its place in the result) holds `slots` of its own and shares `shared` others."""

    at: float
    job: int
    slots: int
    shared: int


@dataclass(frozen=True, slots=True)
class QueueStep:
    """From `at` on, `waiting` jobs wait."""

    at: float
    waiting: int


@dataclass(frozen=True, slots=True)
class Result:
    """One run."""

    workload: str
    slots: int
    jobs: tuple[JobResult, ...]
    held: tuple[SlotStep, ...]
    queue: tuple[QueueStep, ...]
    ticks: int
    #: When the last job ended, or the run was given up.
    ended_at: float
    #: What went wrong; None: nothing was asked to.
    faults: FaultCounts | None = None
    #: Pods of others that have come.
    foreign: tuple[ForeignResult, ...] = ()
