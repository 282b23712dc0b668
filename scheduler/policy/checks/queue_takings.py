"""Invariant of what queues take from each other in a plan.

It is written from what queues promise, not from how the planner keeps it. Where it cannot be told for certain what a
queue is entitled to (see `Accounts.entitled`), takings are judged by everything else.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.plan import Grow, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.queue import ANY_GPU
from scheduler.model.worker import LeaveReason, Worker
from scheduler.model.world import World
from scheduler.policy.checks.queue_accounts import Accounts, Entitled, Slots, given
from scheduler.policy.checks.world import Violation

_RECLAIMED = frozenset({LeaveReason.RECLAIMED, StopReason.RECLAIMED})
_INSIDE_A_QUEUE = frozenset(
    {LeaveReason.PREEMPTED, StopReason.PREEMPTED, LeaveReason.REBALANCED, StopReason.REBALANCED}
)
#: Why workers leave before any job takes from another.
_BEFORE_TAKINGS = frozenset(
    {
        LeaveReason.DRAINED,
        LeaveReason.NO_GAIN,
        LeaveReason.SCALED,
        LeaveReason.OVERSOLD,
        LeaveReason.BOOKED,
        LeaveReason.FOREIGN,
        StopReason.DRAINED,
        StopReason.BELOW_MINIMUM,
        StopReason.OVERSOLD,
        StopReason.BOOKED,
        StopReason.FOREIGN,
    }
)
#: Entitlements are sums of fractions.
_EPSILON = 1e-6


def check_takings(accounts: Accounts, plan: Plan, now: float, settings: PolicySettings) -> Iterator[Violation]:
    """I14: inside a queue importance takes; between queues, those below their entitlement of those above theirs."""
    takings = [each for each in _takings(accounts.world, plan) if each.action.reason in _RECLAIMED | _INSIDE_A_QUEUE]
    for taking in takings:
        yield from _parties(accounts, taking)
    between = [each for each in takings if each.action.reason in _RECLAIMED]
    if between and all(accounts.own(each.victim) != accounts.own(each.taker) for each in between):
        yield from _Balance(accounts, plan, between, settings, now).check()


class _Taking:
    """Workers that a job loses for another one."""

    def __init__(self, action: Shrink | StopJob, victim: Job, taker: Job) -> None:
        self.action, self.victim, self.taker = action, victim, taker

    @property
    def workers(self) -> tuple[Worker, ...]:
        return leavers(self.victim, self.action)


def leavers(job: Job, action: Shrink | StopJob) -> tuple[Worker, ...]:
    """The workers that the job loses by the action."""
    if isinstance(action, StopJob):
        return tuple(worker for worker in job.all_workers if worker.wanted)
    return tuple(worker for worker in job.workers if worker.id in action.workers)


def may_be_taken(victim: Job, action: Shrink | StopJob) -> bool:
    """Whether the job is one that others may shrink, or stop."""
    return victim.spec.shrinkable if isinstance(action, Shrink) else victim.spec.preemptible


def _takings(world: World, plan: Plan) -> Iterator[_Taking]:
    for action in plan.actions:
        if isinstance(action, Shrink | StopJob) and action.for_job is not None:
            victim, taker = world.job(action.job_id), world.job(action.for_job)
            if victim is not None and taker is not None:  # otherwise `checks.plan` tells
                yield _Taking(action, victim, taker)


def _parties(accounts: Accounts, taking: _Taking) -> Iterator[Violation]:
    """I14: importance decides inside a queue only, and entitlement only between queues."""
    victim, taker, reason = taking.victim, taking.taker, taking.action.reason
    one_queue = accounts.own(victim) == accounts.own(taker)
    what = f"job {victim.id} loses workers for job {taker.id} as {reason}"
    if reason in _INSIDE_A_QUEUE:
        if not one_queue and not accounts.above_all(taker):
            yield Violation("I14", f"{what} and is in another queue")
        return
    if one_queue or accounts.above_all(victim) or accounts.above_all(taker):
        yield Violation("I14", f"{what} and is not in another queue")
    if not may_be_taken(victim, taking.action):
        yield Violation("I14", f"{what} and is not preemptible")


class _Balance:
    """What accounts hold before, while and after queues take from queues, against what they are entitled to.

    Decisions have an order that a plan does not tell. So an account that loses is judged by the most, and one that gets
    by the least, that it can have held when workers were taken.
    """

    def __init__(
        self, accounts: Accounts, plan: Plan, takings: list[_Taking], settings: PolicySettings, now: float
    ) -> None:
        self._accounts, self._plan, self._takings = accounts, plan, takings
        self._settings, self._now = settings, now
        world = accounts.world
        self._stays = [(world.active[job_id], self._losses(world.active[job_id])) for job_id in world.active]

    def check(self) -> Iterator[Violation]:
        for taking in self._takings:
            yield from self._served(taking)
            told = f"job {taking.victim.id} loses workers for job {taking.taker.id}"
            yield from self._unless(self._may_lose, taking, f"{told} and its queue falls below its entitlement")
            yield from self._unless(self._takes_its_own, taking, f"{told}, whose queue comes above its entitlement")
            if isinstance(taking.action, StopJob):
                yield from self._unless(self._may_stop, taking, f"{told} and may not be stopped for it")

    def _unless(self, right: Callable[[_Taking, Entitled], bool], taking: _Taking, detail: str) -> Iterator[Violation]:
        possible = self._accounts.entitled
        if possible and not any(right(taking, entitled) for entitled in possible):
            yield Violation("I14", detail)

    def _served(self, taking: _Taking) -> Iterator[Violation]:
        """The taker starts, has a reservation, or can grow by what it takes.

        A more important job of its queue may have come to have what was taken.
        """
        taker, own = taking.taker, self._accounts.own
        waiting = (self._accounts.world.queued.get(job_id) for job_id in self._waiting_gets)
        if any(job is not None and own(job) == own(taker) for job in waiting):
            return
        leaves = any(isinstance(a, Shrink | StopJob) and a.job_id == taker.id for a in self._plan.actions)
        grows = taker.state.active and taker.state is not JobState.STOPPING and taker.elastic and not taker.finishing
        if not grows or leaves or len(taker.wanted_workers) >= taker.max_workers:
            yield Violation("I14", f"job {taking.victim.id} loses workers for job {taker.id}, which gets nothing by it")

    def _levels(self, taking: _Taking) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Accounts of the victim and of the taker below those that both have."""
        victim, taker = self._accounts.path(taking.victim), self._accounts.path(taking.taker)
        shared = sum(1 for one, other in zip(victim, taker, strict=False) if one == other)
        return victim[shared:], taker[shared:]

    def _may_lose(self, taking: _Taking, entitled: Entitled) -> bool:
        """Whether the victim's accounts keep what they are entitled to, or held more before a stop for a guarantee.

        What was taken before such a stop cannot be told from what was taken after it.
        """
        if self._leaves_enough(taking, entitled):
            return True
        stopped = Counter[tuple[str, str]]()
        for each in self._takings:
            if isinstance(each.action, StopJob) and self._within_guarantee(each, entitled):
                stopped |= self._lost(each)
        return self._leaves_enough(taking, entitled, stopped)

    def _leaves_enough(self, taking: _Taking, entitled: Entitled, besides: Slots | None = None) -> bool:
        """Whether the victim's accounts have what they are entitled to, with what they lost `besides` more than that.

        Of a GPU type, that is what is guaranteed; a guarantee of a type counts more than what is lent. What others took
        by such a guarantee may have been taken later.
        """
        lost = self._lost(taking)
        types = [t for t in self._accounts.gpu_types if lost[self._levels(taking)[0][0], t]]
        if not self._claimed_types(taking).isdisjoint(types):
            types.remove(ANY_GPU)
        own, before = self._by_type(taking), besides or Counter()
        return all(
            self._most[key] + self._all_by_type[key] - own[key] + max(before[key] - 1, 0)
            > _total(entitled, *key) - _rest(entitled, *key)
            for key in ((account, t) for account in self._levels(taking)[0] for t in types)
        )

    def _lost(self, taking: _Taking) -> Slots:
        """What the victim's accounts lose by it."""
        return self._accounts.of_slots(taking.victim, self._accounts.open_slots(taking.workers))

    def _by_type(self, taking: _Taking) -> Slots:
        """What it takes by a guarantee of a type, of any type."""
        lost = self._lost(taking)
        if self._claimed_types(taking).isdisjoint(t for _, t in lost):
            return Counter()
        return Counter({key: slots for key, slots in lost.items() if key[1] == ANY_GPU})

    @cached_property
    def _all_by_type(self) -> Slots:
        """As `_by_type`, of all takings."""
        taken: Slots = Counter()
        for taking in self._takings:
            taken.update(self._by_type(taking))
        return taken

    def _takes_its_own(self, taking: _Taking, entitled: Entitled) -> bool:
        """Whether the taker's accounts stay within what they are entitled to, or its queue within a guarantee."""
        below = self._levels(taking)[1]
        within = all(
            self._least[a, ANY_GPU] < _total(entitled, a, ANY_GPU) + _rest(entitled, a, ANY_GPU) for a in below
        )
        return within or self._within_guarantee(taking, entitled)

    def _may_stop(self, taking: _Taking, entitled: Entitled) -> bool:
        """Whether the taker's queue is below its guarantee, or the victim has run for long enough."""
        after, started_at = self._settings.fair_stop_seconds, taking.victim.started_at
        if after is not None and started_at is not None and self._now >= started_at + after:
            return True
        return self._within_guarantee(taking, entitled)

    def _within_guarantee(self, taking: _Taking, entitled: Entitled) -> bool:
        """Whether the taker's queue, seen beside the victim's, stays within its guarantee, or that of a GPU type.

        Others who made jobs shrink may have done so after a stop.
        """
        account, types = self._levels(taking)[1][0], {ANY_GPU} | self._claimed_types(taking)
        least = self._least_of_stops if isinstance(taking.action, StopJob) else self._least
        return any(least[account, t] < _guaranteed(entitled, account, t) + _rest(entitled, account, t) for t in types)

    def _claimed_types(self, taking: _Taking) -> set[str]:
        """GPU types of which the taker may claim a guarantee: one that names none may those of what it takes.

        A running one grows by that, and a waiting one is to start on a type of which its limits are full.
        """
        taker = taking.taker
        if taker.shape.gpu_type is not None:
            return {taker.shape.gpu_type}
        nodes = (self._accounts.world.nodes.get(worker.node) for worker in taking.workers)
        types = {node.gpu_type for node in nodes if node is not None and node.gpu_type is not None}
        return types if taker.state.active else {each for each in types if self._is_full(each, taker)}

    def _is_full(self, gpu_type: str, job: Job) -> bool:
        """Whether limits may keep the waiting job from its minimum on this type until others of its queue are gone."""
        slots, kinds = job.min_workers * job.shape.slots, (ANY_GPU, gpu_type)
        limits = [(key, limit) for key, limit in self._accounts.limits(job) if key[1] in kinds]
        own = self._waiting_most.get(job.id, Counter())
        return job.spec.fixed is None and any(self._in_use[key] - own[key] + slots > limit for key, limit in limits)

    @cached_property
    def _in_use(self) -> Slots:
        """What limits can have counted at most: who leaves is there still, and others may have got something before."""
        accounts, used = self._accounts, Counter[tuple[str, str]]()
        for job in accounts.world.active.values():
            used.update(accounts.of_slots(job, ((w.node, len(w.slot_ids)) for w in job.all_workers if not w.shared)))
        for slots in (*self._waiting_most.values(), *self._grown):
            used.update(slots)
        return used

    def _losses(self, job: Job) -> list[tuple[Shrink | StopJob, tuple[Worker, ...]]]:
        return [
            (action, leavers(job, action))
            for action in self._plan.actions
            if isinstance(action, Shrink | StopJob) and action.job_id == job.id
        ]

    @cached_property
    def _waiting_had(self) -> dict[JobId, Slots]:
        """What each waiting job had reserved before the plan."""
        accounts = self._accounts
        return {job.id: accounts.of_slots(job, _reserved(job)) for job in accounts.world.reserved.values()}

    @cached_property
    def _waiting_most(self) -> dict[JobId, Slots]:
        """What each waiting job has at most while the plan is made."""
        had, gets = self._waiting_had, self._waiting_gets
        return {job_id: had.get(job_id, Counter()) | gets.get(job_id, Counter()) for job_id in had.keys() | gets.keys()}

    @cached_property
    def _grown(self) -> list[Slots]:
        """What running jobs grow by."""
        accounts, grows = self._accounts, (each for each in self._plan.actions if isinstance(each, Grow))
        growing = ((job, grow) for grow in grows if (job := accounts.world.active.get(grow.job_id)))
        return [accounts.of_slots(job, given(job, grow)) for job, grow in growing]

    @cached_property
    def _waiting_gets(self) -> dict[JobId, Slots]:
        """What each waiting job gets by a start, or has reserved when the plan is done."""
        world, accounts, gets = self._accounts.world, self._accounts, dict(self._waiting_had)
        for action in self._plan.actions:
            if isinstance(action, Release):
                gets.pop(action.job_id, None)
            elif isinstance(action, Start | Reserve) and (job := world.queued.get(action.job_id)):
                gets[job.id] = accounts.of_slots(job, given(job, action))
        return gets

    @cached_property
    def _least(self) -> Slots:
        """What accounts hold when all leavers are gone and only those who took from other queues have got something."""
        return self._held_with(self._takings)

    @cached_property
    def _least_of_stops(self) -> Slots:
        """As `_least`, of those who stopped jobs."""
        return self._held_with([taking for taking in self._takings if isinstance(taking.action, StopJob)])

    def _held_with(self, takings: list[_Taking]) -> Slots:
        """What accounts hold when all leavers are gone and only those who took by these have got something."""
        accounts, held = self._accounts, Counter[tuple[str, str]]()
        for job, losses in self._stays:
            gone = {worker.id for _, workers in losses for worker in workers}
            stays = [worker for worker in _staying(job) if worker.id not in gone]
            held += accounts.of_slots(job, accounts.open_slots(stays))
        kinds = dict[JobId, set[str]]()
        for taking in takings:
            kinds.setdefault(taking.taker.id, {ANY_GPU}).update(self._claimed_types(taking))
        for taker in {taking.taker.id: taking.taker for taking in takings}.values():
            # a waiting one has what it took for its minimum, a running one for one worker at least
            workers = 1 if taker.state.active else taker.min_workers if taker.id in self._waiting_gets else 0
            slots = taker.shape.slots * workers
            held.update({(account, kind): slots for account in accounts.path(taker) for kind in kinds[taker.id]})
        return held

    @cached_property
    def _most(self) -> Slots:
        """What accounts can have held at most when the last worker was taken: others may have got something before.

        Inside an account, what one job loses for another is counted once.
        """
        accounts, held = self._accounts, Counter[tuple[str, str]]()
        inside: dict[JobId, Slots] = {}
        for job, losses in self._stays:
            held.update(accounts.of_slots(job, accounts.open_slots(_staying(job))))
            for action, workers in losses:
                lost = accounts.of_slots(job, accounts.open_slots(workers))
                taker = accounts.world.job(action.for_job) if action.for_job is not None else None
                if action.reason in _BEFORE_TAKINGS:
                    held.subtract(lost)
                elif taker is not None:
                    with_taker = set(accounts.path(taker))
                    both = Counter({key: slots for key, slots in lost.items() if key[0] in with_taker})
                    inside[taker.id] = inside.get(taker.id, Counter()) + both
                    if action.reason in _RECLAIMED:
                        held.subtract(lost - both)
        for job_id, most in self._waiting_most.items():
            held.update(most - (most & inside.get(job_id, Counter())))
        for slots in self._grown:
            held.update(slots)
        for job in accounts.world.active.values():
            held.update(accounts.of_slots(job, self._claimed_of_freed(job)))
        return held

    def _claimed_of_freed(self, job: Job) -> Iterator[tuple[NodeName, int]]:
        """Slots being freed that the running job may claim before others, to grow by once they are free."""
        if not job.elastic or job.finishing or job.state is JobState.STOPPING:
            return
        nodes = self._accounts.world.nodes
        room = max(job.max_workers - len(job.wanted_workers), 0) * job.shape.slots
        types = {nodes[worker.node].gpu_type for worker in job.wanted_workers if worker.node in nodes}
        for name, slots in self._freed.items():
            if not room:
                return
            if nodes[name].gpu_type in types:
                yield name, min(slots, room)
                room -= min(slots, room)

    @cached_property
    def _freed(self) -> Counter[NodeName]:
        """Slots that are being freed, by node."""
        world, freed = self._accounts.world, Counter[NodeName]()
        staying = {worker.id for job in world.active.values() for worker in _staying(job)}
        leaving = (w for job in world.leaving.values() for w in job.all_workers if w.id not in staying)
        for name, slots in self._accounts.open_slots([*world.releasing(leaving), *world.releasing_strays()]):
            freed[name] += slots
        return freed


def _reserved(job: Job) -> Iterator[tuple[NodeName, int]]:
    if job.reservation or job.fixed_reservation:
        held = Reserve(job.id, job.reservation, job.reservation_shared, job.fixed_reservation)
        yield from given(job, held)


def _staying(job: Job) -> Iterable[Worker]:
    return () if job.state is JobState.STOPPING else (worker for worker in job.all_workers if worker.wanted)


def _total(entitled: Entitled, account: str, gpu_type: str) -> float:
    part = entitled.get((account, gpu_type))
    return part.total if part is not None else 0.0


def _rest(entitled: Entitled, account: str, gpu_type: str) -> float:
    """Slots by which the account may be off its part, as slots are whole: less than one, none where the part is."""
    total = _total(entitled, account, gpu_type)
    return (1.0 if abs(total - round(total)) > _EPSILON else 0.0) + _EPSILON


def _guaranteed(entitled: Entitled, account: str, gpu_type: str) -> float:
    part = entitled.get((account, gpu_type))
    return part.guaranteed if part is not None else 0.0
