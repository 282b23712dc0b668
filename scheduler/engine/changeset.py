"""The changes of one tick while they are being made: an overlay over an immutable world.

Functions of the engine take a changeset and put new values into it. Nothing outside sees them until its `changes` were
committed; a tick that fails throws its changeset away.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from scheduler.model.booking import Booking, BookingState
from scheduler.model.data_queue import DataQueue
from scheduler.model.event import Event, EventKind
from scheduler.model.evolve import evolve
from scheduler.model.foreign import Awaited, ForeignUse
from scheduler.model.hosts import HostList
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.job import Job, Progress, check_job_transition
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.queue import Queue
from scheduler.model.stray import Stray
from scheduler.model.unreadable import Unreadable
from scheduler.model.worker import ExitReason, Worker, WorkerState, check_worker_transition
from scheduler.model.world import Changes, CrowdedSlot, World

NO_CHANGES = Changes()


class Changeset:
    """An overlay of changed rows at one moment (`now`)."""

    def __init__(
        self,
        world: World,
        now: float,
        queues: Mapping[JobId, DataQueue] = MappingProxyType({}),
        begun: Changes = NO_CHANGES,
    ) -> None:
        """`queues`: the present data of jobs for which it may matter, read-only.

        `begun`: changes that are in the world already but not stored yet: what this tick holds.
        """
        self.base = world
        self.now = now
        self.queues = queues
        self._jobs: dict[JobId, Job] = {}
        #: Those of them of which nothing but the progress has changed.
        self._progressed: set[JobId] = set()
        self._workers: dict[WorkerId, Worker] = {}
        #: New values of held jobs; nothing but `engine.absorb.held` sees them.
        self._held: dict[JobId, Job] = {job.id: job for job in begun.jobs}
        #: Jobs that were released in this tick.
        self.released: list[JobId] = []
        self._nodes: dict[NodeName, Node] = {node.name: node for node in begun.nodes}
        self._forgotten: dict[NodeName, Node] = {}
        self._published: dict[JobId, HostList] = {}
        self._bookings: dict[str, Booking] = {booking.name: booking for booking in begun.bookings}
        #: As `World.ahead_seconds`; None: as it was.
        self.ahead_seconds: float | None = None
        #: Whether anything changed that a plan depends on.
        self.matters = bool(begun)
        self.events: list[Event] = list(begun.events)
        self.budgets_told: list[tuple[str, int]] = []
        self.intents_done: list[int] = list(begun.intents_done)
        #: Jobs that were submitted and cannot be read.
        self.unread: list[JobId] = []

    def job(self, job_id: JobId) -> Job | None:
        """The job as it is now, ended ones of this tick included."""
        return self._jobs.get(job_id) or self.base.job(job_id)

    def the_job(self, job_id: JobId) -> Job:
        """A job that is known to exist."""
        job = self.job(job_id)
        if job is None:
            raise KeyError(job_id)
        return job

    def node(self, name: NodeName) -> Node | None:
        if name in self._forgotten:
            return None
        return self._nodes.get(name) or self.base.nodes.get(name)

    def booking(self, name: str) -> Booking | None:
        """The planned or open booking."""
        booking = self._bookings.get(name) or self.base.bookings.get(name)
        return booking if booking is not None and booking.state is not BookingState.OVER else None

    def bookings(self) -> list[Booking]:
        """Planned and open bookings, by name."""
        names = sorted({*self.base.bookings, *self._bookings})
        return [booking for name in names if (booking := self.booking(name)) is not None]

    def active_jobs(self) -> Iterator[Job]:
        """Jobs that may have workers, as they are now; those that changed in this tick included."""
        for job_id, job in self.base.active.items():
            current = self._jobs.get(job_id)
            if current is None:
                yield job
            elif current.state.active:
                yield current
        for job_id, job in list(self._jobs.items()):
            if job_id not in self.base.active and job.state.active:
                yield job

    def held_job(self, job_id: JobId) -> Job | None:
        """The held job as it is now; None: it is not held."""
        job = self._held.get(job_id) or self.base.held.get(job_id)
        return job if job is not None and job_id not in self._jobs else None

    def held_jobs(self) -> list[Job]:
        """Held jobs as they are now."""
        return [job for job_id in {**self.base.held, **self._held} if (job := self.held_job(job_id)) is not None]

    def put_held(self, job: Job) -> None:
        """Put a new value of a held job, or a new job that is held from the beginning."""
        self.matters = True
        self._held[job.id] = job

    def put(self, job: Job) -> Job:
        """Put a new value of a job, or a new job."""
        self.matters = True
        self._jobs[job.id] = job
        self._progressed.discard(job.id)
        self._held.pop(job.id, None)
        return job

    def put_progress(self, job: Job, progress: Progress) -> None:
        """Put reported progress; it matters for planning only where the job's speed is known better now."""
        before = job.progress
        self.matters = self.matters or _speeds(before) != _speeds(progress)
        if job.id not in self._jobs:
            self._progressed.add(job.id)
        self._jobs[job.id] = evolve(job, progress=progress)

    @property
    def progressed(self) -> bool:
        """Whether any job has told its progress."""
        return bool(self._progressed)

    def see_strays(self, strays: Mapping[WorkerId, Stray]) -> None:
        """Put the strays of this tick's observation, which differ from those before."""
        self.matters = True
        self.base = self.base.with_strays(strays)

    def see_crowded(self, crowded: Mapping[NodeName, Mapping[int, CrowdedSlot]]) -> None:
        """Put the crowded slots of this tick's observation."""
        if crowded != self.base.crowded:
            self.matters = True
            self.base = self.base.with_crowded(crowded)

    def see_foreign(self, foreign: Mapping[NodeName, ForeignUse], demands: tuple[Awaited, ...]) -> None:
        """Put the foreign use and demands of this tick's observation."""
        if foreign != self.base.foreign or demands != self.base.demands:
            self.matters = True
            self.base = self.base.with_foreign(foreign, demands)

    def see_queues(self, queues: Sequence[Queue]) -> None:
        """Put the queues as users have set them."""
        by_path = {queue.path: queue for queue in queues}
        if by_path != self.base.queues:
            self.matters = True
            self.base = self.base.with_queues(by_path)

    def see_spent(self, spent: frozenset[str]) -> None:
        """Put the queues whose budget is spent."""
        if spent != self.base.spent:
            self.matters = True
            self.base = self.base.with_spent(spent)

    def see_unreadable(self, rows: Sequence[Unreadable]) -> None:
        """Put rows that could not be read in this tick."""
        if rows:
            self.base = self.base.with_unreadable(rows)

    def move(self, job: Job, state: JobState) -> Job:
        """Put the job into another state; raises `IllegalTransition` where its table has no such edge."""
        check_job_transition(job, state)
        return self.put(evolve(job, state=state))

    def put_node(self, node: Node) -> Node:
        """Put a new value of a node, or a new node."""
        self.matters = True
        self._nodes[node.name] = node
        return node

    def forget_node(self, node: Node) -> None:
        """Remove a node that nothing names any more."""
        self.matters = True
        self._nodes.pop(node.name, None)
        self._forgotten[node.name] = node

    def put_booking(self, booking: Booking) -> None:
        """Put a new value of a booking, or a new booking."""
        self.matters = True
        self._bookings[booking.name] = booking

    def put_worker(self, worker: Worker) -> Job:
        """Put a new value of one of its job's live workers, or a new worker."""
        return self.put_workers(self.the_job(worker.job_id), [worker])

    def put_workers(self, job: Job, workers: Sequence[Worker]) -> Job:
        """Put a new value of a job, with new values of some of its live workers, or with new workers."""
        self._workers.update((worker.id, worker) for worker in workers)
        fixed = [worker for worker in workers if worker.fixed]
        if fixed:
            job = evolve(job, fixed_workers=_with(fixed, job.fixed_workers))
        if len(fixed) < len(workers):
            job = evolve(job, workers=_with([worker for worker in workers if not worker.fixed], job.workers))
        return self.put(job)

    def new_workers(self) -> list[Worker]:
        """Workers that were added since the base and have not ended."""
        new = []
        for worker in self._workers.values():
            before = self.base.job(worker.job_id)
            if worker.state is WorkerState.PENDING and (before is None or before.worker(worker.id) is None):
                new.append(worker)
        return new

    def move_worker(self, worker: Worker, state: WorkerState) -> Worker:
        """Put a live worker into another live state."""
        check_worker_transition(worker, state)
        moved = evolve(
            worker,
            state=state,
            started_at=self.now if worker.started_at is None else worker.started_at,
            ready_at=self.now if state is WorkerState.READY else None,
        )
        self.put_worker(moved)
        return moved

    def end_worker(
        self, worker: Worker, state: WorkerState, reason: ExitReason, exit_code: int | None, detail: str = ""
    ) -> Worker:
        """Take a worker that is gone out of its job, and keep its last value for history."""
        check_worker_transition(worker, state)
        ended = evolve(
            worker, state=state, exit_reason=reason, exit_code=exit_code, ended_at=self.now, rank=None, detail=detail
        )
        self._workers[worker.id] = ended
        job = self.the_job(worker.job_id)
        if worker.fixed:
            self.put(evolve(job, fixed_workers=tuple(w for w in job.fixed_workers if w.id != worker.id)))
        else:
            served = 0.0 if worker.started_at is None else max(self.now - worker.started_at, 0.0) * len(worker.slot_ids)
            left = tuple(w for w in job.workers if w.id != worker.id)
            self.put(evolve(job, workers=left, served_slot_seconds=job.served_slot_seconds + served))
        self.event(
            EventKind.WORKER_ENDED,
            job_id=job.id,
            worker_id=worker.id,
            node=worker.node,
            cause=reason.value,
            for_job=worker.leave_for,
            detail=detail or (f"exit code {exit_code}" if exit_code is not None else ""),
            amount=_lost_slot_seconds(job, worker, reason, self.now),
        )
        return ended

    def keep_ended(self, worker: Worker) -> None:
        """Keep the last value of a worker of a job that was held, for history."""
        self._workers[worker.id] = worker

    def publish(self, hosts: HostList) -> None:
        self._published[hosts.job_id] = hosts

    def event(
        self,
        kind: EventKind,
        *,
        job_id: JobId | None = None,
        worker_id: WorkerId | None = None,
        node: NodeName | None = None,
        cause: str = "",
        for_job: JobId | None = None,
        detail: str = "",
        amount: float | None = None,
    ) -> None:
        self.events.append(Event(self.now, kind, job_id, worker_id, node, cause, for_job, detail, amount))

    def changes(self) -> Changes:
        """The changes to commit: rows with the version that they were read with."""
        return Changes(
            jobs=(*self._jobs.values(), *self._held.values()),
            progressed=frozenset(self._progressed),
            workers=tuple(self._workers.values()),
            nodes=tuple(self._nodes.values()),
            forgotten=tuple(self._forgotten.values()),
            events=tuple(self.events),
            published=tuple(self._published.values()),
            intents_done=tuple(self.intents_done),
            unread=tuple(self.unread),
            bookings=tuple(self._bookings.values()),
            ahead_seconds=self.ahead_seconds,
            budgets_told=tuple(self.budgets_told),
        )

    def with_usage(self) -> World:
        """The world with what workers hold of nodes as it is now; its jobs are as they were."""
        usage, held_again = self.base.usage_after((*self._jobs.values(), *self._held.values()))
        return evolve(self.base, usage=usage, held_again=held_again)

    def world(self) -> World:
        """The world as it would be if the changeset were committed now, versions aside."""
        return self.base.evolve(
            Changes(
                jobs=(*self._jobs.values(), *self._held.values()),
                progressed=frozenset(self._progressed),
                nodes=tuple(self._nodes.values()),
                forgotten=tuple(self._forgotten.values()),
                bookings=tuple(self._bookings.values()),
            )
        )


def _with(new: Sequence[Worker], before: tuple[Worker, ...]) -> tuple[Worker, ...]:
    """Workers in their order, of which some are new or have new values."""
    by_ordinal = {worker.ordinal: worker for worker in (*before, *new)}
    return tuple(by_ordinal[ordinal] for ordinal in sorted(by_ordinal))


def committed(changes: Changes) -> Changes:
    """The changes as the store has them after the commit: each job's and node's version is one higher."""
    return evolve(
        changes,
        jobs=tuple(evolve(job, version=job.version + 1) for job in changes.jobs),
        nodes=tuple(evolve(node, version=node.version + 1) for node in changes.nodes),
    )


_LOSING = frozenset(ExitReason) - {ExitReason.ASKED, ExitReason.DONE, ExitReason.DRAINED, ExitReason.REPLACE}


def _lost_slot_seconds(job: Job, worker: Worker, reason: ExitReason, now: float) -> float | None:
    """Lost work of a worker that ended badly, since the job's last save or the worker's start."""
    if reason not in _LOSING or worker.started_at is None:
        return None
    since = max(worker.started_at, job.unsaved_since or 0.0)
    return max(0.0, now - since) * len(worker.slot_ids)


def _speeds(progress: Progress) -> tuple[object, ...]:
    """Speeds used for planning, and the generation in which they were last found."""
    known = ((speed.workers, speed.per_second, speed.generation) for speed in progress.speeds)
    return (progress.resize_seconds, *known)
