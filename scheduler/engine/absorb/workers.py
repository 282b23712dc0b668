"""Absorb observations of workers: processes as the cluster reports them, and their own reports."""

import math
from collections.abc import Iterable, Iterator, Mapping

from scheduler import bounds
from scheduler.config import EngineSettings
from scheduler.engine.absorb.closed_slots import named_slots
from scheduler.engine.absorb.exits import classify_exit
from scheduler.engine.changeset import Changeset
from scheduler.engine.ports import ActionFailure
from scheduler.engine.state.lifecycle import ask_to_leave
from scheduler.engine.state.reports import latest_moment
from scheduler.model.event import EventKind
from scheduler.model.evolve import evolve
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job, Progress
from scheduler.model.node import CPU_EPSILON, Node, NodeIntent
from scheduler.model.observation import (
    EndCause,
    NodeObservation,
    Observation,
    Phase,
    WorkerObservation,
    WorkerReport,
)
from scheduler.model.slot import ClosedSlot, SlotClosure
from scheduler.model.speed import after_report
from scheduler.model.stray import Stray
from scheduler.model.worker import Desired, ExitReason, LeaveReason, Worker, WorkerState
from scheduler.model.world import World

#: Its multiples spread evenly over the unit interval, however many there are.
GOLDEN_RATIO = 0.6180339887498949


def absorb_job_workers(
    changeset: Changeset, job: Job, observation: Observation, uncertain: Mapping[WorkerId, ActionFailure]
) -> list[Worker]:
    """Update the job's workers from the observation; returns those that ended.

    `uncertain` has the workers whose last start or stop failed on the way, and why: if they have not been seen yet,
    their absence from the list proves nothing.
    """
    ended: list[Worker] = []
    for worker in job.all_workers:
        seen = observation.workers.get(worker.id)
        if seen is not None and seen.nonce != job.nonce:
            seen = None  # the worker of a job that had this id in another life of the database
        if seen is not None and not seen.alive:
            ended.append(_absorb_end(changeset, worker, seen))
        elif seen is not None:
            _absorb_alive(changeset, job, worker, seen)
            if not observation.reaches(worker.node):
                _go_on_without(changeset, job.id, worker.id)
        elif not observation.reaches(worker.node):
            gone = changeset.end_worker(worker, WorkerState.LOST, _lost_reason(worker), None, "its node is down")
            ended.append(gone)
        else:
            gone_or_none = _absorb_absence(changeset, worker, observation.nodes.get(worker.node), uncertain)
            if gone_or_none is not None:
                ended.append(gone_or_none)
    return ended


def _lost_reason(worker: Worker) -> ExitReason:
    return ExitReason.ASKED if worker.desired is Desired.STOP else ExitReason.LOST


def _go_on_without(changeset: Changeset, job_id: JobId, worker_id: WorkerId) -> None:
    """Re-form an elastic group without a worker that is not reported as gone, but whose node is out of reach.

    The worker keeps its slots until the cluster no longer lists it; a job that needs it waits for its node.
    """
    job = changeset.the_job(job_id)
    worker = job.worker(worker_id)
    if worker is None or worker.fixed:
        return
    if worker.wanted and len(job.wanted_workers) > job.min_workers and not job.finishing:
        ask_to_leave(changeset, job_id, worker_id, LeaveReason.UNREACHABLE)


def _note(changeset: Changeset, worker: Worker, detail: str) -> Worker:
    """Keep the cluster's detail on a worker, except on a hung one, of which more is known."""
    if detail == worker.detail or worker.leave_reason is LeaveReason.HUNG:
        return worker
    noted = evolve(worker, detail=detail)
    changeset.put_worker(noted)
    return noted


def _absorb_absence(
    changeset: Changeset, worker: Worker, node: NodeObservation | None, uncertain: Mapping[WorkerId, ActionFailure]
) -> Worker | None:
    """Absorb that a worker is absent from its node."""
    if worker.state is not WorkerState.PENDING:
        return changeset.end_worker(worker, WorkerState.LOST, _lost_reason(worker), None, "unknown to its node")
    gone = place_is_gone(changeset, worker) or _room_is_gone(changeset.base, worker, node)
    if gone is not None:
        return changeset.end_worker(worker, WorkerState.LOST, _lost_reason(worker), None, gone)
    failure = uncertain.get(worker.id)
    if failure is not None:
        worker = _note(changeset, worker, failure.error)
        if not failure.final:
            return None
        return changeset.end_worker(worker, WorkerState.EXITED, ExitReason.LAUNCH_FAILED, None, failure.error)
    if worker.desired is Desired.STOP:
        return changeset.end_worker(worker, WorkerState.EXITED, ExitReason.ASKED, None, "never started")
    if worker.condemned:  # it was given up before it ran, and its end went unseen
        blameless = worker.leave_reason is LeaveReason.NOT_ADMITTED
        reason = ExitReason.NOT_ADMITTED if blameless else ExitReason.LAUNCH_FAILED
        return changeset.end_worker(worker, WorkerState.EXITED, reason, None, worker.detail)
    if 0.0 < worker.not_before <= changeset.now and not _takes(changeset.node(worker.node), worker):
        detail = "during its pause, its node or slots were closed to new workers"
        return changeset.end_worker(worker, WorkerState.LOST, ExitReason.LOST, None, detail)
    return None


def place_is_gone(changeset: Changeset, worker: Worker) -> str | None:
    """Why the slots of a worker are no longer its own; None: they are.

    While its own row or its job's could not be read, nobody kept them for it: its node may have fewer by now, and of
    two workers that hold a slot, it is that of the one who was given it last. A node that is held shows no slots.
    """
    node, usage = changeset.node(worker.node), changeset.base.usage.get(worker.node)
    shown = node.slots if node is not None and node.intent is not NodeIntent.HELD else math.inf
    if any(slot >= shown for slot in worker.slot_ids):
        return "its node has no such slots any more"
    held_twice = usage is not None and not worker.shared and not set(usage.held_again).isdisjoint(worker.slot_ids)
    return "another one has its slots" if held_twice and _were_given_again(changeset.base, worker) else None


def _room_is_gone(world: World, worker: Worker, node: NodeObservation | None) -> str | None:
    """As `place_is_gone`, of CPUs and memory: of those that have not started, who was given them last comes first."""
    if node is None or not (worker.cpus or worker.memory_mib):
        return None
    used = world.used(worker.node)
    if used.cpus <= node.cpus + CPU_EPSILON and used.memory_mib <= node.memory_mib:
        return None
    before = [each for each in _beside(world, worker) if each.state is WorkerState.PENDING and _is_later(worker, each)]
    cpus = used.cpus - sum(each.cpus for each in before)
    memory_mib = used.memory_mib - sum(each.memory_mib for each in before)
    short = (worker.cpus > 0 and cpus > node.cpus + CPU_EPSILON) or (
        worker.memory_mib > 0 and memory_mib > node.memory_mib
    )
    return "its node has too few CPUs or too little memory left" if short else None


def _were_given_again(world: World, worker: Worker) -> bool:
    """Whether slots of a worker were given to another one later."""
    return any(
        _is_later(each, worker) and not each.shared and not set(each.slot_ids).isdisjoint(worker.slot_ids)
        for each in _beside(world, worker)
    )


def _beside(world: World, worker: Worker) -> Iterator[Worker]:
    """All workers on its node; looks at all active jobs."""
    return (each for job in world.active.values() for each in job.all_workers if each.node == worker.node)


def _is_later(other: Worker, worker: Worker) -> bool:
    return (worker.created_at, worker.id) < (other.created_at, other.id)


def _takes(node: Node | None, worker: Worker) -> bool:
    """Whether the node would still take the worker; the planner finds another place for one that it does not."""
    return node is not None and node.schedulable and not node.closed_among(worker.slot_ids)


def _absorb_alive(changeset: Changeset, job: Job, worker: Worker, seen: WorkerObservation) -> None:
    worker = _note(changeset, worker, seen.detail)
    if seen.phase is not Phase.RUNNING:
        if seen.stuck and worker.wanted and not worker.condemned:
            blameless = seen.cause is EndCause.NOT_ADMITTED
            reason = LeaveReason.NOT_ADMITTED if blameless else LeaveReason.NOT_LAUNCHED
            changeset.put_worker(evolve(worker, leave_reason=reason, stop_deadline=changeset.now))
        return
    if worker.state is WorkerState.PENDING:
        worker = changeset.move_worker(worker, WorkerState.STARTING)
        changeset.event(EventKind.WORKER_STARTED, job_id=job.id, worker_id=worker.id, node=worker.node)
    if worker.state is WorkerState.STARTING and (worker.fixed or not job.spec.runtime.reports):
        changeset.move_worker(worker, WorkerState.READY)


def _absorb_end(changeset: Changeset, worker: Worker, seen: WorkerObservation) -> Worker:
    reason = classify_exit(worker, seen)
    state = WorkerState.LOST if seen.phase is Phase.LOST else WorkerState.EXITED
    # the reason for giving it up says more than its removal
    detail = worker.detail if worker.condemned else seen.detail
    broken = _broken_slots(changeset, worker) if reason in (ExitReason.FAILED, ExitReason.HUNG) else ()
    if broken:  # nobody can tell whether it would have failed elsewhere
        reason, detail = ExitReason.LOST, f"{named_slots(broken)}: {broken[0].detail}"
    return changeset.end_worker(worker, state, reason, seen.exit_code, detail)


def _broken_slots(changeset: Changeset, worker: Worker) -> tuple[ClosedSlot, ...]:
    """Slots of the worker that are unhealthy or cannot be read."""
    node = changeset.node(worker.node)
    closed = node.closed_among(worker.slot_ids) if node is not None else ()
    return tuple(each for each in closed if each.closure is not SlotClosure.FOREIGN)


def absorb_report(changeset: Changeset, job: Job, worker: Worker, report: WorkerReport) -> None:
    """Absorb readiness and membership from the worker's report; one of another generation than published is old."""
    if worker.state is WorkerState.PENDING:
        worker = changeset.move_worker(worker, WorkerState.STARTING)  # it talks, so it runs
        changeset.event(EventKind.WORKER_STARTED, job_id=job.id, worker_id=worker.id, node=worker.node)
    if report.ready and worker.state is WorkerState.STARTING and worker.wanted:
        told = evolve(worker, endpoint=report.endpoint, peer=report.peer)
        worker = changeset.move_worker(told, WorkerState.READY)
        changeset.event(EventKind.WORKER_READY, job_id=job.id, worker_id=worker.id, node=worker.node)
    if worker.reported_generation < report.generation <= job.generation and worker.member:
        changeset.put_worker(evolve(worker, reported_generation=report.generation))


def absorb_progress(
    changeset: Changeset, job_id: JobId, report: WorkerReport, checkpoint_at: float | None, settings: EngineSettings
) -> None:
    """Keep the job's progress from the report of rank 0, at most once per interval.

    `checkpoint_at`: when any of its workers last saw a checkpoint; any of them may write checkpoints.
    """
    job = changeset.the_job(job_id)
    before = job.progress
    interval_seconds = settings.progress_interval_seconds
    if not job.state.active or not progress_is_due(job, report, changeset.now, interval_seconds):
        return
    size = job.published_size
    speeds, scatter = before.speeds, before.scatter
    agreed = report.agreed
    alone = agreed is not None and agreed.generation == report.generation  # of fewer than are published
    settled = report.generation == job.generation and size > 0 and not alone
    efficiency = _newest(report.efficiency, before.efficiency)
    if report.samples_per_second is not None and settled:
        useful = report.samples_per_second * (1.0 if efficiency is None else efficiency)
        rate = bounds.RATE.nearest(useful)
        speeds, scatter = after_report((speeds, scatter), size, rate, report.generation)
    progress = evolve(
        with_fraction(job, report.fraction, changeset.now),
        step=before.step if report.step is None else report.step,
        epoch=before.epoch if report.epoch is None else report.epoch,
        samples_per_second=_newest(report.samples_per_second, before.samples_per_second),
        last_commit_at=_newest(report.last_commit_at, before.last_commit_at),
        last_checkpoint_at=latest_moment(checkpoint_at, before.last_checkpoint_at),
        resize_seconds=_newest(report.resize_seconds, before.resize_seconds),
        speeds=speeds,
        scatter=scatter,
        efficiency=efficiency,
        metrics=report.metrics or before.metrics,
        reported_at=changeset.now,
    )
    changeset.put_progress(job, progress)


def with_fraction(job: Job, fraction: float | None, now: float) -> Progress:
    """The job's progress at this fraction (None: unchanged), with a new estimate of its total work.

    Old knowledge fades as the done share grows: start-up and the first epochs differ from those to come.
    """
    before = job.progress
    done, whole, recent = before.fraction or 0.0, before.whole_slot_seconds, before.recent_share
    if fraction is None:
        return before
    if fraction == done:
        return evolve(before, fraction=fraction)
    had = job.attained(now)
    if fraction < done:  # what was lost is done again
        return evolve(before, fraction=fraction, slot_seconds=had)
    faded = recent * done / fraction
    recent = bounds.SHARE.nearest(max(faded + fraction - done, bounds.SHARE.low))
    whole = bounds.SLOT_SECONDS.nearest(((whole or 0.0) * faded + had - before.slot_seconds) / recent)
    return evolve(before, fraction=fraction, whole_slot_seconds=whole, recent_share=recent, slot_seconds=had)


def progress_is_due(job: Job, report: WorkerReport, now: float, interval_seconds: float) -> bool:
    """Whether a report of rank 0 is kept: once per interval, at a moment of the job's own, and after each resize.

    Otherwise jobs that started together would always be written together.
    """
    before = job.progress
    if before.reported_at is None or interval_seconds <= 0:
        return True
    if report.resize_seconds is not None and report.resize_seconds != before.resize_seconds:
        return True
    phase_seconds = job.id * GOLDEN_RATIO % 1.0 * interval_seconds
    return (now + phase_seconds) // interval_seconds > (before.reported_at + phase_seconds) // interval_seconds


def _newest(new: float | None, old: float | None) -> float | None:
    return old if new is None else new


def find_strays(
    changeset: Changeset, observation: Observation, moved: Iterable[WorkerObservation]
) -> dict[WorkerId, Stray]:
    """Workers observed alive that belong to no job: they are fenced, and hold their slots until they are gone.

    Only workers that were observed to change (`moved`) can have become strays.
    """
    strays = {
        stray.id: stray
        for stray in changeset.base.strays.values()
        if (seen := observation.workers.get(stray.id)) is not None and seen.alive and seen.nonce == stray.nonce
    }
    for seen in moved:
        job = changeset.job(seen.job_id)
        if seen.alive and (job is None or job.nonce != seen.nonce or job.worker(seen.id) is None):
            strays[seen.id] = Stray(
                seen.id, seen.job_id, seen.node, seen.slot_ids, seen.cpus, seen.memory_mib, seen.shared, seen.nonce
            )
    return strays
