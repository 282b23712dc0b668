"""Invariants of a plan before it is enacted."""

from collections import Counter
from collections.abc import Iterator

from scheduler.config import PolicyName, PolicySettings
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Grow, Placing, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.shape import WorkerShape
from scheduler.model.stray import Stray
from scheduler.model.worker import LeaveReason, Worker
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import left_of, left_to_share
from scheduler.policy.capacity.pools import half, other_half, owner_of, placed, placed_by, reserved, shown
from scheduler.policy.capacity.resources import NOTHING, Amount, add, amount_of, enough, needs
from scheduler.policy.checks.bookings import check_bookings, inside_booking
from scheduler.policy.checks.queue_takings import may_be_taken
from scheduler.policy.checks.queues import check_queues
from scheduler.policy.checks.world import Violation
from scheduler.policy.snapshot.order import Order

#: Policies under which a job holds capacity for its preferred size, not its minimum.
FIXED_SIZES: frozenset[PolicyName] = frozenset({"fifo", "easy", "conservative", "tiresias", "shortest"})
#: Policies that stop a job for one of the same priority.
STOPS_EQUALS: frozenset[PolicyName] = frozenset({"tiresias", "shortest"})

_TAKEN = frozenset({LeaveReason.PREEMPTED, StopReason.PREEMPTED, LeaveReason.REBALANCED, StopReason.REBALANCED})
_RESIZABLE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


def check_plan(world: World, plan: Plan, now: float, settings: PolicySettings) -> list[Violation]:
    """Violations of capacity (I1), bounds (I2), priority (I5), bookings (I11), and queues (I13 to I15).

    Actions that contradict each other, or the state of their job, are PLAN. `now` is in unix seconds.
    """
    return [
        *_kinds(plan),
        *(violation for action in plan.actions for violation in _check(world, action, now, settings)),
        *_victims(world, plan, Order(now, settings), now, settings),
        *_capacity(world, plan),
        *check_bookings(world, plan, _leaving(world, plan), now, settings),
        *check_queues(world, plan, now, settings),
        *_reasons(world, plan),
    ]


def _kinds(plan: Plan) -> Iterator[Violation]:
    """At most one action per job, except for several shrinks."""
    kinds: dict[JobId, list[str]] = {}
    for action in plan.actions:
        kinds.setdefault(action.job_id, []).append(type(action).__name__)
    for job_id, names in kinds.items():
        if len(names) > 1 and set(names) != {"Shrink"}:
            yield Violation("PLAN", f"job {job_id} gets {' and '.join(names)}")
    takes = False
    for action in plan.actions:
        if isinstance(action, Start | Grow):
            takes = True
        elif takes:
            yield Violation("PLAN", f"{type(action).__name__} of job {action.job_id} comes after what takes slots")


def _check(
    world: World, action: Start | Grow | Shrink | StopJob | Reserve | Release, now: float, settings: PolicySettings
) -> Iterator[Violation]:
    job = world.job(action.job_id)
    if job is None:
        yield Violation("PLAN", f"{type(action).__name__} of job {action.job_id}, which does not exist")
        return
    match action:
        case Start() | Reserve():
            yield from _gang(world, job, action, now, settings)
        case Grow():
            yield from _growth(world, job, action)
        case Shrink():
            yield from _shrinking(world, job, plan_shrinks=action)
        case StopJob():
            if job.state not in _RESIZABLE or job.finishing:
                yield Violation("PLAN", f"job {job.id} is stopped while it is {job.state}")
        case Release():
            if not job.reservation:
                yield Violation("PLAN", f"job {job.id} has no reservation to release")


def _gang(world: World, job: Job, action: Start | Reserve, now: float, settings: PolicySettings) -> Iterator[Violation]:
    what = "starts" if isinstance(action, Start) else "reserves"
    if job.state is not JobState.QUEUED or job.not_before > now:
        yield Violation("PLAN", f"job {job.id} {what} while it is {job.state} until {job.not_before:.3f}")
    count = sum(n for _, n in action.placement)
    most = job.max_workers if isinstance(action, Start) or settings.name in FIXED_SIZES else job.min_workers
    if not job.min_workers <= count <= most:
        yield Violation("I2", f"job {job.id} {what} {count} workers, not {job.min_workers} to {most}")
    yield from _placement(world, job, action)
    yield from _fixed_group(world, job, action)


def _fixed_group(world: World, job: Job, action: Start | Reserve) -> Iterator[Violation]:
    """The fixed group is placed with the other workers, as a whole, on nodes that take it."""
    group = job.spec.fixed
    count, wanted = sum(n for _, n in action.fixed), group.replicas if group is not None else 0
    if count != wanted:
        yield Violation("I2", f"job {job.id} gets {count} fixed workers, not {wanted}")
    for name, _ in action.fixed:
        node = world.nodes.get(name)
        if node is None or group is None or not node.schedulable or not node.suits(group.shape):
            yield Violation("I1", f"placement of job {job.id} puts fixed workers on {name}, which does not take them")


def _growth(world: World, job: Job, action: Grow) -> Iterator[Violation]:
    if job.state not in _RESIZABLE or job.finishing:
        yield Violation("PLAN", f"job {job.id} grows while it is {job.state}")
    count = len(job.wanted_workers) + sum(n for _, n in action.placement)
    if not job.min_workers <= count <= job.max_workers:
        yield Violation("I2", f"job {job.id} grows to {count} workers, not {job.min_workers} to {job.max_workers}")
    yield from _placement(world, job, action)


def _placement(world: World, job: Job, action: Placing) -> Iterator[Violation]:
    placement = action.placement
    names = [name for name, _ in placement]
    if len(set(names)) != len(names) or any(count < 1 for _, count in placement):
        yield Violation("PLAN", f"placement of job {job.id} names a node twice or for nothing: {placement}")
    nodes = [world.nodes[name] for name in names if name in world.nodes]
    if len(nodes) != len(names) or any(not node.schedulable or not node.suits(job.shape) for node in nodes):
        yield Violation("I1", f"placement of job {job.id} uses nodes that do not take it: {placement}")
    come = {node.gpu_type for node in nodes}
    here = {world.nodes[w.node].gpu_type for w in job.wanted_workers if w.node in world.nodes}
    if len(come) > 1 or (here and not come <= here):  # a node under it may have come to be of another type
        yield Violation("I1", f"job {job.id} would be on several GPU types: {sorted(map(str, come | here))}")
    if action.shared and not (job.shape.oversell and all(job.shape.slots <= node.slots for node in nodes)):
        yield Violation("I1", f"job {job.id} would share slots, which does not suit it: {placement}")
    if any(worker.shared is not action.shared for worker in job.wanted_workers):
        yield Violation("I1", f"job {job.id} would have slots of its own and shared ones: {placement}")


def _shrinking(world: World, job: Job, plan_shrinks: Shrink) -> Iterator[Violation]:
    wanted = {worker.id for worker in job.wanted_workers}
    if job.state not in _RESIZABLE or job.finishing:
        yield Violation("PLAN", f"job {job.id} shrinks while it is {job.state}")
    if not plan_shrinks.workers or not wanted.issuperset(plan_shrinks.workers):
        yield Violation("PLAN", f"job {job.id} shrinks by workers that it does not have: {plan_shrinks.workers}")
    if plan_shrinks.reason is LeaveReason.OVERSOLD and not any(worker.shared for worker in job.wanted_workers):
        yield Violation("PLAN", f"job {job.id} shrinks as oversold and shares nothing")


def _victims(world: World, plan: Plan, order: Order, now: float, settings: PolicySettings) -> Iterator[Violation]:
    """Shrinks keep the minimum, and victims lose only to jobs that may take; bookings share among themselves."""
    leaving: Counter[JobId] = Counter()
    served = set(world.reserved) & world.queued.keys()
    served -= {action.job_id for action in plan.actions if isinstance(action, Release)}
    served |= {action.job_id for action in plan.actions if isinstance(action, Start | Reserve)}
    for action in plan.actions:
        if not isinstance(action, Shrink | StopJob):
            continue
        victim = world.job(action.job_id)
        if victim is None:
            continue
        if isinstance(action, Shrink):
            leaving[victim.id] += len(set(action.workers))
        inside = inside_booking(world, victim, now, settings)
        if action.reason in (LeaveReason.BOOKED, StopReason.BOOKED) and (inside or not may_be_taken(victim, action)):
            yield Violation("I11", f"job {victim.id} loses workers for a booking, which may not take them")
        if action.reason not in _TAKEN:
            continue
        taker = world.job(action.for_job) if action.for_job is not None else None
        booked = taker is not None and inside_booking(world, taker, now, settings)
        if inside and not (booked and _shares(action)):
            yield Violation("I11", f"job {victim.id} loses workers for job {action.for_job} inside its booking")
        if taker is None or (taker.id not in served and not (_shares(action) and taker.id in world.active)):
            yield Violation("I5", f"job {victim.id} loses workers for {action.for_job}, which gets nothing by it")
        elif not may_be_taken(victim, action) or not (
            booked or _may_take(taker, victim, action, order, settings) or _makes_room_beside(plan, taker, victim)
        ):
            yield Violation("I5", f"job {victim.id} loses workers for job {taker.id}, which may not take them")
    for job_id, count in leaving.items():
        job = world.active.get(job_id)
        if job is not None and len(job.wanted_workers) - count < job.min_workers:
            yield Violation("I2", f"job {job_id} shrinks by {count} below its minimum of {job.min_workers}")


def _shares(action: Shrink | StopJob) -> bool:
    """Whether the action rebalances among jobs that may be equals, rather than preempts."""
    return action.reason in (LeaveReason.REBALANCED, StopReason.REBALANCED)


def _may_take(taker: Job, victim: Job, action: Shrink | StopJob, order: Order, settings: PolicySettings) -> bool:
    """A more important job may take; an equal may make it shrink, or stop it where the policy stops equals."""
    if not _shares(action):
        return order.more_important(taker, victim)
    return taker.priority >= victim.priority and (isinstance(action, Shrink) or settings.name in STOPS_EQUALS)


def _makes_room_beside(plan: Plan, taker: Job, victim: Job) -> bool:
    """Whether the victim shares slots of nodes on which an equally important job gets or keeps some of its own."""
    mine = [a for a in plan.actions if isinstance(a, Start | Reserve | Release) and a.job_id == taker.id]
    gets = any(isinstance(action, Start | Reserve) and not action.shared for action in mine)
    keeps = not mine and bool(taker.reservation) and not taker.reservation_shared
    shares = all(worker.shared for worker in victim.wanted_workers)
    return (gets or keeps) and shares and taker.priority >= victim.priority


def _capacity(world: World, plan: Plan) -> Iterator[Violation]:
    """Starts and growth fit into free capacity; reservations fit into that plus what is being freed."""
    held = {job.id: placed(job, reserved(job)) for job in world.reserved.values()}
    taking: Counter[tuple[NodeName, WorkerShape]] = Counter()
    for action in plan.actions:
        job = world.job(action.job_id)
        if job is not None and isinstance(action, Reserve):
            held[action.job_id] = placed_by(job, action)
        elif isinstance(action, Release | Start):
            held.pop(action.job_id, None)
        if job is not None and isinstance(action, Start | Grow):
            for name, shape, count in placed_by(job, action):
                taking[name, shape] += count
    holding: Counter[tuple[NodeName, WorkerShape]] = Counter()
    for parts in held.values():
        for name, shape, count in parts:
            holding[name, shape] += count
    left = {part: _free(world, part) for name, _ in (*taking, *holding) for part in (name, other_half(name))}
    yield from _draw(left, taking, "more is taken than is free")
    for leaving in _leaving(world, plan):
        name = half(leaving.node, leaving.shared)
        if name in left:
            _add(left, name, amount_of(leaving, world.nodes[leaving.node]), 1)
    yield from _draw(left, holding, "more is held than is free or being freed")


def _free(world: World, name: NodeName) -> Amount | None:
    """The free amount of this half of a node; None if the node takes no workers."""
    owner, shared = owner_of(name)
    node = world.nodes.get(owner)
    if node is None or not node.schedulable:
        return None
    used, foreign = world.used(owner), world.foreign.get(owner, NO_FOREIGN)
    return left_to_share(node, used, foreign, world.crowded.get(owner, ())) if shared else left_of(node, used, foreign)


def _add(left: dict[NodeName, Amount | None], name: NodeName, amount: Amount, sign: int) -> None:
    """Add an amount to one half, and its CPUs and memory to the other."""
    for part, piece in ((name, amount), (other_half(name), (0, *amount[1:]))):
        before = left[part]
        if before is not None:
            left[part] = add(before, piece, sign)


def _leaving(world: World, plan: Plan) -> Iterator[Worker | Stray]:
    """Strays that are being ended, and workers that are leaving or are asked to by the plan, with what they free."""
    yield from world.releasing_strays()
    yield from world.releasing(_leaving_workers(world, plan))


def _leaving_workers(world: World, plan: Plan) -> Iterator[Worker]:
    stopped = {action.job_id for action in plan.actions if isinstance(action, StopJob)}
    asked = {worker for action in plan.actions if isinstance(action, Shrink) for worker in action.workers}
    touched = {action.job_id for action in plan.actions if isinstance(action, Shrink | StopJob)}
    for job_id in world.leaving.keys() | touched & world.active.keys():
        job = world.active[job_id]
        gone = job.state is JobState.STOPPING or job.id in stopped
        yield from (worker for worker in job.all_workers if gone or not worker.wanted or worker.id in asked)


def _draw(
    left: dict[NodeName, Amount | None], drawn: Counter[tuple[NodeName, WorkerShape]], what: str
) -> Iterator[Violation]:
    """Subtract the drawn amounts, and report the nodes that do not have them."""
    taken: dict[NodeName, Amount] = {}
    for (name, shape), count in drawn.items():
        need = needs(shape, count)
        _add(left, name, need, -1)
        taken[name] = add(taken.get(name, NOTHING), need)
    for name in sorted(taken):
        amount = left[name]
        if amount is None:
            yield Violation("I1", f"{shown(name)} takes no workers, yet a plan counts on it")
        elif not enough(amount, taken[name]):
            slots, nano, memory = amount
            yield Violation("I1", f"{shown(name)}: {what}: {slots} slots, {nano / 1e9:g} CPUs, {memory} MiB left")


def _reasons(world: World, plan: Plan) -> Iterator[Violation]:
    started = {action.job_id for action in plan.actions if isinstance(action, Start)}
    for job_id in world.unexplained:
        if job_id not in started and job_id not in plan.waiting:
            yield Violation("PLAN", f"job {job_id} waits without a reason")
    for job_id, said in plan.waiting.items():
        if job_id in started:
            yield Violation("PLAN", f"job {job_id} starts and waits")
        if said.reason is WaitReason.SUBMITTED:
            yield Violation("PLAN", f"job {job_id} waits without a reason")
        if job_id not in world.queued:
            yield Violation("PLAN", f"job {job_id} is given a reason to wait, but is not queued")
