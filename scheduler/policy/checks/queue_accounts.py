"""What queues hold, want and are entitled to in a world, found out for the checks without the planner's help.

Slots are counted for *accounts*: a queue by its path, the jobs directly in a queue that has inner ones as `path/.`, and
a user in a queue as `path@user`. Only the arithmetic of entitlements is shared with the planner.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product

from scheduler.config import PolicySettings
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.node_usage import mask_of
from scheduler.model.plan import Grow, Reserve, Start
from scheduler.model.queue import ANY_GPU, ROOT, Queue, ancestry
from scheduler.model.queue_tree import chain, closed_queues, nearest
from scheduler.model.stray import Stray
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.checks.bookings import inside_booking
from scheduler.policy.queues.entitlement import NO_ENTITLEMENT, Entitlement, Share, entitlements

#: An account, and a GPU type or `ANY_GPU`.
Key = tuple[str, str]
#: Slots by account and GPU type.
Slots = Counter[Key]
#: Each of the entitlements that are possible, by account and GPU type.
Entitled = Mapping[Key, Entitlement]

#: Jobs of which it is not certain whether they want more; with more of them no entitlement is judged.
UNCERTAIN_MAX = 5
_SIZED = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


class Accounts:
    """The accounts of a world with queues."""

    def __init__(self, world: World, now: float, settings: PolicySettings) -> None:
        self.world = world
        self._now = now
        self._settings = settings
        self._with_inner = {nearest(world.queues, queue.parent) for queue in world.queues.values()} | {ROOT}

    def above_all(self, job: Job) -> bool:
        """Whether the job is above all queues: its booking is open."""
        return inside_booking(self.world, job, self._now, self._settings)

    def path(self, job: Job) -> tuple[str, ...]:
        """Accounts of the job from the first level down, each inside the one before; none if it is above all queues."""
        if self.above_all(job):
            return ()
        path = nearest(self.world.queues, job.spec.queue)
        queue = self.world.queues.get(path)
        if queue is not None and queue.share_users:
            return (*ancestry(path), f"{path}@{job.spec.user}")
        return (*ancestry(path), f"{path}/.") if path in self._with_inner else ancestry(path)

    def own(self, job: Job) -> str:
        """The account in which importance alone decides; empty for jobs above all queues."""
        path = self.path(job)
        return path[-1] if path else ""

    def queues(self, job: Job) -> list[Queue]:
        """The queues that count the job, from the first level down."""
        if self.above_all(job):
            return []
        return list(chain(self.world.queues, nearest(self.world.queues, job.spec.queue)))

    def is_closed(self, job: Job) -> bool:
        """Whether the job gets no slots beyond those that it holds: a budget is spent, or a row cannot be read."""
        return not self._closed.isdisjoint(self.path(job))

    @cached_property
    def _closed(self) -> frozenset[str]:
        return closed_queues(self.world.queues, self.world.spent)

    def limits(self, job: Job) -> Iterator[tuple[Key, int]]:
        """Limits that hold for the job together with others of the account."""
        for queue in self.queues(job):
            for gpu_type, limit in queue.limit:
                yield (queue.path, gpu_type), limit
            if queue.user_limit is not None:
                yield (f"{queue.path}@{job.spec.user}", ANY_GPU), queue.user_limit

    def counted_in(self, job: Job) -> frozenset[str]:
        """Every account that counts the job's slots, those of its user in queues with limits for users included."""
        return frozenset(self.path(job)) | {account for (account, _), _ in self.limits(job)}

    def of_slots(self, job: Job, slots: Iterable[tuple[NodeName, int]]) -> Slots:
        """These numbers of slots on nodes, as counted for the job's accounts."""
        found: Slots = Counter()
        for name, count in slots:
            node = self.world.nodes.get(name)
            for account in self.counted_in(job):
                found[account, ANY_GPU] += count
                if node is not None and node.gpu_type is not None:
                    found[account, node.gpu_type] += count
        return found

    def open_slots(self, holders: Iterable[Worker | Stray]) -> Iterator[tuple[NodeName, int]]:
        """Slots that these hold among those that are divided: of nodes that take workers, and not closed."""
        for holder in holders:
            node = self.world.nodes.get(holder.node)
            if node is not None and node.schedulable and not holder.shared:
                mask = mask_of(holder.slot_ids) & ~node.closed_mask & ((1 << node.slots) - 1)
                yield holder.node, mask.bit_count()

    @cached_property
    def entitled(self) -> list[Entitled]:
        """Entitlements that are possible, by what jobs may want; empty where the oracle cannot tell.

        It cannot beside bookings and demands of others, for which the planner sets slots apart, and where too many
        jobs may or may not gain by more workers.
        """
        world = self.world
        jobs = [*world.active.values(), *(job for job in world.queued.values() if job.not_before <= self._now)]
        wants = [(job, self._wants(job)) for job in jobs]
        open_questions = sum(len(options) > 1 for _, options in wants)
        if world.bookings or world.demands or open_questions > UNCERTAIN_MAX:
            return []
        corners = product(*(options for _, options in wants))
        return [self._entitled([job for job, _ in wants], wanted) for wanted in corners]

    @property
    def gpu_types(self) -> list[str]:
        """Types that a queue names in a guarantee or limit, and `ANY_GPU`."""
        named = {t for queue in self.world.queues.values() for t, _ in (*queue.guarantee, *queue.limit)}
        return [ANY_GPU, *sorted(named - {ANY_GPU})]

    def _entitled(self, jobs: list[Job], wanting: Iterable[Mapping[str, int]]) -> Entitled:
        of_user: Counter[tuple[str, str, str, float]] = Counter()
        inner: dict[str, dict[str, None]] = {}
        for job, wants in zip(jobs, wanting, strict=True):
            path = self.path(job)
            for above, account in zip((ROOT, *path), path, strict=False):
                if wants:
                    inner.setdefault(above, {})[account] = None
            limits = [queue.user_limit for queue in self.queues(job) if queue.user_limit is not None]
            for gpu_type, slots in wants.items():
                user = job.spec.user if limits else ""
                of_user[self.own(job), gpu_type, user, min(limits, default=math.inf)] += slots
        demand: Slots = Counter()
        for (account, gpu_type, _, most), slots in of_user.items():
            demand[account, gpu_type] += int(min(slots, most))
        found: dict[Key, Entitlement] = {}
        for gpu_type in reversed(self.gpu_types):  # what is had of types is part of what is guaranteed of any
            root = self._share(ROOT, gpu_type, inner, demand, found)
            divided = entitlements(root, self._divisible(gpu_type), lends=gpu_type == ANY_GPU, in_whole=False)
            found |= {(account, gpu_type): part for account, part in divided.items()}
        return found

    def _share(
        self, account: str, gpu_type: str, inner: Mapping[str, Iterable[str]], demand: Slots, of_types: Entitled
    ) -> Share:
        below = [self._share(each, gpu_type, inner, demand, of_types) for each in inner.get(account, ())]
        queue = self.world.queues.get(account)
        guarantees = dict(queue.guarantee) if queue is not None else {}
        guarantee: float | None = guarantees.get(gpu_type, None if below else 0.0)
        if gpu_type not in guarantees and ANY_GPU in guarantees:  # those inside have no more of a type than of any
            guarantee = min(guarantees[ANY_GPU], sum(each.guaranteed for each in below))
        elif gpu_type == ANY_GPU and guarantees:  # those of types are part of that of any, and may be more
            typed = sum(of_types[account, name].guaranteed for name in guarantees if name != ANY_GPU)
            guarantee = float(max(guarantees.get(ANY_GPU, 0), typed))
        if unread := queue is not None and not queue.readable:
            guarantee = demand[account, gpu_type] + sum(each.wanted for each in below)
        limit = dict(queue.limit).get(gpu_type, math.inf) if queue is not None else math.inf
        weight = queue.weight if queue is not None else 1.0
        named = self.gpu_types[1:] if gpu_type == ANY_GPU else []
        typed = sum(of_types.get((account, name), NO_ENTITLEMENT).guaranteed for name in named)
        kept = math.inf if unread else typed
        return Share(account, weight, guarantee, limit, demand[account, gpu_type], inner=below, kept=kept)

    def _divisible(self, gpu_type: str) -> int:
        """Slots that jobs of queues may have: of nodes that take workers, not closed, and held by nobody else."""
        world, slots = self.world, 0
        kept: Counter[NodeName] = Counter()
        for name, held in self.open_slots(stray for stray in world.strays.values() if world.goes_on(stray)):
            kept[name] += held
        for node in world.nodes.values():
            if node.schedulable and gpu_type in (ANY_GPU, node.gpu_type):
                others = world.foreign.get(node.name, NO_FOREIGN).slots + kept[node.name]
                slots += max(node.reduced().slots - others, 0)
        return slots

    def _wants(self, job: Job) -> list[dict[str, int]]:
        """Slots by GPU type that the job may want; several where that is not certain."""
        closed = self.is_closed(job)
        if job.state is JobState.QUEUED and closed:
            return [{}]
        if job.state is JobState.QUEUED:
            if self._never(job):
                return [{}]
            sizes = sorted({min(job.max_workers, most) for most in self._fits(job)})
            possible = [self._typed(job, size) for size in sizes if size >= job.min_workers]
            return possible if self._certainly_possible(job) else [{}] if self._impossible(job) else [{}, *possible]
        staying = [] if job.state is JobState.STOPPING else [w for w in job.all_workers if w.wanted]
        held = Counter[str]()
        for name, slots in self.open_slots(staying):
            held[ANY_GPU] += slots
            held[self.world.nodes[name].gpu_type or ""] += slots
        if closed or not job.elastic or job.finishing or job.state not in _SIZED:
            return [held]
        size = sum(not worker.fixed for worker in staying)
        more = sorted({max(min(job.max_workers, most) - size, 0) for most in self._fits(job)})
        possible = [held + Counter(self._typed(job, each)) for each in more]
        return possible if self._certainly_gains(job) else [held, *(each for each in possible if each != held)]

    def _typed(self, job: Job, workers: int) -> dict[str, int]:
        wanted = Counter({ANY_GPU: workers * job.shape.slots, job.shape.gpu_type or "": workers * job.shape.slots})
        group = job.spec.fixed
        if group is not None and job.state is JobState.QUEUED:
            wanted[ANY_GPU] += group.replicas * group.shape.slots
            wanted[group.shape.gpu_type or ""] += group.replicas * group.shape.slots
        return wanted

    def _certainly_gains(self, job: Job) -> bool:
        """Whether nothing is known of the job that could speak against more workers."""
        told = job.progress.speeds or job.spec.speedup or job.progress.resize_seconds
        waits_for_reports = job.spec.runtime.reports and self._settings.measured_gain
        return not told and not waits_for_reports

    def _never(self, job: Job) -> bool:
        """Whether a limit is below its minimum, or it is not preemptible and no guarantee could cover that."""
        needed = self._typed(job, job.min_workers)
        if any(needed.get(gpu_type, 0) > limit for (_, gpu_type), limit in self.limits(job)):
            return True
        guaranteed = [queue for queue in self.queues(job) if queue.guarantee]
        covered = guaranteed and all(self._may_cover(queue, needed) for queue in guaranteed)
        return not (job.spec.preemptible or covered)

    def _may_cover(self, queue: Queue, needed: Mapping[str, int]) -> bool:
        """Whether the guarantee is as large as what is needed: that of any type, or that of each type that is named."""
        promised, named = dict(queue.guarantee), set(self.gpu_types) - {ANY_GPU}
        if needed[ANY_GPU] <= promised.get(ANY_GPU, 0):
            return True
        of_types = sum(slots for gpu_type, slots in promised.items() if gpu_type in named)
        if needed[ANY_GPU] > of_types or any(slots for each, slots in needed.items() if each not in {ANY_GPU, *named}):
            return False
        return all(needed.get(gpu_type, 0) <= self._promised(queue, gpu_type) for gpu_type in named)

    def _promised(self, queue: Queue, gpu_type: str) -> float:
        """What is guaranteed of the type to the queue, else to those inside it within its guarantee of any type."""
        if not queue.readable:
            return math.inf
        promised, world = dict(queue.guarantee), self.world
        inner = (each for each in world.queues.values() if nearest(world.queues, each.parent) == queue.path)
        inside = min(promised.get(ANY_GPU, math.inf), sum(self._promised(each, gpu_type) for each in inner))
        return promised.get(gpu_type, inside)

    def _fits(self, job: Job) -> set[int]:
        """Numbers of its workers that empty nodes of one GPU type hold at most; several where that is not certain."""
        if job.shape.oversell:  # on shared slots, too
            return {self._most(job, self._left), job.max_workers}
        return {self._most(job, self._left), self._most(job, Node.reduced)}

    def _certainly_possible(self, job: Job) -> bool:
        """Whether the minimum surely fits nodes of one GPU type that take workers, if these were empty."""
        return job.spec.fixed is None and self._most(job, self._left) >= job.min_workers

    def _impossible(self, job: Job) -> bool:
        """Whether the minimum surely fits no nodes that take workers."""
        return not job.spec.fixed and not job.shape.oversell and self._most(job, Node.reduced) < job.min_workers

    def _left(self, node: Node) -> Node | None:
        return None if node.name in self.world.foreign else node.reduced()

    def _most(self, job: Job, left: Callable[[Node], Node | None]) -> int:
        fits: Counter[str | None] = Counter()
        for node in self.world.nodes.values():
            rest = left(node) if node.schedulable else None
            fits[node.gpu_type] += rest.fits_empty(job.shape) if rest is not None else 0
        return max(fits.values(), default=0)


def given(job: Job, action: Start | Grow | Reserve) -> Iterator[tuple[NodeName, int]]:
    """Slots of its own on nodes that the job gets, or that are held for it."""
    if not action.shared:
        yield from ((name, count * job.shape.slots) for name, count in action.placement)
    group = job.spec.fixed
    if group is not None and not isinstance(action, Grow):
        yield from ((name, count * group.shape.slots) for name, count in action.fixed)
