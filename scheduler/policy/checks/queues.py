"""Invariants of plans where there are queues: limits, takings, and jobs that are not preemptible."""

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from scheduler.config import PolicySettings
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.plan import Grow, Plan, Shrink, Start, StopJob
from scheduler.model.queue import ANY_GPU
from scheduler.model.queue_tree import nearest
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.checks.queue_accounts import Accounts, Slots, given
from scheduler.policy.checks.queue_takings import check_takings, leavers
from scheduler.policy.checks.world import Violation


def check_queues(world: World, plan: Plan, now: float, settings: PolicySettings) -> Iterator[Violation]:
    """Limits hold (I13), only queues above their entitlement lose to others (I14), and guarantees cover what nobody
    may preempt (I15).

    Published policies know no queues. Jobs of open bookings are above all queues.
    """
    if not world.queues or not plan.actions or settings.name != "elastic":
        return
    accounts = Accounts(world, now, settings)
    gets = [(job, each) for each in plan.actions if isinstance(each, Start | Grow) and (job := world.job(each.job_id))]
    yield from _limits(accounts, gets)
    yield from _not_preemptible(accounts, gets, _leavers(world, plan))
    yield from check_takings(accounts, plan, now, settings)


def _limits(accounts: Accounts, gets: list[tuple[Job, Start | Grow]]) -> Iterator[Violation]:
    """I13: no queue, and no user of one, gets slots beyond a limit or budget; workers that are leaving still count.

    A limit below what is held already, since a user lowered it, takes nothing back; nothing more is given then.
    """
    for job, action in gets:
        if accounts.is_closed(job) and any(slots for _, slots in given(job, action)):
            yield Violation("I13", f"job {job.id} gets slots although its queue is closed: a spent budget, or its row")
    limits = {key: limit for job, _ in gets for key, limit in accounts.limits(job)}
    if not limits:
        return
    more: Slots = Counter()
    for job, action in gets:
        more += accounts.of_slots(job, given(job, action))
    held: Slots = Counter()
    for job in accounts.world.active.values():
        if limits.keys() & {key for key, _ in accounts.limits(job)}:
            held += accounts.of_slots(job, ((w.node, len(w.slot_ids)) for w in job.all_workers if not w.shared))
    for key, limit in limits.items():
        if more[key] and held[key] + more[key] > limit:
            account, gpu_type = key
            told = f"has {held[key]} of {limit} slots of {gpu_type} and gets {more[key]} more"
            yield Violation("I13", f"{account} {told}")


def _leavers(world: World, plan: Plan) -> frozenset[WorkerId]:
    """Workers that leave by the plan."""
    losses = (action for action in plan.actions if isinstance(action, Shrink | StopJob))
    jobs = ((job, action) for action in losses if (job := world.active.get(action.job_id)) is not None)
    return frozenset(worker.id for job, action in jobs for worker in leavers(job, action))


def _not_preemptible(
    accounts: Accounts, gets: list[tuple[Job, Start | Grow]], leaving: AbstractSet[WorkerId]
) -> Iterator[Violation]:
    """I15: jobs that nobody may preempt start and grow inside guarantees only; who leaves by the plan is in no one.

    Not judged: how far guarantees are met where they exceed what there is, and jobs that return to their minimum or
    move off a draining node or an unhealthy slot.
    """
    kept = [(job, action) for job, action in gets if not job.spec.preemptible and not accounts.above_all(job)]
    more: Slots = Counter()
    judged: set[str] = set()
    for job, action in kept:
        more += accounts.of_slots(job, _kept_of(job, action))
        if isinstance(action, Start) or not _has_to(accounts.world, job):
            guaranteed = [queue.path for queue in accounts.queues(job) if queue.guarantee]
            judged.update(guaranteed)
            if not guaranteed and any(slots for _, slots in _kept_of(job, action)):
                yield Violation("I15", f"job {job.id} is not preemptible and gets slots that no guarantee covers")
    for path in sorted(judged):
        held: Slots = Counter()
        for job in accounts.world.active.values():
            if not job.spec.preemptible and path in accounts.path(job):
                held += accounts.of_slots(job, accounts.open_slots(_kept_workers(job, leaving)))
        most = _guaranteed(accounts.world, path)
        if more[path, ANY_GPU] and held[path, ANY_GPU] + more[path, ANY_GPU] > most:
            told = f"hold {held[path, ANY_GPU]} slots and get {more[path, ANY_GPU]} more of {most} guaranteed"
            yield Violation("I15", f"jobs of {path} that are not preemptible {told}")


def _kept_of(job: Job, action: Start | Grow) -> Iterator[tuple[NodeName, int]]:
    """Slots on nodes that the job gets and that nobody may take again."""
    if job.spec.surplus_preemptible:
        left = job.min_workers if isinstance(action, Start) else 0
        placement: list[tuple[NodeName, int]] = []
        for name, count in action.placement:
            placement.append((name, min(count, left)))
            left -= min(count, left)
        action = replace(action, placement=tuple(placement))
    return given(job, action)


def _kept_workers(job: Job, leaving: AbstractSet[WorkerId]) -> tuple[Worker, ...]:
    """Workers of a job that is not preemptible that nobody may take."""
    if job.state is JobState.STOPPING:  # a fixed group goes on until the others have left
        return ()
    fixed = tuple(worker for worker in job.fixed_workers if worker.wanted and worker.id not in leaving)
    stay = tuple(worker for worker in job.wanted_workers if worker.id not in leaving)
    return fixed + (stay[: job.min_workers] if job.spec.surplus_preemptible else stay)


def _guaranteed(world: World, path: str) -> int:
    """Slots that are guaranteed to the queue at most: of any type, of each type, or of the queues inside it."""
    promised = dict(world.queues[path].guarantee)
    typed = sum(slots for gpu_type, slots in promised.items() if gpu_type != ANY_GPU)
    if ANY_GPU in promised:
        return max(promised[ANY_GPU], typed)
    inner = (each.path for each in world.queues.values() if nearest(world.queues, each.parent) == path)
    return max(typed, sum(_guaranteed(world, each) for each in inner))


def _has_to(world: World, job: Job) -> bool:
    """Whether the job is below its minimum, or has workers that must move."""
    moves = any(world.nodes[w.node].moves_off(w.slot_ids) for w in job.wanted_workers if w.node in world.nodes)
    return moves or len(job.wanted_workers) < job.min_workers
