"""Workers on shared slots leave first: off crowded slots, and off nodes with too few extra slots."""

from collections.abc import Iterable, Set

from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import StopReason
from scheduler.model.worker import LeaveReason, Worker
from scheduler.policy.draft import Draft

#: A node and one of its slots.
Place = tuple[NodeName, int]


def relieve(draft: Draft) -> None:
    """Ask workers to leave that share slots which no longer exist, then one worker of each crowded slot."""
    world, usages = draft.world, draft.usages
    sharing = [usages[job_id].job for job_id in sorted(usages.sharing)]
    nodes = {worker.node for job in sharing for worker in job.workers if worker.shared}
    overfull = {name for name in nodes if world.usage[name].slots_shared > world.nodes[name].extra_slots}
    crowded = {
        (name, slot): crowd.leave_at
        for name in nodes & world.crowded.keys()
        for slot, crowd in world.crowded[name].items()
        if crowd.reopen_at is None
    }
    if overfull or crowded:
        leavers = Leavers(draft, sharing)
        leavers.give_up(overfull)
        leavers.thin_out(crowded)
        leavers.enact()


class Leavers:
    """Workers that have to leave shared slots, by job."""

    def __init__(self, draft: Draft, sharing: Iterable[Job]) -> None:
        self._draft = draft
        entries = [entry for job in sharing for entry in _in_turn(draft, job)]
        #: Workers that may be asked, first to leave first: least important, no loss to its job, youngest.
        self._candidates = [(job, worker) for _, job, worker in sorted(entries, key=lambda entry: entry[0])]
        self._leaving: dict[JobId, list[Worker]] = {}

    def give_up(self, nodes: Set[NodeName]) -> None:
        """Ask workers to leave each node until the rest fit its extra slots."""
        surplus = {name: -self._draft.world.nodes[name].extra_slots for name in nodes}
        for _, worker in self._candidates:
            if worker.node in surplus:
                surplus[worker.node] += len(worker.slot_ids)
        for job, worker in self._candidates:
            if surplus.get(worker.node, 0) > 0:
                for gone in self._ask(job, worker):
                    if gone.node in surplus:
                        surplus[gone.node] -= len(gone.slot_ids)

    def thin_out(self, crowded: dict[Place, float]) -> None:
        """Ask one worker to leave each crowded slot, once the effect of the last departure is known."""
        relieved = {place for workers in self._leaving.values() for worker in workers for place in _places(worker)}
        for job, worker in self._candidates:
            here = _places(worker) & crowded.keys()
            if not here or here & relieved:
                continue
            due = min(crowded[place] for place in here)
            if due > self._draft.now:
                self._draft.look_at(due)
                continue
            for gone in self._ask(job, worker):
                relieved |= _places(gone)

    def enact(self) -> None:
        """Write the departures into the draft: a job that cannot go on without its leavers is stopped."""
        for job_id, workers in sorted(self._leaving.items()):
            job = self._draft.world.active[job_id]
            if len(self._draft.staying(job)) - len(workers) >= job.min_workers:
                self._draft.shrink(job, tuple(workers), LeaveReason.OVERSOLD)
            else:
                self._draft.stop(job, StopReason.OVERSOLD)

    def _ask(self, job: Job, worker: Worker) -> tuple[Worker, ...]:
        """Ask the worker to leave, and its whole job where too few would be left; returns the leaving workers."""
        leaving = self._leaving.get(job.id, [])
        staying = tuple(w for w in self._draft.staying(job) if w not in leaving)
        if worker not in staying:
            return ()
        gone = (worker,) if len(staying) > job.min_workers else staying
        self._leaving[job.id] = [*leaving, *gone]
        return gone


def _in_turn(draft: Draft, job: Job) -> list[tuple[tuple[int, bool, float, int, int], Job, Worker]]:
    """The job's workers with their place in the order in which sharers leave."""
    surplus = len(draft.staying(job)) - job.min_workers
    return [
        ((job.priority, k >= surplus, -worker.created_at, -job.id, -worker.ordinal), job, worker)
        for k, worker in enumerate(reversed(draft.staying(job)))
    ]


def _places(worker: Worker) -> set[Place]:
    return {(worker.node, slot) for slot in worker.slot_ids}
