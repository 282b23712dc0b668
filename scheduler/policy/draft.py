"""A plan in the making: what was decided so far, and the ledger that knows what that leaves."""

from collections.abc import Iterable

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobState, Placement, StopReason
from scheduler.model.plan import Action, Grow, Plan, Release, Reserve, Shrink, Start, StopJob, Waiting
from scheduler.model.worker import Desired, LeaveReason, Worker
from scheduler.model.world import World
from scheduler.policy.ledger import Ledger
from scheduler.policy.order import Order
from scheduler.policy.place import Places, Spots

#: Jobs whose size the planner may change.
RESIZABLE_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


class Draft:
    """Decisions so far. Every method keeps the ledger in step with them."""

    def __init__(self, world: World, now: float, settings: PolicySettings) -> None:
        self.world = world
        self.now = now
        self.settings = settings
        self.order = Order(now, settings)
        self.ledger = Ledger(world)
        self.places = Places(world, self.ledger)
        #: Grows with every change that may let a job fit that did not fit before.
        self.openings = 0
        self.starts: dict[JobId, Spots] = {}
        self.grows: dict[JobId, Spots] = {}
        self.shrinks: dict[JobId, list[Shrink]] = {}
        self.stops: dict[JobId, StopJob] = {}
        #: What is held for queued jobs now, in queue order of their taking it.
        self.holding: dict[JobId, Placement] = {}
        self.waiting: dict[JobId, Waiting] = {}
        self.next_look_at: float | None = None
        self._staying: dict[JobId, tuple[Worker, ...]] = {}
        self._count_who_leaves()
        for job in world.queued.values():
            if job.reservation:
                self.hold(job, job.reservation)

    def staying(self, job: Job) -> tuple[Worker, ...]:
        """The active job's workers that nobody asked to leave, in the world or in this draft; oldest first."""
        return self._staying[job.id]

    def touched(self, job: Job) -> bool:
        """Whether the draft changes the size of this active job."""
        return job.id in self.shrinks or job.id in self.stops or job.id in self.grows

    def resizable(self) -> Iterable[Job]:
        """Active jobs whose size may change, by id."""
        jobs = (job for job in self.world.active.values() if job.state in RESIZABLE_STATES and not job.finishing)
        return sorted(jobs, key=lambda job: job.id)

    def start(self, job: Job, spots: Spots) -> None:
        self.starts[job.id] = dict(spots)
        self._occupy(job, spots)

    def grow(self, job: Job, spots: Spots) -> None:
        """More workers for a running job, or for one that this draft starts."""
        total = self.starts[job.id] if job.id in self.starts else self.grows.setdefault(job.id, {})
        for i, count in spots.items():
            total[i] = total.get(i, 0) + count
        self._occupy(job, spots)

    def shrink(self, job: Job, workers: tuple[Worker, ...], reason: LeaveReason, for_job: JobId | None = None) -> None:
        ids = {worker.id for worker in workers}
        self._staying[job.id] = tuple(w for w in self.staying(job) if w.id not in ids)
        leaving = tuple(w.id for w in workers)
        self.shrinks.setdefault(job.id, []).append(Shrink(job.id, leaving, reason, for_job))
        self._leave(workers)

    def stop(self, job: Job, reason: StopReason, for_job: JobId | None = None) -> None:
        """Stop the job; what the draft shrank of it before is part of that."""
        self._leave(self.staying(job))
        self._staying[job.id] = ()
        self.shrinks.pop(job.id, None)
        self.stops[job.id] = StopJob(job.id, reason, for_job)

    def hold(self, job: Job, placement: Placement) -> None:
        self.holding[job.id] = placement
        self.ledger.hold(placement, job.shape)

    def unhold(self, job: Job) -> Placement:
        placement = self.holding.pop(job.id)
        self.ledger.hold(placement, job.shape, -1)
        return placement

    def look_at(self, when: float) -> None:
        """A plan made then may differ although nothing else happened."""
        if when > self.now and (self.next_look_at is None or when < self.next_look_at):
            self.next_look_at = when

    def plan(self) -> Plan:
        """The plan: what frees comes first, then reservations, then what takes."""
        actions: list[Action] = [self.stops[job_id] for job_id in sorted(self.stops)]
        for job_id in sorted(self.shrinks):
            actions += self.shrinks[job_id]
        actions += self._reservation_actions()
        actions += [Start(job_id, self.places.named(spots)) for job_id, spots in self.starts.items()]
        actions += [Grow(job_id, self.places.named(spots)) for job_id, spots in self.grows.items()]
        return Plan(tuple(actions), self.waiting, self.next_look_at)

    def _reservation_actions(self) -> list[Action]:
        actions: list[Action] = [
            Release(job.id)
            for job in self.world.all_jobs()
            if job.reservation and job.id not in self.holding and job.id not in self.starts
        ]
        for job_id, placement in self.holding.items():
            if self.world.queued[job_id].reservation != placement:
                actions.append(Reserve(job_id, placement))
        return actions

    def _occupy(self, job: Job, spots: Spots) -> None:
        for i, count in spots.items():
            self.ledger.take(i, job.shape, count)

    def _leave(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            self.ledger.leave(worker)
        self.openings += 1

    def _count_who_leaves(self) -> None:
        for job in self.world.active.values():
            staying = () if job.state is JobState.STOPPING else job.workers
            if not all(worker.desired is Desired.RUN for worker in staying):
                staying = job.wanted_workers
            self._staying[job.id] = staying
            if len(staying) < len(job.workers):
                ids = {worker.id for worker in staying}
                for worker in job.workers:
                    if worker.id not in ids:
                        self.ledger.leave(worker)
        for stray in self.world.strays.values():
            self.ledger.leave(stray)
