"""What the jobs of each queue are and hold, counted in a world."""

from dataclasses import dataclass

from scheduler.model.job import Job
from scheduler.model.queue import ancestry
from scheduler.model.queue_tree import Queues, nearest
from scheduler.model.world import World


@dataclass(slots=True)
class QueueLoad:
    """Jobs that have not ended, and the slots that they hold."""

    #: Without workers.
    waiting: int = 0
    #: That start, run or stop.
    running: int = 0
    slots: int = 0
    #: Whether no more is given to them this month.
    spent: bool = False

    def count(self, job: Job) -> None:
        self.running += job.state.active
        self.waiting += not job.state.active
        self.slots += sum(len(worker.slot_ids) for worker in job.all_workers)

    def add(self, other: "QueueLoad") -> None:
        self.waiting += other.waiting
        self.running += other.running
        self.slots += other.slots


def queue_loads(queues: Queues, world: World | None) -> dict[str, QueueLoad]:
    """Of each queue, with those inside it. Jobs of a queue that does not exist count in the innermost one around it."""
    own: dict[str, QueueLoad] = {}
    for job in () if world is None else (*world.all_jobs(), *world.held.values()):
        load = own.get(job.spec.queue)
        if load is None:
            load = own[job.spec.queue] = QueueLoad()
        load.count(job)
    spent = world.spent if world is not None else ()
    loads = {path: QueueLoad(spent=path in spent) for path in queues}
    for queue, load in own.items():
        for path in ancestry(nearest(queues, queue)):
            if path in loads:
                loads[path].add(load)
    return loads
