"""Values of the model for property tests of the database: whatever a field can hold."""

import json
from dataclasses import fields, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from scheduler import bounds
from scheduler.bounds import Bound
from scheduler.model.booking import Booking, BookingState
from scheduler.model.data import DataSet
from scheduler.model.event import Event, EventKind
from scheduler.model.export import Export
from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId, NodeName, WorkerId, worker_id
from scheduler.model.job import Job, JobSpec, Progress, Runtime
from scheduler.model.job_state import JOB_TRANSITIONS, JobState, StopReason, WaitReason
from scheduler.model.node import Node, NodeFailure, NodeHealth, NodeIntent
from scheduler.model.shape import WorkerShape
from scheduler.model.slot import ClosedSlot, SlotClosure
from scheduler.model.speed import LOSSES_MAX, REPORTS_MAX, SCATTER_REPORTS_MAX, Scatter, SizeSpeed
from scheduler.model.worker import Desired, ExitReason, LeaveReason, Worker, WorkerState

T = TypeVar("T")

# Surrogates are not text, and PostgreSQL's text has no NUL.
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
integers = st.integers(-(2**31), 2**31)
counts = st.integers(0, 2**62)
sizes = st.integers(1, 100_000)
hosts = st.builds("{}:{}".format, st.sampled_from(["a", "::1", "10.0.0.1", ""]), st.integers(0, 65535))
times = st.floats(0, 1e11).map(bounds.MOMENT.nearest)
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
job_ids = st.integers(1, 2**62).map(JobId)
node_names = texts.map(NodeName)
#: Where workers are: nodes that are stored.
KNOWN_NODES = (NodeName("a"), NodeName("b"))
KNOWN_QUEUE = "lab"
places = st.sampled_from(KNOWN_NODES)


def maybe(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | strategy


def whole(kind: type[T], /, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Values of a dataclass of which no field is forgotten."""
    assert set(parts) == {part.name for part in fields(kind)}  # type: ignore[arg-type]
    return st.builds(kind, **parts)


def within(bound: Bound) -> st.SearchStrategy[float]:
    """Any number that is allowed."""
    return st.floats(0, bound.high).map(bound.nearest)


def curves(bound: Bound) -> st.SearchStrategy[Any]:
    """Sizes, ascending, each with a number."""
    return st.dictionaries(sizes, within(bound), max_size=3).map(lambda points: tuple(sorted(points.items())))


commands = st.lists(texts, min_size=1, max_size=3).map(tuple)
templates = st.dictionaries(texts, texts, max_size=2).map(json.dumps)
shapes = whole(
    WorkerShape,
    slots=st.integers(1, 64),
    cpus=within(bounds.CPUS),
    memory_mib=st.integers(0, 2**40),
    node_selector=pairs,
    gpu_type=maybe(texts),
    oversell=st.booleans(),
)
data_sets = whole(
    DataSet,
    shards=st.integers(1, 10**6),
    epochs=st.integers(1, 10**6),
    shuffle=st.booleans(),
    seed=counts,
    lease_seconds=within(bounds.DURATION),
    max_attempts=st.integers(1, 100),
)
fixed_groups = whole(
    FixedGroup,
    replicas=st.integers(1, 9),
    command=commands,
    env=pairs,
    shape=shapes,
    pod_template=maybe(templates),
)
exports = whole(Export, env=pairs, workdir=maybe(texts), host=maybe(texts))
specs = whole(
    JobSpec,
    name=texts,
    command=commands,
    user=texts,
    env=pairs,
    workdir=maybe(texts),
    labels=pairs,
    runtime=st.sampled_from(Runtime),
    priority=integers,
    min_workers=st.integers(1, 5),
    max_workers=st.integers(5, 9),
    shape=shapes,
    time_limit_seconds=maybe(within(bounds.DURATION)),
    max_retries=counts,
    grace_seconds=within(bounds.GRACE),
    heartbeat_seconds=maybe(within(bounds.HEARTBEAT)),
    preemptible=st.booleans(),
    surplus_preemptible=st.booleans(),
    preferred_workers=maybe(sizes),
    expected_seconds=maybe(within(bounds.DURATION)),
    speedup=curves(bounds.SPEED),
    booking=maybe(texts),
    queue=st.sampled_from(["", KNOWN_QUEUE]),
    client_key=st.none(),
    pod_template=maybe(templates),
    data=maybe(data_sets),
    fixed=maybe(fixed_groups),
    export=maybe(exports),
)
speeds = whole(
    SizeSpeed,
    workers=sizes,
    per_second=within(bounds.RATE),
    reports=st.integers(1, REPORTS_MAX),
    generation=counts,
    losses=st.integers(0, LOSSES_MAX),
)
progresses = st.just(Progress()) | whole(
    Progress,
    step=maybe(counts),
    epoch=maybe(counts),
    samples_per_second=maybe(within(bounds.RATE)),
    last_commit_at=maybe(times),
    last_checkpoint_at=maybe(times),
    resize_seconds=maybe(within(bounds.SECONDS)),
    speeds=st.lists(speeds, max_size=3, unique_by=lambda speed: speed.workers).map(
        lambda each: tuple(sorted(each, key=lambda speed: speed.workers))
    ),
    scatter=st.builds(Scatter, within(bounds.FRACTION), st.integers(0, SCATTER_REPORTS_MAX)),
    fraction=maybe(within(bounds.FRACTION)),
    whole_slot_seconds=maybe(within(bounds.SLOT_SECONDS)),
    recent_share=within(bounds.SHARE),
    slot_seconds=within(bounds.SLOT_SECONDS),
    efficiency=maybe(within(bounds.EFFICIENCY)),
    metrics=st.lists(st.tuples(texts, within(bounds.METRIC)), max_size=3).map(tuple),
    reported_at=maybe(times),
    adopted=st.tuples(counts, counts),
)
closed_slots = st.lists(
    whole(ClosedSlot, slot=st.integers(0, 4095), closure=st.sampled_from(SlotClosure), detail=texts),
    max_size=3,
    unique_by=lambda each: each.slot,
).map(lambda slots: tuple(sorted(slots, key=lambda each: each.slot)))
nodes = whole(
    Node,
    name=node_names,
    host=texts,
    slots=st.integers(0, 4096),
    cpus=within(bounds.CPUS_HELD),
    memory_mib=st.integers(0, 2**40),
    labels=pairs,
    gpu_type=maybe(texts),
    has_gpus=st.booleans(),
    oversell=st.floats(1, 64),
    closed=texts,
    health=st.sampled_from(NodeHealth),
    intent=st.sampled_from(NodeIntent),
    failures=st.lists(st.builds(NodeFailure, job_ids, times, texts), max_size=3).map(tuple),
    quarantines=sizes,
    quarantined_until=times,
    closed_slots=closed_slots,
    accepted_faults=closed_slots,
    unlisted_since=times,
    version=st.just(0),
)
events = whole(
    Event,
    at=times,
    kind=st.sampled_from(EventKind),
    job_id=maybe(job_ids),
    worker_id=maybe(texts.map(WorkerId)),
    node=maybe(node_names),
    cause=texts,
    for_job=maybe(job_ids),
    detail=texts,
    amount=maybe(st.floats(-1e40, 1e40)),
)


bookings = whole(
    Booking,
    name=texts,
    start_at=st.floats(0, 1e9),
    end_at=st.floats(1.1e9, 1e12),
    workers=st.integers(1, 10**9),
    shape=shapes.map(lambda shape: replace(shape, oversell=False)),
    created_at=times,
    user=maybe(texts),
    priority_min=maybe(integers),
    state=st.just(BookingState.REQUESTED),
)


@st.composite
def workers(draw: st.DrawFn, job_id: JobId, ordinal: int, states: frozenset[WorkerState], replicas: int = 0) -> Worker:
    state = draw(st.sampled_from(sorted(states)))
    parts = {
        "id": worker_id(job_id, ordinal),
        "job_id": job_id,
        "ordinal": ordinal,
        "node": draw(places),
        "host": draw(texts),
        "slot_ids": tuple(draw(st.lists(st.integers(0, 4095), max_size=4, unique=True))),
        "created_at": draw(times),
        "cpus": draw(within(bounds.CPUS_HELD)),
        "memory_mib": draw(st.integers(0, 2**40)),
        "shared": draw(st.booleans()),
        "fixed_index": draw(maybe(st.integers(0, replicas - 1))) if replicas else None,
        "not_before": draw(times),
        "desired": draw(st.sampled_from(Desired)),
        "state": state,
        "rank": draw(maybe(st.just(ordinal))),
        "reported_generation": draw(counts),
        "endpoint": draw(maybe(texts)),
        "peer": draw(maybe(texts)),
        "started_at": draw(maybe(times)),
        "ready_at": draw(maybe(times)),
        "leave_reason": draw(st.sampled_from(LeaveReason)),
        "leave_for": draw(maybe(job_ids)),
        "stop_deadline": draw(maybe(times)),
        "ended_at": None if state.live else draw(times),
        "exit_code": draw(maybe(integers)),
        "exit_reason": draw(maybe(st.sampled_from(ExitReason))),
        "detail": draw(texts),
    }
    assert set(parts) == {part.name for part in fields(Worker)}
    return Worker(**parts)


LIVE = frozenset(state for state in WorkerState if state.live)
GONE = frozenset(WorkerState) - LIVE


@st.composite
def developments(draw: st.DrawFn, job: Job) -> tuple[Job, tuple[Worker, ...]]:
    """Anything that may become of a job, and workers of it that have ended."""
    state = draw(st.sampled_from(JobState))
    ordinals = sorted(draw(st.sets(st.integers(1, 10**6), max_size=4)))
    replicas = 0 if job.spec.fixed is None else job.spec.fixed.replicas
    live = tuple(draw(workers(job.id, n, LIVE, replicas)) for n in ordinals) if state.active else ()
    low, high = sorted(draw(st.tuples(sizes, sizes)))
    changed = {
        "priority": draw(integers),
        "min_workers": low,
        "max_workers": high,
        "queued_at": draw(times),
        "state": state,
        "held_from": draw(st.sampled_from(sorted(JOB_TRANSITIONS[JobState.HELD] - {JobState.CANCELLED})))
        if state is JobState.HELD
        else None,
        "waited_seconds": draw(times),
        "attempt": draw(counts),
        "retries_used": draw(counts),
        "last_failure_at": draw(maybe(times)),
        "not_before": draw(times),
        "next_ordinal": draw(st.integers(10**6 + 2, 2**62)),
        "generation": draw(counts),
        "published_size": draw(st.integers(0, 9)) if state.active else 0,
        "first_started_at": draw(maybe(times)),
        "started_at": draw(maybe(times)),
        "running_at": draw(maybe(times)),
        "finished_at": draw(times) if state.terminal else None,
        "last_resize_at": draw(maybe(times)),
        "served_slot_seconds": draw(times),
        "finishing": draw(st.booleans()),
        "master_port": draw(st.integers(0, 65535)),
        "wait_reason": draw(maybe(st.sampled_from(WaitReason))),
        "wait_for": draw(maybe(job_ids)),
        "stop_reason": draw(st.sampled_from(StopReason)),
        "stop_for": draw(maybe(job_ids)),
        "detail": draw(texts),
        "exit_code": draw(maybe(integers)),
        "reservation": tuple(draw(st.lists(st.tuples(places, sizes), max_size=3))),
        "reservation_shared": draw(st.booleans()),
        "fixed_reservation": tuple(draw(st.lists(st.tuples(places, sizes), max_size=3))),
        "fixed_hosts": draw(st.tuples(*[hosts] * replicas)) if state.active else (),
        "progress": draw(progresses),
        "workers": tuple(worker for worker in live if not worker.fixed),
        "fixed_workers": tuple(worker for worker in live if worker.fixed),
    }
    constant = {"id", "spec", "submitted_at", "nonce", "version"}
    assert set(changed) == {part.name for part in fields(Job)} - constant
    return replace(job, **changed), (draw(workers(job.id, 10**6 + 1, GONE)),)
