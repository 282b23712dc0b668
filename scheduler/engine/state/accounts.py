"""Accounts of what jobs hold: each commit charges what was held until then, and says what is held from then on.

Between two commits nothing is known to change, so that each holding is counted whole when it changes. What is held now
is stored with the commit that changes it: the next leader goes on from there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from scheduler.model.account import LOSING, AccountKey, Charge, Holding, charges_of, hour_of, summed
from scheduler.model.event import Event
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.job import Job
from scheduler.model.node import Node
from scheduler.model.queue import Queue
from scheduler.model.queue_usage import QueueUsage
from scheduler.model.worker import Worker
from scheduler.model.world import Changes, World
from scheduler.policy.queues.borrowed import Cell, lent_parts
from scheduler.policy.queues.tree import Tree

_Slots = Counter[AccountKey]
#: Lent slots differ by whole slots and parts of them: what sums of floats leave over is no change.
_EPSILON = 1e-6
_NOTHING = QueueUsage(0.0, 0.0)


class Accounts:
    """Counts what jobs hold, from job to job; used on the engine's thread."""

    def __init__(self, half_life_seconds: float) -> None:
        """Usage counts half after `half_life_seconds`; 0: it does not count."""
        self._half_life_seconds = half_life_seconds
        #: What each job holds, and the workers that this follows from.
        self._by_job: dict[JobId, tuple[_Slots, tuple[Worker, ...], tuple[Worker, ...]]] = {}
        self._slots: _Slots = Counter()
        self._types: dict[NodeName, str] = {}
        #: The queues by which it was found what is lent, and their tree.
        self._queues: Mapping[str, Queue] = {}
        self._tree = Tree()
        #: The last day on which all was charged, so that no commit has to charge many hours.
        self._day: int | None = None
        #: Whether any account may hold another number of slots than the world says.
        self._unsure = True

    def begin(self, world: World) -> None:
        """Count all that the world's jobs hold: it was loaded just now."""
        self._types = {node.name: node.gpu_type or "" for node in world.nodes.values()}
        self._by_job, self._slots, self._queues, self._unsure = {}, Counter(), world.queues, True
        for job in (*world.all_jobs(), *world.held.values()):
            self._put(job)

    def charged(self, world: World, changes: Changes, now: float) -> Changes:
        """The changes with those of accounts that follow; `world` is the one that they change."""
        retyped = self._retyped(changes.nodes)
        everything = retyped or self._unsure or world.queues is not self._queues
        ahead_seconds = world.ahead_seconds
        hour = hour_of(now, ahead_seconds)
        clock_set = changes.ahead_seconds is not None and changes.ahead_seconds != ahead_seconds
        # What is held across a change of clocks, and for days, is charged up to now although it does not change.
        charge_all = clock_set or (hour // 24 != self._day and bool(world.holdings))
        touched: set[AccountKey] = set()
        for job in changes.altered:
            touched |= self._put(job)
        lost = list(self._lost(world, changes, hour))
        if not (touched or lost or everything or charge_all):
            return changes
        if everything:
            self._queues, self._tree, self._unsure = world.queues, Tree(world.queues), False
        keys = {*self._slots, *world.holdings} if everything or charge_all else self._beside(touched)
        if charge_all:
            self._day = hour // 24
        usage = tuple(self._usage(world, keys, now, everything=everything))
        holdings = [
            holding
            for holding in self._holdings(world, keys, now)
            if _differs(world.holdings.get(holding.key), holding) or (charge_all and holding.slots)
        ]
        before = (world.holdings[each.key] for each in holdings if each.key in world.holdings)
        spent = (charge for each in before for charge in charges_of(each, now, ahead_seconds))
        return replace(changes, holdings=tuple(holdings), charges=summed((*spent, *lost)), queue_usage=usage)

    def _put(self, job: Job) -> set[AccountKey]:
        """Count the job as it is now; returns the accounts that hold another number of slots."""
        before = self._by_job.get(job.id)
        if before is not None and before[1] is job.workers and before[2] is job.fixed_workers:
            return set()
        held = self._held(job.spec.queue, job.spec.user, job.all_workers)
        if before is not None:
            self._slots.subtract(before[0])
        if held:
            self._by_job[job.id] = (held, job.workers, job.fixed_workers)
            self._slots.update(held)
        else:
            self._by_job.pop(job.id, None)
        was = before[0] if before is not None else Counter()
        return {key for key in {*was, *held} if was[key] != held[key]}

    def _held(self, queue: str, user: str, workers: Iterable[Worker]) -> _Slots:
        """Slots of these workers by account; shared ones are nobody's."""
        held: _Slots = Counter()
        for worker in workers:
            if not worker.shared and worker.slot_ids:
                held[AccountKey(queue, user, self._types.get(worker.node, ""))] += len(worker.slot_ids)
        return held

    def _retyped(self, nodes: Iterable[Node]) -> bool:
        """Take in the GPU types of these nodes; whether one has changed, so that all has been counted anew."""
        types = {node.name: node.gpu_type or "" for node in nodes}
        changed = any(self._types.get(name, kind) != kind for name, kind in types.items())
        self._types |= types
        if changed:
            self._slots = Counter()
            for job_id, (before, workers, fixed) in self._by_job.items():
                queue, user, _ = next(iter(before))
                held = self._held(queue, user, (*fixed, *workers))
                self._by_job[job_id] = (held, workers, fixed)
                self._slots.update(held)
        return changed

    def _beside(self, touched: set[AccountKey]) -> set[AccountKey]:
        """These accounts and all whose lent slots depend on them: those below the same first level."""
        tops = {_top(key.queue) for key in touched}
        return touched | {key for key in self._slots if _top(key.queue) in tops}

    def _holdings(self, world: World, keys: set[AccountKey], now: float) -> Iterator[Holding]:
        """What these accounts hold from now on; they are all those below some first levels."""
        cells: Counter[Cell] = Counter()
        for key in keys:
            cells[key.queue, key.gpu_type] += self._slots[key]
        parts = lent_parts(world.queues, cells)
        for key in sorted(keys):
            slots = self._slots[key]
            if not slots:
                del self._slots[key]  # a counter keeps what has become zero
            before = world.holdings.get(key)
            at = now if before is None else max(now, before.at)  # nothing is counted twice, whatever clocks say
            yield Holding(key, at, slots, slots * parts[key.queue, key.gpu_type])

    def _usage(
        self, world: World, keys: Iterable[AccountKey], now: float, *, everything: bool
    ) -> Iterator[tuple[str, QueueUsage]]:
        """Decayed usage of accounts in the tree that hold another number of slots; `keys` are all that they count."""
        slots: Counter[str] = Counter(dict.fromkeys(world.queue_usage, 0) if everything else ())
        if self._half_life_seconds > 0:
            for key in keys:
                for account in self._tree.accounts(key.queue, key.user):
                    slots[account] += self._slots[key]
        for account, held in slots.items():
            before = world.queue_usage.get(account, _NOTHING)
            if before.slots != held:
                yield account, QueueUsage(before.now(now, self._half_life_seconds), max(now, before.at), held)

    def _lost(self, world: World, changes: Changes, hour: int) -> Iterator[Charge]:
        """Lost work, as the events of these changes say it, by the types of the slots on which it was done."""
        told = [event for event in changes.events if event.amount and event.kind in LOSING]
        if not told:
            return
        jobs = {job.id: job for job in changes.jobs}
        ended = {worker.id: worker for worker in changes.workers}
        for event in told:
            job = None if event.job_id is None else jobs.get(event.job_id) or world.job(event.job_id)
            if job is None or event.amount is None:
                continue
            losers = _losers(event, job, ended)
            whole = sum(len(worker.slot_ids) for worker in losers)
            for key, slots in self._held(job.spec.queue, job.spec.user, losers).items():
                yield Charge(hour, key, 0.0, 0.0, event.amount * slots / whole)


def _losers(event: Event, job: Job, ended: Mapping[WorkerId, Worker]) -> Sequence[Worker]:
    """The workers whose work an event says is lost: the one that ended, or those of the job that stops."""
    if event.worker_id is not None:
        return (ended[event.worker_id],) if event.worker_id in ended else ()
    return job.workers or [worker for worker in ended.values() if worker.job_id == job.id and not worker.fixed]


def _differs(before: Holding | None, after: Holding) -> bool:
    if before is None:
        return after.slots > 0
    return before.slots != after.slots or abs(before.lent - after.lent) > _EPSILON


def _top(path: str) -> str:
    return path.partition("/")[0]
