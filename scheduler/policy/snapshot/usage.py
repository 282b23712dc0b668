"""What one active job holds."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.model.job import Job, JobState
from scheduler.model.worker import Desired, Worker
from scheduler.policy.capacity.ledger import Ledger
from scheduler.policy.capacity.resources import Amount, Held, add

#: Jobs whose size the planner may change.
RESIZABLE_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


@dataclass(frozen=True, slots=True)
class JobUsage:
    """One active job's hold on the nodes that take new workers."""

    job: Job
    #: Workers that nobody asked to leave, oldest first.
    staying: tuple[Worker, ...]
    #: What each of these holds.
    each: tuple[Held, ...]
    #: Its fixed group, which leaves with the whole job only, and what each of it holds.
    fixed: tuple[Worker, ...]
    fixed_each: tuple[Held, ...]
    #: What all of them hold together.
    held: Held
    #: What those who leave hold.
    leaving: Held

    @property
    def resizable(self) -> bool:
        return self.job.state in RESIZABLE_STATES and not self.job.finishing

    @property
    def takeable(self) -> bool:
        """Whether a more important job may take from it."""
        return self.resizable and self.job.spec.preemptible


def stake_of(job: Job, ledger: Ledger) -> JobUsage:
    """What the job holds as it stands in the world."""
    staying = () if job.state is JobState.STOPPING else job.workers
    run = Desired.RUN
    if not all(worker.desired is run for worker in staying):
        staying = job.wanted_workers
    fixed = job.fixed_workers
    if fixed:
        fixed = () if job.state is JobState.STOPPING else tuple(worker for worker in fixed if worker.wanted)
    leaving: Held = ()
    if len(staying) + len(fixed) < len(job.workers) + len(job.fixed_workers):
        ids = {worker.id for worker in staying + fixed}
        leaving = held_by((worker for worker in job.all_workers if worker.id not in ids), ledger)
    each, fixed_each = ledger.held_by_each(staying), ledger.held_by_each(fixed)
    return JobUsage(job, staying, each, fixed, fixed_each, _together(each + fixed_each), leaving)


def held_by(workers: Iterable[Worker], ledger: Ledger) -> Held:
    """What these workers hold, by position."""
    return _together(ledger.held_by_each(workers))


def _together(each: Iterable[Held]) -> Held:
    held: dict[int, Amount] = {}
    for pieces in each:
        for i, amount in pieces:
            before = held.get(i)
            held[i] = amount if before is None else add(before, amount)
    return tuple(held.items())
