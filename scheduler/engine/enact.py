"""Turn a plan into changes: new workers with their slots, workers asked to leave, jobs being stopped."""

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from scheduler.config import EngineSettings
from scheduler.engine.draft import Draft
from scheduler.engine.lifecycle import ask_to_leave, begin_stop
from scheduler.engine.membership import settle
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId, NodeName, worker_id
from scheduler.model.job import Job, JobState, Placement
from scheduler.model.plan import Grow, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.worker import Worker
from scheduler.model.world import mask_of


def enact(draft: Draft, plan: Plan, settings: EngineSettings) -> None:
    """Put every action of the plan, and the reasons of those who wait, into the draft."""
    slots = _Slots(draft)
    ports = _Ports(draft, settings)
    for action in plan.actions:
        match action:
            case StopJob():
                begin_stop(draft, action.job_id, action.reason, action.for_job)
            case Shrink():
                _shrink(draft, action, settings)
            case Release():
                draft.put(replace(draft.the_job(action.job_id), reservation=()))
            case Reserve():
                _reserve(draft, action)
            case Start():
                _start(draft, action, slots, ports)
            case Grow():
                _grow(draft, action, slots)
            case _:
                assert_never(action)
    for job_id, waiting in plan.waiting.items():
        job = draft.the_job(job_id)
        if (job.wait_reason, job.wait_for) != (waiting.reason, waiting.for_job):
            draft.put(replace(job, wait_reason=waiting.reason, wait_for=waiting.for_job))


def _shrink(draft: Draft, action: Shrink, settings: EngineSettings) -> None:
    before = len(draft.the_job(action.job_id).wanted_workers)
    for leaving in action.workers:
        ask_to_leave(draft, action.job_id, leaving, action.reason, action.for_job)
    draft.event(
        EventKind.JOB_SHRANK,
        job_id=action.job_id,
        cause=action.reason.value,
        for_job=action.for_job,
        detail=f"{before} -> {before - len(action.workers)} workers",
    )
    settle(draft, action.job_id, settings)


def _reserve(draft: Draft, action: Reserve) -> None:
    draft.put(replace(draft.the_job(action.job_id), reservation=action.placement))
    draft.event(EventKind.JOB_RESERVED, job_id=action.job_id, detail=_describe(action.placement))


def _start(draft: Draft, action: Start, slots: "_Slots", ports: "_Ports") -> None:
    job = draft.move(draft.the_job(action.job_id), JobState.STARTING)
    waited_seconds = max(0.0, draft.now - job.queued_at)
    draft.put(
        replace(
            job,
            attempt=job.attempt + 1,
            started_at=draft.now,
            running_at=None,
            waited_seconds=waited_seconds,
            wait_reason=None,
            wait_for=None,
            stop_reason=None,
            stop_for=None,
            detail="",
            exit_code=None,
            last_resize_at=None,
            reservation=(),
            master_port=ports.take(job),
        )
    )
    _add_workers(draft, job.id, action.placement, slots)
    draft.event(EventKind.JOB_STARTED, job_id=job.id, detail=_describe(action.placement), amount=waited_seconds)


def _grow(draft: Draft, action: Grow, slots: "_Slots") -> None:
    job = draft.the_job(action.job_id)
    before = len(job.wanted_workers)
    _add_workers(draft, job.id, action.placement, slots)
    after = before + sum(count for _, count in action.placement)
    if job.state is JobState.RUNNING:
        draft.move(draft.the_job(job.id), JobState.RESIZING)
    draft.event(
        EventKind.JOB_GREW,
        job_id=job.id,
        detail=f"{before} -> {after} workers: {_describe(action.placement)}",
    )


def _add_workers(draft: Draft, job_id: JobId, placement: Placement, slots: "_Slots") -> None:
    for name, count in placement:
        node = draft.node(name)
        assert node is not None, "the planner places on known nodes"
        for _ in range(count):
            job = draft.the_job(job_id)
            shape = job.shape
            draft.put(replace(job, next_ordinal=job.next_ordinal + 1))
            draft.put_worker(
                Worker(
                    id=worker_id(job_id, job.next_ordinal),
                    job_id=job_id,
                    ordinal=job.next_ordinal,
                    node=name,
                    host=node.host,
                    slot_ids=slots.take(name, shape.slots),
                    created_at=draft.now,
                    cpus=shape.cpus,
                    memory_mib=shape.memory_mib,
                )
            )


def _describe(placement: Placement) -> str:
    return ", ".join(f"{count} on {node}" for node, count in placement)


class _Slots:
    """Free slot numbers per node, lowest first."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._world = draft.world()
        self._masks: dict[NodeName, int] = {}

    def take(self, name: NodeName, count: int) -> tuple[int, ...]:
        node = self._draft.node(name)
        assert node is not None
        mask = self._masks.get(name)
        if mask is None:
            mask = self._world.used(name).slot_mask
        free = [slot for slot in range(node.slots) if not mask >> slot & 1][:count]
        if len(free) < count:
            raise AssertionError(f"node {name} has no {count} free slots; the plan's check lets this through")
        chosen = tuple(free)
        self._masks[name] = mask | mask_of(chosen)
        return chosen


class _Ports:
    """Ports for rank 0 of ordinary torch.distributed scripts; no two live jobs share one."""

    def __init__(self, draft: Draft, settings: EngineSettings) -> None:
        self._draft = draft
        self._settings = settings
        self._used: set[int] | None = None

    def take(self, job: Job) -> int:
        if self._used is None:
            self._used = {other.master_port for other in self._draft.active_jobs()}
        for port in self._candidates(job):
            if port not in self._used:
                self._used.add(port)
                return port
        return 0  # more live jobs than ports: the script sees port 0 and picks its own

    def _candidates(self, job: Job) -> Iterator[int]:
        first, count = self._settings.master_port_first, self._settings.master_port_count
        start = (job.id * 7 + job.attempt) % count  # another port for each attempt: the old one may linger
        return (first + (start + step) % count for step in range(count))
