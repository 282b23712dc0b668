"""`sched report` over a long history: 100,000 jobs, a million workers and three million events in SQLite."""

import random
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from benchmarks.figure import Figure, median, percentile
from scheduler.engine.ports import Lease
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import NodeName, worker_id
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.node import Node
from scheduler.model.report import Window
from scheduler.model.worker import ExitReason, Worker, WorkerState
from scheduler.model.world import Changes
from scheduler.store.sqlstore import SqlStore

JOBS, WORKERS_EACH, EVENTS_EACH = 100_000, 10, 29
BATCH = 1_000
SPAN_SECONDS = 30 * 86400.0
CLASSES = (0, 10, 100, 1000)
BEGAN = 1_700_000_000.0
ENDED = BEGAN + SPAN_SECONDS
_HOUR = 3600.0


def run(jobs: int = JOBS) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        store = SqlStore(f"sqlite:///{Path(directory) / 'history.db'}", durable=False)
        store.upgrade()
        lease = store.acquire_lease("benchmark", BEGAN, 1e9)
        assert lease is not None
        _fill(store, lease, jobs)
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        hour = _seconds(lambda: store.usage(Window(ENDED - _HOUR, ENDED, 60), CLASSES))
        spans = {days: _seconds(partial(_report, store, days)) for days in (1, 7, 30)}
        alone = _commits(store, lease, lambda: False)
        asking = threading.Thread(target=_report, args=(store, 30))
        asking.start()
        beside = _commits(store, lease, asking.is_alive)
        asking.join()
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
        store.close()
    of = f"{jobs:,} jobs, {jobs * WORKERS_EACH:,} workers, {jobs * (EVENTS_EACH + 1):,} events over 30 days"
    return [
        Figure("utilization of the last hour, as `sched top` asks", hour, "s", note=of),
        *(Figure(f"report over {days} days", seconds, "s") for days, seconds in spans.items()),
        Figure("memory that they took at most", grown_kib / 1024, "MiB"),
        Figure("a commit of the engine, median", _ms(median(alone)), "ms"),
        Figure("the same beside a report over 30 days", _ms(median(beside)), "ms"),
        Figure("99 of 100 of these", _ms(percentile(beside, 0.99)), "ms"),
    ]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _report(store: SqlStore, days: float) -> None:
    store.report(Window(ENDED - days * 86400, ENDED, 84), CLASSES, 10)


def _seconds(ask: Callable[[], object]) -> float:
    began = time.monotonic()
    ask()
    return time.monotonic() - began


def _fill(store: SqlStore, lease: Lease, jobs: int) -> None:
    """As the engine writes it: jobs come, and end with their workers and events in the order of time."""
    draw = random.Random(7)
    nodes = tuple(Node(NodeName(f"n{number}"), f"n{number}", 8) for number in range(1000))
    store.commit(Changes(nodes=nodes), lease, BEGAN)
    for first in range(0, jobs, BATCH):
        at = BEGAN + SPAN_SECONDS * first / jobs
        span = SPAN_SECONDS * BATCH / jobs
        specs = [
            JobSpec(f"job-{number}", ("train",), f"user-{number % 300}", priority=draw.choice((0, 5, 20, 150)))
            for number in range(first, first + BATCH)
        ]
        store.submit(specs, at)
        inbox = store.take_inbox(BATCH)
        ended = [_ended(job, at + span * draw.random(), draw) for job in inbox.jobs]
        store.commit(
            Changes(
                jobs=tuple(job for job, _, _ in ended),
                workers=tuple(worker for _, workers, _ in ended for worker in workers),
                events=tuple(sorted((e for _, _, events in ended for e in events), key=lambda event: event.at)),
                intents_done=tuple(intent.id for intent in inbox.intents),
            ),
            lease,
            at,
        )


def _ended(job: Job, at: float, draw: random.Random) -> tuple[Job, list[Worker], list[Event]]:
    workers = [
        Worker(
            worker_id(job.id, ordinal),
            job.id,
            ordinal,
            NodeName("n1"),
            "n1",
            (0, 1),
            at + draw.random() * 1000,
            state=WorkerState.EXITED,
            exit_reason=ExitReason.DONE,
            exit_code=0,
            ended_at=at + 1000 + draw.random() * 2500,
        )
        for ordinal in range(1, WORKERS_EACH + 1)
    ]
    kinds = (
        (EventKind.JOB_STARTED, ""),
        (EventKind.JOB_SHRANK, StopReason.PREEMPTED.value),
        (EventKind.WORKER_ENDED, ExitReason.LOST.value),
        (EventKind.WORKER_READY, ""),
        (EventKind.GENERATION_PUBLISHED, ""),
    )
    events = [
        Event(at + number, kind, job.id, cause=cause, amount=draw.random() * 3600)
        for number, (kind, cause) in enumerate(islice(cycle(kinds), EVENTS_EACH))
    ]
    done = replace(
        job, state=JobState.SUCCEEDED, finished_at=at + 3600, wait_reason=None, next_ordinal=WORKERS_EACH + 1
    )
    return done, workers, events


def _commits(store: SqlStore, lease: Lease, go_on: Callable[[], bool]) -> list[float]:
    """Seconds of small commits, while it holds, and at least a hundred of them."""
    seconds: list[float] = []
    change = Changes(events=(Event(ENDED, EventKind.JOB_CHANGED),))
    while len(seconds) < 100 or go_on():
        seconds.append(_seconds(lambda: store.commit(change, lease, ENDED)))
    return seconds
