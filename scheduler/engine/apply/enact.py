"""Turn a plan into changes: new workers with their slots, workers asked to leave, jobs being stopped."""

from collections import Counter
from functools import cached_property
from typing import assert_never

from scheduler.config import EngineSettings
from scheduler.engine.changeset import Changeset
from scheduler.engine.state.lifecycle import ask_to_leave, begin_stop
from scheduler.engine.state.membership import settle
from scheduler.model.event import Cause, EventKind
from scheduler.model.evolve import evolve
from scheduler.model.ids import NodeName, worker_id
from scheduler.model.job import Job, Placement
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.node_usage import mask_of
from scheduler.model.plan import Grow, Placing, Plan, Release, Reserve, Shrink, Start, StopJob, Waiting
from scheduler.model.shape import WorkerShape
from scheduler.model.speed import after_loss
from scheduler.model.worker import LeaveReason, Worker
from scheduler.model.world import World, sharers


def enact(changeset: Changeset, plan: Plan, settings: EngineSettings) -> None:
    """Put every action of the plan, and the reasons of waiting jobs, into the changeset."""
    slots = _Slots(changeset)
    ports = _Ports(changeset, settings)
    for action in plan.actions:
        match action:
            case StopJob():
                begin_stop(changeset, action.job_id, action.reason, action.for_job)
            case Shrink():
                _shrink(changeset, action, settings)
            case Release():
                _release(changeset, action)
            case Reserve():
                _reserve(changeset, action)
            case Start():
                _start(changeset, action, slots, ports)
            case Grow():
                _grow(changeset, action, slots)
            case _:
                assert_never(action)
    for job_id, waiting in plan.waiting.items():
        _wait(changeset, changeset.the_job(job_id), waiting)


def _wait(changeset: Changeset, job: Job, waiting: Waiting) -> None:
    """Record why the job waits. `wait_for` changes often in a long queue; only a new reason makes an event."""
    if (job.wait_reason, job.wait_for) != (waiting.reason, waiting.for_job):
        changeset.put(evolve(job, wait_reason=waiting.reason, wait_for=waiting.for_job))
    if job.wait_reason is not waiting.reason:
        changeset.event(EventKind.JOB_WAITS, job_id=job.id, cause=waiting.reason.value, for_job=waiting.for_job)


def _shrink(changeset: Changeset, action: Shrink, settings: EngineSettings) -> None:
    job = changeset.the_job(action.job_id)
    before = len(job.wanted_workers)
    if action.reason is LeaveReason.NO_GAIN:
        changeset.put_progress(job, evolve(job.progress, speeds=after_loss(job.progress.speeds, before)))
    for leaving in action.workers:
        ask_to_leave(changeset, action.job_id, leaving, action.reason, action.for_job)
    changeset.event(
        EventKind.JOB_SHRANK,
        job_id=action.job_id,
        cause=action.reason.value,
        for_job=action.for_job,
        detail=f"{before} -> {before - len(action.workers)} workers",
    )
    settle(changeset, action.job_id, settings)


def _release(changeset: Changeset, action: Release) -> None:
    changeset.put(changeset.the_job(action.job_id).unreserved())


def _reserve(changeset: Changeset, action: Reserve) -> None:
    job = changeset.the_job(action.job_id)
    held = evolve(job, reservation=action.placement, reservation_shared=action.shared)
    changeset.put(evolve(held, fixed_reservation=action.fixed))
    cause = Cause.SLOTS_BEING_FREED.value
    changeset.event(EventKind.JOB_RESERVED, job_id=action.job_id, cause=cause, detail=_describe(action))


def _start(changeset: Changeset, action: Start, slots: "_Slots", ports: "_Ports") -> None:
    job = changeset.move(changeset.the_job(action.job_id), JobState.STARTING)
    cause = Cause.RESERVED_SLOTS if job.reservation else Cause.FREE_SLOTS
    wait_seconds = max(0.0, changeset.now - job.queued_at)
    changeset.put(
        evolve(
            job.unreserved(),
            attempt=job.attempt + 1,
            first_started_at=changeset.now if job.attempt == 0 else job.first_started_at,
            started_at=changeset.now,
            running_at=None,
            waited_seconds=job.waited_seconds + wait_seconds,
            wait_reason=None,
            wait_for=None,
            stop_reason=None,
            stop_for=None,
            detail="",
            exit_code=None,
            last_resize_at=None,
            master_port=ports.take(job),
        )
    )
    _add_fixed_group(changeset, job, action, slots, ports)
    _add_workers(changeset, action, slots)
    detail = _describe(action)
    changeset.event(EventKind.JOB_STARTED, job_id=job.id, cause=cause.value, detail=detail, amount=wait_seconds)


def _grow(changeset: Changeset, action: Grow, slots: "_Slots") -> None:
    job = changeset.the_job(action.job_id)
    before = len(job.wanted_workers)
    _add_workers(changeset, action, slots)
    after = before + sum(count for _, count in action.placement)
    if job.state is JobState.RUNNING:
        changeset.move(changeset.the_job(job.id), JobState.RESIZING)
    changeset.event(
        EventKind.JOB_GREW,
        job_id=job.id,
        cause=Cause.FREE_SLOTS.value,
        detail=f"{before} -> {after} workers: {_describe(action)}",
    )


def _add_fixed_group(changeset: Changeset, job: Job, action: Start, slots: "_Slots", ports: "_Ports") -> None:
    """Add the fixed workers first: the others start once these run. Each listens where the whole job expects it."""
    group = job.spec.fixed
    if group is None:
        return
    names = [name for name, count in action.fixed for _ in range(count)]
    workers = [
        _new_worker(
            changeset,
            job,
            job.next_ordinal + index,
            name,
            group.shape,
            slots.take(name, group.shape.slots, False),
            index,
        )
        for index, name in enumerate(names)
    ]
    hosts = tuple(f"{worker.host}:{ports.take(job)}" for worker in workers)
    starting = evolve(changeset.the_job(job.id), next_ordinal=job.next_ordinal + len(workers), fixed_hosts=hosts)
    changeset.put_workers(starting, workers)


def _add_workers(changeset: Changeset, action: Start | Grow, slots: "_Slots") -> None:
    job = changeset.the_job(action.job_id)
    workers = []
    for ordinal, name in enumerate((name for name, count in action.placement for _ in range(count)), job.next_ordinal):
        taken = slots.take(name, job.shape.slots, action.shared)
        workers.append(_new_worker(changeset, job, ordinal, name, job.shape, taken, shared=action.shared))
    changeset.put_workers(evolve(job, next_ordinal=job.next_ordinal + len(workers)), workers)


def _new_worker(
    changeset: Changeset,
    job: Job,
    ordinal: int,
    name: NodeName,
    shape: WorkerShape,
    slot_ids: tuple[int, ...],
    fixed_index: int | None = None,
    *,
    shared: bool = False,
) -> Worker:
    node = changeset.node(name)
    assert node is not None, "the planner places on known nodes"
    return Worker(
        id=worker_id(job.id, ordinal),
        job_id=job.id,
        ordinal=ordinal,
        node=name,
        host=node.host,
        slot_ids=slot_ids,
        created_at=changeset.now,
        cpus=shape.cpus,
        memory_mib=shape.memory_mib,
        shared=shared,
        fixed_index=fixed_index,
    )


def _describe(action: Placing) -> str:
    where = _places(action.placement)
    if not isinstance(action, Grow) and action.fixed:
        where += f"; fixed: {_places(action.fixed)}"
    return f"{where}, shared slots" if action.shared else where


def _places(placement: Placement) -> str:
    return ", ".join(f"{count} on {node}" for node, count in placement)


class _Slots:
    """Slot numbers for new workers: of their own, the lowest free ones; shared, those with the fewest sharers."""

    def __init__(self, changeset: Changeset) -> None:
        self._changeset = changeset
        self._masks: dict[NodeName, int] = {}
        #: Number of sharers by node and slot; None until a worker is to share.
        self._sharers: Counter[tuple[NodeName, int]] | None = None

    @cached_property
    def _before(self) -> World:
        """What was held before the first worker was placed."""
        return self._changeset.with_usage()

    def take(self, name: NodeName, count: int, shared: bool) -> tuple[int, ...]:
        node = self._changeset.node(name)
        assert node is not None
        chosen = self._to_share(node, count) if shared else self._free(node, count)
        if len(chosen) < count:
            raise AssertionError(f"node {name} has no {count} such slots; the plan's check lets this through")
        return chosen

    def _free(self, node: Node, count: int) -> tuple[int, ...]:
        mask = self._masks.get(node.name)
        if mask is None:
            mask = self._before.used(node.name).slot_mask | node.closed_mask
        chosen = tuple([slot for slot in range(node.slots) if not mask >> slot & 1][:count])
        self._masks[node.name] = mask | mask_of(chosen)
        return chosen

    def _to_share(self, node: Node, count: int) -> tuple[int, ...]:
        """Different slots, none of them crowded or closed."""
        if self._sharers is None:
            world = self._changeset.world()
            self._sharers = Counter((who.node, slot) for who in sharers(world) for slot in who.slot_ids)
        on_slot, crowded = self._sharers, self._changeset.base.crowded.get(node.name, {})
        closed = node.closed_mask
        open_slots = (slot for slot in range(node.slots) if slot not in crowded and not closed >> slot & 1)
        chosen = tuple(sorted(sorted(open_slots, key=lambda slot: (on_slot[node.name, slot], slot))[:count]))
        on_slot.update((node.name, slot) for slot in chosen)
        return chosen


class _Ports:
    """Ports for rank 0 of ordinary torch.distributed scripts and for fixed workers; no two live ones share a port."""

    def __init__(self, changeset: Changeset, settings: EngineSettings) -> None:
        self._changeset = changeset
        self._first = settings.master_port_first
        self._count = settings.master_port_count

    def take(self, job: Job) -> int:
        """A free port for the job, from one of its own on; 0: there are more live jobs than ports."""
        if len(self._used) >= self._count:
            return 0  # the script sees port 0 and picks its own
        needed = 1 if job.spec.fixed is None else 1 + job.spec.fixed.replicas
        start = job.id * 7 + job.attempt * needed  # others for each attempt: the old ones may linger
        ports = (self._first + k % self._count for k in range(start, start + self._count))
        port = next(port for port in ports if port not in self._used)
        self._used.add(port)
        return port

    @cached_property
    def _used(self) -> set[int]:
        """Those of the ports that live jobs have."""
        jobs = [*self._changeset.active_jobs(), *self._changeset.held_jobs()]
        used = {job.master_port for job in jobs}
        used.update(int(host.rpartition(":")[2]) for job in jobs if job.fixed_hosts for host in job.fixed_hosts)
        return {port for port in used if self._first <= port < self._first + self._count}
