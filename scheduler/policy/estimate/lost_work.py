"""The cost of taking workers from a running job, in slot-seconds of work.

A job that shrinks goes on: all of its members pause, and where its runtime starts their processes anew they also repeat
what was not saved. A job that stops loses what was not saved. Imports the model only.
"""

from math import inf
from typing import NamedTuple

from scheduler.model.job import Job, Runtime

#: How long a resize is taken to pause a job that has not measured one, in seconds. A plain command loses a process that
#: the others do not wait for.
PAUSE_SECONDS: dict[Runtime, float] = {
    Runtime.COMMAND: 0.0,
    Runtime.ELASTIC: 0.5,
    Runtime.TORCHRUN: 4.0,
    Runtime.HOROVOD: 4.0,
}


class Cost(NamedTuple):
    """A cost that grows with the time since the job last saved its work."""

    #: Slot-seconds that are lost at any moment.
    fixed: float
    #: Slots whose unsaved work is lost.
    slots: int
    #: When the job saved its work last; infinite: it has none to lose.
    since: float

    def at(self, now: float) -> float:
        """The cost at this moment, in slot-seconds."""
        return self.fixed + self.slots * max(now - self.since, 0.0)


def shrink_cost(job: Job) -> Cost:
    """The cost of shrinking the job, by any number of workers."""
    slots = job.shape.slots * sum(1 for worker in job.workers if worker.member)
    measured = job.progress.resize_seconds
    pause_seconds = PAUSE_SECONDS[job.spec.runtime] if measured is None else measured
    return Cost(pause_seconds * slots, slots if job.spec.runtime.restarts_processes else 0, _since(job))


def stop_cost(job: Job) -> Cost:
    """The cost of sending the job back to the queue."""
    return Cost(0.0, job.shape.slots * len(job.workers), _since(job))


def _since(job: Job) -> float:
    return inf if job.unsaved_since is None else job.unsaved_since
