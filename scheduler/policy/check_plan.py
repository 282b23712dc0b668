"""What must hold of a plan before it is enacted."""

from collections import Counter
from collections.abc import Iterator

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, JobState, Placement, StopReason, WaitReason
from scheduler.model.node import CPU_EPSILON
from scheduler.model.plan import Grow, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.model.world import World
from scheduler.policy.check_world import Violation
from scheduler.policy.ledger import Ledger, View
from scheduler.policy.order import Order

_RESIZABLE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


def check_plan(world: World, plan: Plan, now: float, settings: PolicySettings) -> list[Violation]:
    """Violations of capacity (I1), bounds (I2), priority (I5), and contradictions (PLAN). `now` is in unix seconds."""
    return [
        *_kinds(plan),
        *(violation for action in plan.actions for violation in _check(world, action, now)),
        *_victims(world, plan, Order(now, settings)),
        *_capacity(world, plan),
        *_reasons(world, plan),
    ]


def _kinds(plan: Plan) -> Iterator[Violation]:
    """At most one action per job, but for several shrinks."""
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
    world: World, action: Start | Grow | Shrink | StopJob | Reserve | Release, now: float
) -> Iterator[Violation]:
    job = world.job(action.job_id)
    if job is None:
        yield Violation("PLAN", f"{type(action).__name__} of job {action.job_id}, which does not exist")
        return
    match action:
        case Start() | Reserve():
            yield from _gang(world, job, action, now)
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


def _gang(world: World, job: Job, action: Start | Reserve, now: float) -> Iterator[Violation]:
    what = "starts" if isinstance(action, Start) else "reserves"
    if job.state is not JobState.QUEUED or job.not_before > now:
        yield Violation("PLAN", f"job {job.id} {what} while it is {job.state} until {job.not_before:.3f}")
    count = sum(n for _, n in action.placement)
    most = job.max_workers if isinstance(action, Start) else job.min_workers
    if not job.min_workers <= count <= most:
        yield Violation("I2", f"job {job.id} {what} {count} workers, not {job.min_workers} to {most}")
    yield from _placement(world, job, action.placement)


def _growth(world: World, job: Job, action: Grow) -> Iterator[Violation]:
    if job.state not in _RESIZABLE or job.finishing:
        yield Violation("PLAN", f"job {job.id} grows while it is {job.state}")
    count = len(job.wanted_workers) + sum(n for _, n in action.placement)
    if not job.min_workers <= count <= job.max_workers:
        yield Violation("I2", f"job {job.id} grows to {count} workers, not {job.min_workers} to {job.max_workers}")
    yield from _placement(world, job, action.placement)


def _placement(world: World, job: Job, placement: Placement) -> Iterator[Violation]:
    names = [name for name, _ in placement]
    if len(set(names)) != len(names) or any(count < 1 for _, count in placement):
        yield Violation("PLAN", f"placement of job {job.id} names a node twice or for nothing: {placement}")
    nodes = [world.nodes[name] for name in names if name in world.nodes]
    if len(nodes) != len(names) or any(not node.schedulable or not node.suits(job.shape) for node in nodes):
        yield Violation("I1", f"placement of job {job.id} uses nodes that do not take it: {placement}")
    here = {node.gpu_type for node in nodes}
    here |= {world.nodes[w.node].gpu_type for w in job.wanted_workers if w.node in world.nodes}
    if len(here) > 1:
        yield Violation("I1", f"job {job.id} would be on several GPU types: {sorted(map(str, here))}")


def _shrinking(world: World, job: Job, plan_shrinks: Shrink) -> Iterator[Violation]:
    wanted = {worker.id for worker in job.wanted_workers}
    if job.state not in _RESIZABLE or job.finishing:
        yield Violation("PLAN", f"job {job.id} shrinks while it is {job.state}")
    if not plan_shrinks.workers or not wanted.issuperset(plan_shrinks.workers):
        yield Violation("PLAN", f"job {job.id} shrinks by workers that it does not have: {plan_shrinks.workers}")


def _victims(world: World, plan: Plan, order: Order) -> Iterator[Violation]:
    """Shrinks keep the minimum; who loses for another is preemptible and strictly less important than one who waits."""
    leaving: Counter[JobId] = Counter()
    served = {job.id for job in world.queued.values() if job.reservation}
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
        if action.reason not in (LeaveReason.PREEMPTED, StopReason.PREEMPTED):
            continue
        taker = world.queued.get(action.for_job) if action.for_job is not None else None
        if taker is None or taker.id not in served:
            yield Violation("I5", f"job {victim.id} loses workers for {action.for_job}, which gets nothing by it")
        elif not victim.spec.preemptible or not order.more_important(taker, victim):
            yield Violation("I5", f"job {victim.id} loses workers for job {taker.id}, which may not take them")
    for job_id, count in leaving.items():
        job = world.active.get(job_id)
        if job is not None and len(job.wanted_workers) - count < job.min_workers:
            yield Violation("I2", f"job {job_id} shrinks by {count} below its minimum of {job.min_workers}")


def _capacity(world: World, plan: Plan) -> Iterator[Violation]:
    """What takes slots fits into what is free now; what is held fits into that and what is being freed."""
    ledger = Ledger(world)
    held = {job.id: job.reservation for job in world.all_jobs() if job.reservation}
    taking: Counter[tuple[NodeName, WorkerShape]] = Counter()
    for action in plan.actions:
        if isinstance(action, Reserve):
            held[action.job_id] = action.placement
        elif isinstance(action, Release | Start):
            held.pop(action.job_id, None)
        job = world.job(action.job_id)
        if job is not None and isinstance(action, Start | Grow):
            for name, count in action.placement:
                taking[name, job.shape] += count
    for (name, shape), count in taking.items():
        if name in ledger.position:
            ledger.take(ledger.position[name], shape, count)
    yield from _overdrawn(ledger, {name for name, _ in taking}, View.FREE, "more is taken than is free")
    _let_leave(world, plan, ledger)
    for job_id, placement in held.items():
        job = world.job(job_id)
        if job is not None:
            ledger.hold(placement, job.shape)
    touched = {name for placement in held.values() for name, _ in placement}
    yield from _overdrawn(ledger, touched, View.SOON, "more is held than is free or being freed")


def _let_leave(world: World, plan: Plan, ledger: Ledger) -> None:
    stopped = {action.job_id for action in plan.actions if isinstance(action, StopJob)}
    asked = {worker for action in plan.actions if isinstance(action, Shrink) for worker in action.workers}
    for job in world.active.values():
        gone = job.state is JobState.STOPPING or job.id in stopped
        for worker in job.workers:
            if gone or not worker.wanted or worker.id in asked:
                ledger.leave(worker)
    for stray in world.strays.values():
        ledger.leave(stray)


def _overdrawn(ledger: Ledger, names: set[NodeName], view: View, what: str) -> Iterator[Violation]:
    for name in sorted(names):
        i = ledger.position.get(name)
        if i is None:
            yield Violation("I1", f"{name} takes no workers, yet a plan counts on it")
            continue
        slots, cpus, memory = ledger.available(i, view)
        if slots < 0 or cpus < -CPU_EPSILON or memory < 0:
            yield Violation("I1", f"{name}: {what}: {slots} slots, {cpus:g} CPUs, {memory} MiB left")


def _reasons(world: World, plan: Plan) -> Iterator[Violation]:
    started = {action.job_id for action in plan.actions if isinstance(action, Start)}
    for job in world.queued.values():
        said = plan.waiting.get(job.id)
        if job.id in started:
            if said is not None:
                yield Violation("PLAN", f"job {job.id} starts and waits")
        elif (said.reason if said is not None else job.wait_reason) in (None, WaitReason.SUBMITTED):
            yield Violation("PLAN", f"job {job.id} waits without a reason")
    for job_id in plan.waiting:
        if job_id not in world.queued:
            yield Violation("PLAN", f"job {job_id} is given a reason to wait, but is not queued")
