"""I10: when the faults stop, everything ends or waits for a reason, and then nothing moves any more."""

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.model.event import EventKind
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Job
from scheduler.model.job_state import TERMINAL_STATES, JobState, WaitReason
from scheduler.model.node import Node, NodeIntent
from scheduler.model.queue import ANY_GPU
from scheduler.model.unreadable import Unreadable
from scheduler.policy.capacity.request import fits_empty
from scheduler.policy.checks.plan import FIXED_SIZES
from scheduler.policy.checks.queue_accounts import Accounts
from scheduler.policy.published.view import fixed_size
from scheduler.store.records import JobFilter
from tests.faults.daemon import Daemon
from tests.invariants.broken import hold
from tests.invariants.sizes import most_workers

if TYPE_CHECKING:
    from tests.faults.run import Run

#: Retries, quarantines and graces of any plan fit into this, beside the work of its jobs.
SETTLE_SECONDS_MAX = 3000.0
#: Until the world may be at rest for the first time, and from one look at it to the next.
FIRST_STEP_SECONDS, STEP_SECONDS = 30.0, 10.0
#: From then on users cancel jobs at work that need at least this time: waiting for these shows nothing new.
PATIENCE_SECONDS, LONG_SECONDS = 60.0, 100.0
STILL_TICKS = 5
_OPEN = JobFilter(states=tuple(state for state in JobState if state not in TERMINAL_STATES))
#: What comes of users and of clocks, and not of decisions.
_OF_OTHERS = frozenset({EventKind.JOB_CHANGED, EventKind.CLOCK_JUMPED, EventKind.CLOCK_CONFIRMED})


def settle(run: "Run") -> None:
    """Let time pass until nothing is left to do, then see that nothing is done."""
    _come_to_rest(run)
    if coming := _wait_for_crowded_slots(run):
        for job_id in coming:
            run.ask(IntentKind.CANCEL, job_id=job_id)
        _come_to_rest(run)
    _nothing_moves(run, "still moving")
    alive = run.cluster.alive()
    hold(not alive, "I10", f"processes are left: {alive}")
    settings = run.settings
    for daemon in run.daemons:
        daemon.start_anew(settings)
    _nothing_moves(run, "a daemon that starts anew decides otherwise")


def _nothing_moves(run: "Run", otherwise: str) -> None:
    before = _last_event(run)
    run.advance(STILL_TICKS * run.settings.engine.tick_interval_seconds)
    moved = [event for _, event in run.store.list_events(before, limit=100)]
    hold(all(event.kind in _OF_OTHERS for event in moved), "I10", f"{otherwise}: {moved}")


def _come_to_rest(run: "Run") -> None:
    passed = FIRST_STEP_SECONDS
    run.advance(FIRST_STEP_SECONDS)
    while restless := _restless(run):
        if passed >= PATIENCE_SECONDS:
            _cancel_long_jobs(run)
        passed += STEP_SECONDS
        in_time = passed <= SETTLE_SECONDS_MAX + run.scenario.work_seconds
        hold(in_time, "I10", f"after {passed:g} s: {'; '.join(restless)}")
        run.advance(STEP_SECONDS)


def _cancel_long_jobs(run: "Run") -> None:
    active = run.engine.world.active if run.engine.world is not None else {}
    for job_id, arrival in zip(run.submitted, run.scenario.arrivals, strict=True):
        if job_id in active and (arrival.behaviour.work_seconds or 0.0) >= LONG_SECONDS:
            run.ask(IntentKind.CANCEL, job_id=job_id)


def _wait_for_crowded_slots(run: "Run") -> list[JobId]:
    """Jobs that start whenever crowded slots are shared again, and might crowd them anew, without end."""
    nodes = [node for node in run.store.list_nodes() if node.schedulable]
    waiting = (job for job in _open_jobs(run) if job.state is JobState.QUEUED)
    return [job.id for job in waiting if most_workers(job, nodes, Node.fits_shared) >= job.min_workers]


def _open_jobs(run: "Run") -> tuple[Job, ...]:
    """Jobs that have not ended, as they are stored."""
    page = run.store.page_of_jobs(_OPEN, limit=1000)
    hold(not page.unreadable, "I10", f"cannot be read: {page.unreadable}")
    return page.jobs


def _restless(run: "Run") -> list[str]:
    """Why the world is not at rest yet, one line for each."""
    if run.engine.world is None or not run.leader.leads or run.leader.away:
        return ["no daemon leads"]
    nodes = run.store.list_nodes()
    found = [f"job {job_id} is in the inbox" for job_id in _in_inbox(run)]
    found += (
        f"job {job.id} is {job.state} ({job.wait_reason}) {job.detail}"
        for job in _open_jobs(run)
        if job.state is not JobState.SUSPENDED and not _waits_rightly(run, job, nodes)
    )
    found += (f"booking {name} is not over" for name in run.engine.world.bookings)
    found += (f"{node.name} is quarantined" for node in nodes if node.intent is NodeIntent.QUARANTINED)
    found += (f"{node.name} is taken to have what is gone" for node in nodes if _has_more(run, node))
    found += (f"{daemon.holder} cannot read {rows}" for daemon in run.daemons if (rows := _unreadable(daemon)))
    found += (f"{start.worker_id} runs on {name}" for name, start in run.cluster.alive())
    return found


def _has_more(run: "Run", node: Node) -> bool:
    """Whether capacity that was held when the node lost it still counts: it goes a tick after it was given back."""
    facts = run.cluster.facts(node.name)
    return (node.slots, node.cpus, node.memory_mib) != (facts.slots, facts.cpus, facts.memory_mib)


def _unreadable(daemon: Daemon) -> tuple[Unreadable, ...]:
    """Rows that its world lacks, though all were mended."""
    return daemon.board.world.unreadable if daemon.board.world is not None else ()


def _in_inbox(run: "Run") -> list[object]:
    return [intent.job_id or intent.node for intent in run.store.take_inbox(1000).intents]


def _waits_rightly(run: "Run", job: Job, nodes: list[Node]) -> bool:
    """Whether the nodes that take work would not hold it even if all were empty, at the size at which it starts.

    One that waits for others to go keeps its place: who may not pass it waits rightly, too.
    """
    if job.state is not JobState.QUEUED:
        return False
    if run.cluster.foreign.use() and job.wait_reason is WaitReason.BEHIND_RESERVATION and job.wait_for is not None:
        ahead = run.store.get_job(job.wait_for)
        return ahead is not None and _waits_rightly(run, ahead, nodes)
    if _kept_by_queues(run, job):
        return True
    able = [_beside_others(run, node) for node in nodes if node.schedulable and not _type_is_limited(run, job, node)]
    if job.spec.fixed is not None:
        knows_fixed = run.settings.policy.name == "elastic"
        return not knows_fixed or not _fits_with_fixed(run, job, able)
    fixed = run.settings.policy.name in FIXED_SIZES
    size = fixed_size(job, most_workers(job, nodes)) if fixed else job.min_workers
    return most_workers(job, able) < size


def _fits_with_fixed(run: "Run", job: Job, able: list[Node]) -> bool:
    """Whether these nodes would hold the job and its fixed group, which keeps off types where both are too much."""
    assert job.spec.fixed is not None
    workers, fixed = (job.shape, job.min_workers), (job.spec.fixed.shape, job.spec.fixed.replicas)
    both = job.min_workers * job.shape.slots + job.spec.fixed.replicas * job.spec.fixed.shape.slots
    if job.spec.fixed.shape.gpu_type is not None:
        return fits_empty(able, workers, fixed)
    off = [node for node in able if not _is_limited(run, job, node, both)]
    if job.shape.gpu_type is None or all(node.gpu_type != job.shape.gpu_type for node in able if node not in off):
        return fits_empty(off, workers, fixed)
    return fits_empty(able, workers) and fits_empty(off, fixed)


def _kept_by_queues(run: "Run", job: Job) -> bool:
    """Whether its queue is closed or limited below its minimum, or it is not preemptible and no guarantee covers it."""
    world = run.engine.world
    if world is None or not world.queues or run.settings.policy.name != "elastic":
        return False
    accounts = Accounts(world, run.clock.now(), run.settings.policy)
    if accounts.is_closed(job):
        return True
    fixed = job.spec.fixed
    slots = job.min_workers * job.shape.slots + (fixed.replicas * fixed.shape.slots if fixed is not None else 0)
    if job.wait_reason is WaitReason.NOT_GUARANTEED:
        return not job.spec.preemptible
    return any(slots > limit for (_, gpu_type), limit in accounts.limits(job) if gpu_type == ANY_GPU)


def _type_is_limited(run: "Run", job: Job, node: Node) -> bool:
    """Whether a limit of its queues for the node's type is below what the job needs of that type to start."""
    fixed, slots = job.spec.fixed, job.min_workers * job.shape.slots
    if fixed is not None and fixed.shape.gpu_type == node.gpu_type:
        slots += fixed.replicas * fixed.shape.slots
    return _is_limited(run, job, node, slots)


def _is_limited(run: "Run", job: Job, node: Node, slots: int) -> bool:
    """Whether a limit of its queues for the node's type is below this many slots."""
    world = run.engine.world
    if world is None or not world.queues or run.settings.policy.name != "elastic":
        return False
    accounts = Accounts(world, run.clock.now(), run.settings.policy)
    return any(slots > limit for (_, gpu_type), limit in accounts.limits(job) if gpu_type == node.gpu_type)


def _beside_others(run: "Run", node: Node) -> Node:
    """The node without what others hold of it, and without closed slots."""
    node, use = node.reduced(), run.cluster.foreign.use().get(node.name, NO_FOREIGN)
    slots, memory_mib = max(node.slots - use.slots, 0), node.memory_mib - use.memory_mib
    return replace(node, slots=slots, cpus=node.cpus - use.cpus, memory_mib=memory_mib)


def _last_event(run: "Run") -> int:
    page = run.store.list_events(limit=1, descending=True)
    return page[0][0] if page else 0
