"""Worlds built directly from model values, and a tiny engine that enacts plans on them at once.

`tests.world.World` takes the same words and runs the real engine and store; here every moment can be written down,
also one that no engine would come to, and a plan takes microseconds.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from scheduler.config import PolicySettings
from scheduler.model.booking import Booking, BookingState
from scheduler.model.foreign import Awaited, Demand, ForeignUse
from scheduler.model.ids import JobId, NodeName, worker_id
from scheduler.model.job import Job, Placement, Progress
from scheduler.model.job_state import STOP_TARGETS, JobState, StopReason, WaitReason
from scheduler.model.node import Node, NodeHealth, NodeIntent
from scheduler.model.node_usage import mask_of
from scheduler.model.plan import Action, Grow, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.queue import ANY_GPU, Queue
from scheduler.model.shape import WorkerShape
from scheduler.model.speed import Scatter, SizeSpeed
from scheduler.model.stray import Stray
from scheduler.model.worker import Desired, LeaveReason, Worker, WorkerState
from scheduler.model.world import CrowdedSlot, World, sharers
from scheduler.policy.checks.invariants import check_plan, check_world
from scheduler.policy.planner import plan
from tests.specs import spec_of

NOW = 1_000_000.0
#: Speeds without noise.
EXACT = Scatter(0.0)
LONG_AGO = NOW - 1000.0
#: What a job is described with beside its spec.
JOB_FIELDS = {field.name for field in fields(Job)} - {
    "id",
    "spec",
    "priority",
    "min_workers",
    "max_workers",
    "workers",
    "progress",
}


class Cluster:
    """A world that is written down line by line: `c.node("a", 8)`, `c.running(1, on={"a": 4}, workers=(2, 8))`."""

    def __init__(self, settings: PolicySettings | None = None, now: float = NOW) -> None:
        self.settings = settings or PolicySettings()
        self.now = now
        self.jobs: dict[JobId, Job] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.strays: dict[Any, Stray] = {}
        self.crowded: dict[NodeName, dict[int, CrowdedSlot]] = {}
        self.bookings: list[Booking] = []
        self.foreign: dict[NodeName, ForeignUse] = {}
        self.demands: list[Awaited] = []
        self.queues: list[Queue] = []
        self.spent: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        lines = [f"{n.name}: {n.slots} slots x{n.oversell} {n.gpu_type} {n.intent}" for n in self.nodes.values()]
        lines += [f"queue {q.path}: {_told(q)}" for q in self.queues]
        for j in self.jobs.values():
            spots = [w.node + ("+" if w.shared else "") + ("" if w.wanted else "!") for w in j.workers]
            lines.append(
                f"job {j.id} {j.state} prio {j.priority} {j.min_workers}-{j.max_workers} x{j.shape.slots} {spots} "
                f"preemptible={j.spec.preemptible} surplus={j.spec.surplus_preemptible} "
                f"limit={j.spec.time_limit_seconds} submitted={j.submitted_at - NOW} "
                f"{j.wait_reason} {j.wait_for} reserved={j.reservation} gpu_type={j.shape.gpu_type} "
                f"queue={j.spec.queue!r} user={j.spec.user!r}"
            )
        return "Cluster\n  " + "\n  ".join(lines)

    def node(self, name: str, slots: int = 8, **fields: Any) -> "Cluster":
        labels = tuple(sorted(fields.pop("labels", {}).items()))
        self.nodes[NodeName(name)] = Node(NodeName(name), f"host-{name}", slots, labels=labels, **fields)
        return self

    def booked(
        self, name: str, workers: int, start: float, end: float, shape: WorkerShape | None = None, **fields: Any
    ) -> "Cluster":
        """Add a planned booking; `start` and `end` are seconds from now."""
        shape = shape or WorkerShape()
        window = (self.now + start, self.now + end)
        planned = Booking(name, *window, workers, shape, LONG_AGO, state=BookingState.PLANNED, **fields)
        self.bookings.append(planned)
        return self

    def queue(
        self,
        path: str,
        guarantee: int | dict[str, int] | None = None,
        limit: int | dict[str, int] | None = None,
        **fields: Any,
    ) -> "Cluster":
        """A queue; guarantee and limit are slots of any GPU type, or by type."""
        self.queues.append(Queue(path, LONG_AGO, guarantee=_by_type(guarantee), limit=_by_type(limit), **fields))
        return self

    def demand(self, name: str, slots: int = 1, *, ignored_until: float | None = None, **fields: Any) -> "Cluster":
        """A process of others that waits for room; `nodes=`: the names of those that it may use."""
        nodes = fields.pop("nodes", None)
        allowed = frozenset(map(NodeName, nodes)) if nodes is not None else None
        demand = Demand(name, WorkerShape(slots, **fields), allowed)
        self.demands.append(Awaited(demand, ignored_until=ignored_until))
        return self

    def waiting(self, number: int, **fields: Any) -> "Cluster":
        """A queued job, as `tests.specs.spec_of` describes it, and any field of Job."""
        self.jobs[JobId(number)] = self._job(number, fields)
        return self

    def running(self, number: int, on: dict[str, int], **fields: Any) -> "Cluster":
        """A RUNNING job whose members stand on these nodes, in this order; `leaving=n` of the youngest are leaving.

        `shared=True`: on shared slots. `fixed_on`: where its fixed group stands. `slots`: which each of them holds,
        whoever else does.
        """
        fixed_on = fields.pop("fixed_on", {})
        slots = fields.pop("slots", None)
        shared = fields.pop("shared", False)
        leaving = fields.pop("leaving", 0)
        standby = fields.pop("standby", 0)
        leave_for = fields.pop("leave_for", None)
        fields = {"state": JobState.RUNNING, "started_at": LONG_AGO, "wait_reason": None, **fields}
        job = self._job(number, fields)
        job = replace(job, fixed_workers=self._fixed_on(job, tuple(fixed_on.items()), LONG_AGO))
        self.jobs[job.id] = job
        first = len(job.fixed_workers) + 1
        names = [name for name, count in on.items() for _ in range(count)]
        workers = self.workers_on(job, names, LONG_AGO, shared, first, slots)
        for k in range(len(workers)):
            if k >= len(workers) - leaving:
                workers[k] = replace(
                    workers[k],
                    desired=Desired.STOP,
                    rank=None,
                    leave_reason=LeaveReason.PREEMPTED,
                    leave_for=leave_for,
                    stop_deadline=self.now + 30,
                )
            elif k >= len(workers) - leaving - standby:
                workers[k] = replace(workers[k], rank=None, state=WorkerState.STARTING)
        next_ordinal = first + len(workers)
        self.jobs[job.id] = replace(job, workers=tuple(workers), next_ordinal=next_ordinal, generation=1, attempt=1)
        return self

    def stray(self, number: int, node: str, slots: Sequence[int]) -> "Cluster":
        key = worker_id(JobId(number), 1)
        self.strays[key] = Stray(key, JobId(number), NodeName(node), tuple(slots))
        return self

    def crowd(self, node: str, slot: int, *, leave_at: float = NOW, reopen_at: float | None = None) -> "Cluster":
        """A slot whose load is above a limit, or was (`reopen_at`)."""
        name = NodeName(node)
        slots = {**self.crowded.get(name, {}), slot: CrowdedSlot(leave_at, reopen_at)}
        self.crowded = {**self.crowded, name: slots}
        return self

    def slots_used(self) -> dict[str, int]:
        world = self.world()
        return {name: world.used(name).slot_mask for name in self.nodes}

    def workers_on(
        self,
        job: Job,
        names: Sequence[str],
        at: float,
        shared: bool,
        first: int = 1,
        slots: Sequence[int] | None = None,
    ) -> list[Worker]:
        """Ready members on these nodes, on their lowest free slots, or shared on those with the fewest sharers."""
        used = self.slots_used()
        sharing = Counter((who.node, slot) for who in sharers(self.world()) for slot in who.slot_ids)
        workers = []
        for k, name in enumerate(names):
            node = self.nodes[NodeName(name)]
            if slots is not None:
                free = list(slots)
            elif shared:
                open_slots = set(range(node.slots)) - self.crowded.get(node.name, {}).keys()
                free = sorted(open_slots, key=lambda s: sharing[node.name, s])[: job.shape.slots]
                sharing.update((node.name, slot) for slot in free)
            else:
                free = [s for s in range(node.slots) if not used[node.name] >> s & 1][: job.shape.slots]
                used[node.name] |= mask_of(tuple(free))
            assert len(free) == job.shape.slots, f"no room for job {job.id} on {name}"
            workers.append(
                Worker(
                    worker_id(job.id, first + k),
                    job.id,
                    first + k,
                    node.name,
                    node.host,
                    tuple(free),
                    at,
                    cpus=job.shape.cpus,
                    memory_mib=job.shape.memory_mib,
                    shared=shared,
                    state=WorkerState.READY,
                    rank=len(job.wanted_workers) + k,
                    started_at=at,
                    ready_at=at,
                )
            )
        return workers

    def _fixed_on(self, job: Job, placement: Placement | tuple[tuple[str, int], ...], at: float) -> tuple[Worker, ...]:
        """The job's fixed group on these nodes."""
        if job.spec.fixed is None:
            return ()
        alike = replace(job, spec=replace(job.spec, shape=job.spec.fixed.shape))
        names = [name for name, count in placement for _ in range(count)]
        workers = self.workers_on(alike, names, at, False, job.next_ordinal)
        return tuple(replace(worker, rank=None, fixed_index=k) for k, worker in enumerate(workers))

    def start_fixed(self, job_id: JobId, placement: Placement) -> None:
        """The job's fixed group comes to run there."""
        job = self.jobs[job_id]
        workers = self._fixed_on(job, placement, self.now)
        ordinal = job.next_ordinal + len(workers)
        self.jobs[job_id] = replace(job, state=JobState.RUNNING, fixed_workers=workers, next_ordinal=ordinal)

    def world(self) -> World:
        world = World.of(self.jobs.values(), self.nodes.values(), self.bookings, queues=self.queues)
        world = world.with_strays(self.strays).with_crowded(self.crowded)
        return world.with_foreign(self.foreign, tuple(self.demands)).with_spent(self.spent)

    def plan(self, *, outside_bounds: bool = False) -> Plan:
        """The plan for now, once world and plan were found to hold the invariants; `outside_bounds`: but for sizes."""
        world = self.world()
        broken = check_world(world, self.now)
        assert [violation for violation in broken if not (outside_bounds and violation.invariant == "I2")] == []
        made = plan(world, self.now, self.settings)
        assert check_plan(world, made, self.now, self.settings) == []
        assert plan(world, self.now, self.settings) == made, "the same world gives the same plan"
        return made

    def actions(self) -> list[Action]:
        return list(self.plan().actions)

    def step(self, seconds: float = 0.0) -> Plan:
        """Let time pass, plan, and do at once what the plan says: newcomers are ready, leavers are gone."""
        self.now += seconds
        made = self.plan()
        enact(self, made)
        return made

    def settle(self, rounds: int = 20, seconds: float = 60.0) -> int:
        """Step until nothing changes; gives the number of rounds that changed something."""
        for k in range(rounds):
            before = dict(self.jobs)
            made = self.step(seconds)
            if not made.actions and self.jobs == before:
                return k
        raise AssertionError(f"not settled after {rounds} rounds: {made}")

    def finish(self, number: int) -> None:
        """The job ends with success."""
        del self.jobs[JobId(number)]

    def size(self, number: int) -> int:
        return len(self.jobs[JobId(number)].wanted_workers)

    def reason(self, number: int) -> WaitReason | None:
        return self.jobs[JobId(number)].wait_reason

    def _job(self, number: int, fields: dict[str, Any]) -> Job:
        progress = Progress(
            last_commit_at=fields.pop("last_commit_at", None),
            last_checkpoint_at=fields.pop("last_checkpoint_at", None),
            resize_seconds=fields.pop("resize_seconds", None),
            speeds=tuple(SizeSpeed(*each) for each in fields.pop("throughput", ())),
            scatter=fields.pop("scatter", EXACT),
            fraction=fields.pop("fraction", None),
            whole_slot_seconds=fields.pop("whole_slot_seconds", None),
            reported_at=fields.pop("reported_at", None),
        )
        of_job = {name: fields.pop(name) for name in JOB_FIELDS & fields.keys()}
        spec = spec_of(f"job-{number}", **fields)
        times = {"submitted_at": LONG_AGO, "queued_at": LONG_AGO}
        sizes = {"min_workers": spec.min_workers, "max_workers": spec.max_workers}
        return Job(JobId(number), spec, spec.priority, **sizes, **{**times, **of_job}, progress=progress)


def _told(queue: Queue) -> str:
    """What users have set of the queue."""
    plain = Queue(queue.path, queue.created_at)
    told = {field.name: getattr(queue, field.name) for field in fields(Queue)}
    return " ".join(f"{name}={value}" for name, value in told.items() if value != getattr(plain, name)) or "plain"


def _by_type(slots: int | dict[str, int] | None) -> tuple[tuple[str, int], ...]:
    if slots is None:
        return ()
    return ((ANY_GPU, slots),) if isinstance(slots, int) else tuple(sorted(slots.items()))


def enact(cluster: Cluster, made: Plan, *, slowly: bool = False) -> None:
    """Do what the plan says, and let everything that was being freed be gone; `slowly`: who leaves is still there."""
    for action in made.actions:
        match action:
            case StopJob(job_id, reason, _):
                if slowly:
                    cluster.jobs[job_id] = replace(cluster.jobs[job_id], state=JobState.STOPPING)
                else:
                    _stop(cluster, job_id, reason)
            case Shrink(job_id, leaving, _, _):
                job = cluster.jobs[job_id]
                asked = (replace(w, desired=Desired.STOP, rank=None) if w.id in leaving else w for w in job.workers)
                cluster.jobs[job_id] = replace(job, workers=tuple(asked), last_resize_at=cluster.now)
            case Reserve(job_id, placement, shared, fixed):
                held = replace(cluster.jobs[job_id], reservation=placement, reservation_shared=shared)
                cluster.jobs[job_id] = replace(held, fixed_reservation=fixed)
            case Release(job_id):
                job = cluster.jobs[job_id]
                cluster.jobs[job_id] = replace(job, reservation=(), reservation_shared=False, fixed_reservation=())
            case Start() | Grow():
                _add(cluster, action)
    for job_id, waiting in made.waiting.items():
        job = cluster.jobs[job_id]
        assert job.state is JobState.QUEUED
        cluster.jobs[job_id] = replace(job, wait_reason=waiting.reason, wait_for=waiting.for_job)
    if not slowly:
        _be_gone(cluster)


def _stop(cluster: Cluster, job_id: JobId, reason: StopReason) -> None:
    job = cluster.jobs[job_id]
    assert STOP_TARGETS[reason] is JobState.QUEUED
    cluster.jobs[job_id] = replace(
        job,
        state=JobState.QUEUED,
        workers=(),
        fixed_workers=(),
        queued_at=cluster.now,
        started_at=None,
        wait_reason=WaitReason.SUBMITTED,
        wait_for=None,
        stop_reason=reason,
    )


def _add(cluster: Cluster, action: Start | Grow) -> None:
    if isinstance(action, Start) and action.fixed:
        cluster.start_fixed(action.job_id, action.fixed)
    job = cluster.jobs[action.job_id]
    names = [name for name, count in action.placement for _ in range(count)]
    added = cluster.workers_on(job, names, cluster.now, action.shared, job.next_ordinal)
    job = replace(job, workers=job.workers + tuple(added), next_ordinal=job.next_ordinal + len(added))
    if isinstance(action, Start):
        waited = job.waited_seconds + cluster.now - job.queued_at
        job = replace(
            job,
            state=JobState.RUNNING,
            started_at=cluster.now,
            running_at=cluster.now,
            waited_seconds=waited,
            wait_reason=None,
            wait_for=None,
            reservation=(),
            reservation_shared=False,
            fixed_reservation=(),
        )
    else:
        job = replace(job, last_resize_at=cluster.now)
    cluster.jobs[job.id] = job


def _be_gone(cluster: Cluster) -> None:
    cluster.strays.clear()
    for job in list(cluster.jobs.values()):
        if job.state is JobState.STOPPING:
            _stop(cluster, job.id, StopReason.PREEMPTED)
        elif job.workers:
            staying = [w for w in job.workers if w.wanted]
            cluster.jobs[job.id] = replace(
                job, workers=tuple(replace(w, rank=k, state=WorkerState.READY) for k, w in enumerate(staying))
            )


UP = NodeHealth.UP
DOWN = NodeHealth.DOWN
ACTIVE = NodeIntent.ACTIVE
CORDONED = NodeIntent.CORDONED
DRAINING = NodeIntent.DRAINING
QUARANTINED = NodeIntent.QUARANTINED
