"""The usage of one active job."""

from dataclasses import dataclass

from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.worker import Worker
from scheduler.policy.capacity.resources import Held

#: Jobs whose size the planner may change.
RESIZABLE_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


@dataclass(frozen=True, slots=True)
class JobUsage:
    """Amounts that one active job holds on the nodes that take new workers."""

    job: Job
    #: Workers that nobody asked to leave, oldest first.
    staying: tuple[Worker, ...]
    #: Amounts that each of these holds.
    each: tuple[Held, ...]
    #: Its fixed group, which leaves with the whole job only, and the amounts that each of its workers holds.
    fixed: tuple[Worker, ...]
    fixed_each: tuple[Held, ...]
    #: Amounts that all of them hold together.
    held: Held
    #: Amounts that leaving workers hold.
    leaving: Held

    @property
    def resizable(self) -> bool:
        return self.job.state in RESIZABLE_STATES and not self.job.finishing

    @property
    def takeable(self) -> bool:
        """Whether a more important job may take from it."""
        return self.resizable and self.job.spec.preemptible
