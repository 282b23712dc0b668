"""Turn a plan into changes: new workers with their slots, workers asked to leave, jobs being stopped."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from scheduler.config import EngineSettings
from scheduler.engine.draft import Draft
from scheduler.engine.lifecycle import ask_to_leave, begin_stop
from scheduler.engine.membership import settle
from scheduler.model.event import EventKind
from scheduler.model.ids import NodeName, worker_id
from scheduler.model.job import Job, JobState, Placement
from scheduler.model.node import Node
from scheduler.model.plan import Grow, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.worker import Worker
from scheduler.model.world import mask_of, sharers


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
                draft.put(replace(draft.the_job(action.job_id), reservation=(), reservation_shared=False))
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
    job = draft.the_job(action.job_id)
    draft.put(replace(job, reservation=action.placement, reservation_shared=action.shared))
    draft.event(EventKind.JOB_RESERVED, job_id=action.job_id, detail=_describe(action.placement, action.shared))


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
            reservation_shared=False,
            master_port=ports.take(job),
        )
    )
    _add_workers(draft, action, slots)
    detail = _describe(action.placement, action.shared)
    draft.event(EventKind.JOB_STARTED, job_id=job.id, detail=detail, amount=waited_seconds)


def _grow(draft: Draft, action: Grow, slots: "_Slots") -> None:
    job = draft.the_job(action.job_id)
    before = len(job.wanted_workers)
    _add_workers(draft, action, slots)
    after = before + sum(count for _, count in action.placement)
    if job.state is JobState.RUNNING:
        draft.move(draft.the_job(job.id), JobState.RESIZING)
    draft.event(
        EventKind.JOB_GREW,
        job_id=job.id,
        detail=f"{before} -> {after} workers: {_describe(action.placement, action.shared)}",
    )


def _add_workers(draft: Draft, action: Start | Grow, slots: "_Slots") -> None:
    job_id = action.job_id
    for name, count in action.placement:
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
                    slot_ids=slots.take(name, shape.slots, action.shared),
                    created_at=draft.now,
                    cpus=shape.cpus,
                    memory_mib=shape.memory_mib,
                    shared=action.shared,
                )
            )


def _describe(placement: Placement, shared: bool) -> str:
    where = ", ".join(f"{count} on {node}" for node, count in placement)
    return f"{where}, shared slots" if shared else where


class _Slots:
    """Slot numbers for new workers: of their own, the lowest free ones; shared, those with the fewest sharers."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._world = draft.world()
        self._masks: dict[NodeName, int] = {}
        #: Node and slot -> how many share it; None until somebody is to share.
        self._sharers: Counter[tuple[NodeName, int]] | None = None

    def take(self, name: NodeName, count: int, shared: bool) -> tuple[int, ...]:
        node = self._draft.node(name)
        assert node is not None
        chosen = self._to_share(node, count) if shared else self._free(node, count)
        if len(chosen) < count:
            raise AssertionError(f"node {name} has no {count} such slots; the plan's check lets this through")
        return chosen

    def _free(self, node: Node, count: int) -> tuple[int, ...]:
        mask = self._masks.get(node.name)
        if mask is None:
            mask = self._world.used(node.name).slot_mask
        chosen = tuple([slot for slot in range(node.slots) if not mask >> slot & 1][:count])
        self._masks[node.name] = mask | mask_of(chosen)
        return chosen

    def _to_share(self, node: Node, count: int) -> tuple[int, ...]:
        """Different slots, none of them crowded."""
        if self._sharers is None:
            self._sharers = Counter((who.node, slot) for who in sharers(self._world) for slot in who.slot_ids)
        on_slot, crowded = self._sharers, self._world.crowded.get(node.name, {})
        open_slots = (slot for slot in range(node.slots) if slot not in crowded)
        chosen = tuple(sorted(sorted(open_slots, key=lambda slot: (on_slot[node.name, slot], slot))[:count]))
        on_slot.update((node.name, slot) for slot in chosen)
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
