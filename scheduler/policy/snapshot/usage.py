"""The usage of one active job."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from scheduler.model.ids import WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.worker import Worker
from scheduler.policy.capacity.resources import Held, together

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
        return self.resizable and (self.job.spec.preemptible or bool(self.offered_of(self.staying)))

    def kept_of(self, staying: tuple[Worker, ...]) -> tuple[Worker, ...]:
        """Those of its staying workers that nobody may take."""
        if self.job.spec.preemptible:
            return ()
        return staying[: self.job.min_workers] if self.job.spec.surplus_preemptible else staying

    def offered_of(self, staying: tuple[Worker, ...]) -> tuple[Worker, ...]:
        """Those of its staying workers that others may take."""
        return staying[len(self.kept_of(staying)) :]

    def held_by(self, ids: Collection[WorkerId]) -> Held:
        """Amounts that those of the staying workers and the fixed group hold together that have these ids."""
        if len(ids) == len(self.each) + len(self.fixed_each):
            return self.held
        workers, each = self.staying + self.fixed, self.each + self.fixed_each
        return together(held for worker, held in zip(workers, each, strict=True) if worker.id in ids)

    @property
    def kept(self) -> Held:
        """Amounts that nobody may take."""
        if self.job.spec.preemptible:
            return ()
        return together(self.each[: len(self.kept_of(self.staying))] + self.fixed_each)

    @property
    def offered(self) -> "JobUsage":
        """What others may take of it, as the usage of a job."""
        if self.job.spec.preemptible:
            return self
        kept = len(self.kept_of(self.staying))
        staying, each = self.staying[kept:], self.each[kept:]
        return replace(self, staying=staying, each=each, fixed=(), fixed_each=(), held=together(each))
