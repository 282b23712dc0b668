"""Published state: host lists and worker sets of running jobs, kept in memory for the HTTP layer.

The engine posts after each commit; readers on any thread see immutable values and never wait for a tick.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto

from scheduler.model.hosts import HostList, host_list
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.plan import QueueShare
from scheduler.model.world import World


@dataclass(frozen=True, slots=True)
class Posting:
    """The posting for workers of one active job. `generation` 0, `text` and `body` empty: nothing is published now."""

    job_id: JobId
    state: JobState
    generation: int
    #: discover_hosts as Horovod wants it.
    text: bytes
    #: discover_hosts as JSON.
    body: bytes
    #: Live workers; any other one is fenced.
    live: frozenset[WorkerId]
    leaving: frozenset[WorkerId]

    @property
    def etag(self) -> str:
        return f'"{self.job_id}-{self.generation}"'


class Known(Enum):
    """What is known of a job id without a posting."""

    #: No answer yet: the world is not loaded.
    NOT_LOADED = auto()
    WAITING = auto()
    ENDED = auto()
    UNKNOWN = auto()
    #: Its row cannot be read, so that nothing is decided about it; its workers go on.
    UNREADABLE = auto()


Subscriber = Callable[[frozenset[JobId]], None]


class Board:
    """The published state of the world. One writer (the engine), any number of readers."""

    def __init__(self) -> None:
        self.world: World | None = None
        #: What queues may have and have, as the last plan saw it; empty where there are none, or this engine plans not.
        self.shares: tuple[QueueShare, ...] = ()
        self._highest_job_id = 0
        self._highest_expected = 0
        self._postings: dict[JobId, Posting] = {}
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have `subscriber` called, on the engine's thread, with the jobs whose posting changed."""
        self._subscribers.append(subscriber)

    def posting(self, job_id: JobId) -> Posting | None:
        return self._postings.get(job_id)

    def known(self, job_id: JobId) -> Known:
        """Why the job has no posting."""
        if self.world is None:
            return Known.NOT_LOADED
        if self.world.job(job_id) is not None or job_id in self.world.held:
            return Known.WAITING
        if self.world.unread(job_id) is not None:
            return Known.UNREADABLE
        if 0 < job_id <= self._highest_job_id:
            return Known.ENDED
        return Known.WAITING if 0 < job_id <= self._highest_expected else Known.UNKNOWN

    def nonce_of(self, job_id: JobId) -> str | None:
        """The nonce of a job that has not ended; None where none is known here."""
        job = self.world.job(job_id) or self.world.held.get(job_id) if self.world is not None else None
        return None if job is None else job.nonce

    def expect(self, job_id: JobId) -> None:
        """Record a stored job as waiting, until a tick takes it."""
        self._highest_expected = max(self._highest_expected, job_id)

    def load(self, world: World, highest_job_id: int) -> None:
        """Replace everything by a freshly loaded world."""
        postings = {job.id: post(job) for job in world.active.values()}
        postings.update((job.id, posting) for job in world.held.values() if (posting := _post_held(job)) is not None)
        gone = frozenset(self._postings) - frozenset(postings)
        self._postings = postings
        self._highest_job_id = max(self._highest_job_id, highest_job_id)
        self.world = world
        self._notify(frozenset(postings) | gone)

    def update(self, world: World, jobs: Iterable[Job]) -> None:
        """Post the jobs that a commit changed."""
        changed = []
        for job in jobs:
            self._highest_job_id = max(self._highest_job_id, job.id)
            before = self._postings.get(job.id)
            if job.state is JobState.HELD:
                continue  # its workers go on with what they know
            if not job.state.active:
                if before is not None:
                    del self._postings[job.id]
                    changed.append(job.id)
                continue
            known = self.world.active.get(job.id) if self.world is not None and before is not None else None
            if known is not None and _posted(known) == _posted(job):
                continue  # mostly its progress changed
            after = post(job)
            if after != before:
                self._postings[job.id] = after
                changed.append(job.id)
        self.world = world
        self._notify(frozenset(changed))

    def clear(self) -> None:
        """Stop answering: this engine does not lead (any more), or does not know the world."""
        gone = frozenset(self._postings)
        self.world = None
        self.shares = ()
        self._postings = {}
        self._notify(gone)

    def _notify(self, changed: frozenset[JobId]) -> None:
        if changed:
            for subscriber in self._subscribers:
                subscriber(changed)


def post(job: Job) -> Posting:
    """The posting of an active job."""
    hosts = host_list(job)
    return Posting(
        job.id,
        job.state,
        hosts.generation if hosts else 0,
        hosts.text().encode() if hosts else b"",
        _body(job, hosts) if hosts else b"",
        frozenset(w.id for w in job.all_workers),
        frozenset(w.id for w in job.all_leaving),
    )


def _posted(job: Job) -> tuple[object, ...]:
    """All that the posting of an active job is made from."""
    workers = (job.workers, job.fixed_workers)
    return (job.state, job.generation, job.published_size, *workers, job.min_workers, job.max_workers)


def _post_held(job: Job) -> Posting | None:
    """The posting of a held job as it was before; None: it cannot be told, or the job has no workers."""
    if not job.all_workers or job.held_from is None:
        return None
    with suppress(Exception):  # it is held since something about it fails: it has no list then, and others go on
        return post(replace(job, state=job.held_from))
    return None


def _body(job: Job, hosts: HostList) -> bytes:
    document = {
        "job": job.id,
        "generation": hosts.generation,
        "workers": [
            {"id": m.id, "rank": m.rank, "host": m.host, "slots": m.slots, "endpoint": m.endpoint, "peer": m.peer}
            for m in hosts.members
        ],
        "rendezvous": hosts.rendezvous,
        "leaving": [{"id": w.id, "until": w.stop_deadline} for w in job.leaving],
        "min": job.min_workers,
        "max": job.max_workers,
    }
    return json.dumps(document, separators=(",", ":")).encode()
