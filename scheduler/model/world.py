"""The world: every job that has not ended, every node and every booking, as one immutable value.

`World.evolve` gives the next world; it makes anew only the indexes that a change touches, and copies none that is large
for a few changes, so that a tick over thousands of jobs in which little happened stays cheap.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from scheduler.model.account import AccountKey, Charge, Holding
from scheduler.model.booking import Booking, BookingState
from scheduler.model.event import Event
from scheduler.model.foreign import Awaited, ForeignUse
from scheduler.model.hosts import HostList
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.layered import changed
from scheduler.model.node import Node
from scheduler.model.node_usage import NO_USAGE, NodeUsage, mask_of, moved_usage, without_slots
from scheduler.model.queue import Queue
from scheduler.model.queue_usage import QueueUsage
from scheduler.model.slot import SlotClosure
from scheduler.model.stray import Stray
from scheduler.model.subject import Subject
from scheduler.model.trail import TRAIL_MAX, Touched, touched_between
from scheduler.model.unreadable import Unreadable
from scheduler.model.worker import Worker

#: Tables without whose rows there is no job; what somebody has asked of it may be missing.
_ROWS_OF_JOBS = ("jobs", "workers")


@dataclass(frozen=True, slots=True)
class CrowdedSlot:
    """A slot whose load crossed a limit of overselling: nobody new may share it for now."""

    #: From when on one more of those who share it may be asked to leave; unix seconds.
    leave_at: float
    #: When others may share it again if it is well below the limits then; None while it is above one.
    reopen_at: float | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """New values of rows, to be committed together. Workers include those that ended just now."""

    jobs: tuple[Job, ...] = ()
    workers: tuple[Worker, ...] = ()
    nodes: tuple[Node, ...] = ()
    #: Nodes to remove, as they were read.
    forgotten: tuple[Node, ...] = ()
    events: tuple[Event, ...] = ()
    #: Host lists of generations published now.
    published: tuple[HostList, ...] = ()
    #: Intents that have been dealt with.
    intents_done: tuple[int, ...] = ()
    #: Jobs that were submitted and cannot be read: engines that follow are to know that there are such.
    unread: tuple[JobId, ...] = ()
    bookings: tuple[Booking, ...] = ()
    #: As `World.ahead_seconds`; None: as it was.
    ahead_seconds: float | None = None
    #: Of accounts that hold something else from now on, and what they are charged for what they held until now.
    holdings: tuple[Holding, ...] = ()
    charges: tuple[Charge, ...] = ()
    #: Decayed usage of accounts in the tree of queues that hold something else from now on.
    queue_usage: tuple[tuple[str, QueueUsage], ...] = ()
    #: Queues of which it was told now that their budget is nearly spent, and the first hour of the month.
    budgets_told: tuple[tuple[str, int], ...] = ()
    #: Those of the jobs of which nothing but the progress has changed.
    progressed: frozenset[JobId] = frozenset()

    @property
    def altered(self) -> list[Job]:
        """Those of the jobs of which more than the progress has changed."""
        return [job for job in self.jobs if job.id not in self.progressed]

    def __bool__(self) -> bool:
        changed = self.jobs or self.workers or self.nodes or self.forgotten or self.events or self.bookings
        accounts = self.holdings or self.charges or self.queue_usage
        return bool(changed or accounts or self.published or self.intents_done or self.ahead_seconds is not None)


@dataclass(frozen=True, slots=True)
class World:
    """Jobs by what can happen to them, nodes, and what is used on each node by workers of jobs.

    `strays`, `crowded`, `foreign`, `demands` and `withheld` come from observations, `spent` from the time, and are not
    stored; everything else equals what a load gives.
    """

    queued: Mapping[JobId, Job] = field(default_factory=dict)
    suspended: Mapping[JobId, Job] = field(default_factory=dict)
    #: STARTING, RUNNING, RESIZING, STOPPING.
    active: Mapping[JobId, Job] = field(default_factory=dict)
    #: No decision looks at these. Slots of their workers are counted as long as the cluster sees them, as of strays.
    held: Mapping[JobId, Job] = field(default_factory=dict)
    nodes: Mapping[NodeName, Node] = field(default_factory=dict)
    usage: Mapping[NodeName, NodeUsage] = field(default_factory=dict)
    #: Slots, a mask per node, that more than one worker holds as its own.
    held_again: Mapping[NodeName, int] = field(default_factory=dict)
    strays: Mapping[WorkerId, Stray] = field(default_factory=dict)
    crowded: Mapping[NodeName, Mapping[int, CrowdedSlot]] = field(default_factory=dict)
    #: What others hold of nodes, or what a node has no more, where it is anything.
    foreign: Mapping[NodeName, ForeignUse] = field(default_factory=dict)
    #: What others wait for, most important first.
    demands: tuple[Awaited, ...] = ()
    #: What observations show and no decision looks at, since ticks failed while they dealt with it, and how they did.
    withheld: Mapping[Subject, str] = field(default_factory=dict)
    #: Planned and open ones, by name.
    bookings: Mapping[str, Booking] = field(default_factory=dict)
    #: By path; the root is not among them.
    queues: Mapping[str, Queue] = field(default_factory=dict)
    #: Paths of queues that have spent their budget for this month, or are inside one that has.
    spent: frozenset[str] = frozenset()
    #: Of the accounts that hold anything. No decision looks at them.
    holdings: Mapping[AccountKey, Holding] = field(default_factory=dict, compare=False)
    #: Decayed usage by path of the queue, as `path@user` of a user who has a share of it, and as `path/.` of the jobs
    #: directly in a queue with inner ones; empty where usage does not count.
    queue_usage: Mapping[str, QueueUsage] = field(default_factory=dict)
    #: Rows that cannot be read, so that what they tell of is not here.
    unreadable: tuple[Unreadable, ...] = ()
    #: How far people's clocks are ahead of the engine's, as far as that was confirmed: bookings stand by it.
    ahead_seconds: float = 0.0
    #: Indexes: jobs for which capacity is held.
    reserved: Mapping[JobId, Job] = field(default_factory=dict)
    #: Active jobs with workers that are leaving.
    leaving: Mapping[JobId, Job] = field(default_factory=dict)
    #: Queued jobs to which no tick has given a reason yet.
    unexplained: Mapping[JobId, Job] = field(default_factory=dict)
    #: Nodes that are held, not listed, or in quarantine or out of one; see `Node.apart`.
    apart: frozenset[NodeName] = frozenset()
    #: What the last steps to this world touched; `evolve` keeps it.
    trail: tuple[Touched, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def of(
        jobs: Iterable[Job],
        nodes: Iterable[Node],
        bookings: Iterable[Booking] = (),
        unreadable: Iterable[Unreadable] = (),
        ahead_seconds: float = 0.0,
        queues: Iterable[Queue] = (),
        holdings: Iterable[Holding] = (),
        queue_usage: Iterable[tuple[str, QueueUsage]] = (),
    ) -> "World":
        """The world that these rows describe; terminal jobs are left out."""
        rows = Changes(
            tuple(jobs),
            nodes=tuple(nodes),
            bookings=tuple(bookings),
            ahead_seconds=ahead_seconds,
            holdings=tuple(holdings),
            queue_usage=tuple(queue_usage),
        )
        by_path = {queue.path: queue for queue in queues}
        return World(unreadable=tuple(unreadable), queues=by_path).evolve(rows)

    def job(self, job_id: JobId) -> Job | None:
        """A job that decisions look at."""
        return self.active.get(job_id) or self.queued.get(job_id) or self.suspended.get(job_id)

    def all_jobs(self) -> Iterator[Job]:
        yield from self.active.values()
        yield from self.queued.values()
        yield from self.suspended.values()

    def nodes_apart(self) -> list[Node]:
        """The nodes of `apart`, in their order."""
        return [self.nodes[name] for name in filter(self.apart.__contains__, self.nodes)] if self.apart else []

    def unread(self, job_id: JobId) -> Unreadable | None:
        """Why the job is not here although its row is; None: it is not for that."""
        return next((row for row in self.unreadable if row.job_id == job_id and row.table in _ROWS_OF_JOBS), None)

    def booking_of(self, job: Job) -> Booking | None:
        """The booking that the job belongs to, planned or open; None for an ordinary job."""
        booking = self.bookings.get(job.spec.booking) if job.spec.booking is not None else None
        return booking if booking is not None and booking.admits(job) else None

    def used(self, node: NodeName) -> NodeUsage:
        """What live workers and strays hold on the node."""
        usage = self.usage.get(node, NO_USAGE)
        for stray in self.strays.values():
            if stray.node == node:
                usage = usage.plus(stray)
        return usage

    def closed_unheld(self, node: Node) -> Counter[SlotClosure]:
        """How many of the node's closed slots nobody holds, by why they are closed."""
        if not node.closed_slots:
            return Counter()
        held = self.used(node.name).slot_mask
        unheld = (each for each in node.closed_slots if each.slot < node.slots and not held >> each.slot & 1)
        return Counter(each.closure for each in unheld)

    def held_job_of(self, stray: Stray) -> Job | None:
        """The held job that has the stray as a worker; None: no job that is held has it, or has it any more."""
        held = self.held.get(stray.job_id)
        mine = held is not None and held.nonce == stray.nonce and held.worker(stray.id) is not None
        return held if mine else None

    def goes_on(self, stray: Stray) -> bool:
        """Whether a stray is left to work: its job is held and not cancelled, or its job's row cannot be read."""
        held = self.held_job_of(stray)
        return self.unread(stray.job_id) is not None or (held is not None and not held.cancelled)

    def ending_strays(self) -> Iterator[Stray]:
        """The strays that are being ended."""
        return (stray for stray in self.strays.values() if not self.goes_on(stray))

    def releasing_strays(self) -> Iterator[Stray]:
        """The strays that are being ended, each with what its end frees: no slot that somebody else holds as well.

        A cluster that is seen late may list a worker whose slots others have by now.
        """
        usage: dict[NodeName, NodeUsage] = {}
        for stray in sorted(self.strays.values(), key=self.goes_on, reverse=True):
            beside = usage.get(stray.node, self.usage.get(stray.node, NO_USAGE))
            usage[stray.node] = beside.plus(stray)
            if not self.goes_on(stray):
                yield without_slots(stray, beside.slot_mask)

    def held_twice(self) -> dict[NodeName, int]:
        """Slots, a mask per node, that a worker holds and one more that may go on: the end of neither frees them.

        Two come to hold a slot where a row could not be read for a while, or a cluster is seen late.
        """
        twice = dict(self.held_again)
        for stray in self.strays.values():
            again = 0 if stray.shared else self.usage.get(stray.node, NO_USAGE).slot_mask & mask_of(stray.slot_ids)
            if again and self.goes_on(stray):
                twice[stray.node] = twice.get(stray.node, 0) | again
        return twice

    def releasing(self, leaving: Iterable[Worker]) -> Iterator[Worker]:
        """These workers, each with what its end frees: no slot that is held twice."""
        twice = self.held_twice()
        return (without_slots(worker, twice.get(worker.node, 0)) for worker in leaving)

    def evolve(self, changes: Changes) -> "World":
        """The world after these changes. Jobs carry their live workers, so `changes.workers` is not needed here."""
        ahead_seconds = self.ahead_seconds if changes.ahead_seconds is None else changes.ahead_seconds
        rows = changes.jobs or changes.nodes or changes.forgotten or changes.bookings
        accounts = self._with_accounts(changes)
        if not rows and ahead_seconds == self.ahead_seconds:
            return accounts
        jobs, progressed = {job.id: job for job in changes.jobs}, changes.progressed
        nodes = self.nodes
        if changes.nodes:
            nodes = {**nodes, **{node.name: node for node in changes.nodes}}
        gone = frozenset(node.name for node in changes.forgotten)
        if gone:
            nodes = {name: node for name, node in nodes.items() if name not in gone}
        bookings = self.bookings
        if changes.bookings:
            merged = {**bookings, **{booking.name: booking for booking in changes.bookings}}
            bookings = {name: each for name, each in merged.items() if each.state is not BookingState.OVER}
        usage, held_again = self.usage_after(jobs.values())
        step = Touched(
            frozenset(jobs), frozenset(jobs.keys() - progressed), gone.union(node.name for node in changes.nodes)
        )
        return World(
            queued=_moved(self.queued, jobs, progressed, lambda job: job.state is JobState.QUEUED),
            suspended=_moved(self.suspended, jobs, progressed, lambda job: job.state is JobState.SUSPENDED),
            active=_moved(self.active, jobs, progressed, lambda job: job.state.managed),
            held=_moved(self.held, jobs, progressed, lambda job: job.state is JobState.HELD),
            nodes=nodes,
            apart=self.apart - step.nodes | {node.name for node in changes.nodes if node.apart},
            usage=usage,
            held_again=held_again,
            strays=self.strays,
            crowded=self.crowded,
            foreign=self.foreign,
            demands=self.demands,
            withheld=self.withheld,
            bookings=bookings,
            queues=self.queues,
            spent=self.spent,
            holdings=accounts.holdings,
            queue_usage=accounts.queue_usage,
            unreadable=self.unreadable,
            ahead_seconds=ahead_seconds,
            reserved=_moved(self.reserved, jobs, progressed, lambda job: bool(job.reservation)),
            leaving=_moved(self.leaving, jobs, progressed, _has_leavers),
            unexplained=_moved(self.unexplained, jobs, progressed, _is_unexplained),
            trail=(*self.trail[1 - TRAIL_MAX :], step),
        )

    def usage_after(self, jobs: Iterable[Job]) -> tuple[Mapping[NodeName, NodeUsage], Mapping[NodeName, int]]:
        """`usage` and `held_again` after these jobs changed."""
        gone: list[Worker] = []
        come: list[Worker] = []
        for job in jobs:
            job_before = self.active.get(job.id)
            before = job_before.all_workers if job_before else ()
            after = job.all_workers if job.state.managed else ()
            if before is not after:
                old, new = {w.id for w in before}, {w.id for w in after}
                gone += (w for w in before if w.id not in new)
                come += (w for w in after if w.id not in old)
        if not gone and not come:
            return self.usage, self.held_again
        return moved_usage(self.usage, self.held_again, gone, come)

    def _with_accounts(self, changes: Changes) -> "World":
        """The world with what accounts hold after these changes, and nothing else of them."""
        if not changes.holdings and not changes.queue_usage:
            return self
        holdings = {**self.holdings, **{holding.key: holding for holding in changes.holdings}}
        usage = {**self.queue_usage, **dict(changes.queue_usage)}
        return replace(
            self,
            holdings={key: holding for key, holding in holdings.items() if holding.slots},
            queue_usage={account: each for account, each in usage.items() if each.counts},
        )

    def touched_since(self, other: "World") -> Touched | None:
        """What may differ from another world, of which this one is an offspring or a sibling; None: that is unknown."""
        return touched_between(self.trail, other.trail)

    def with_unreadable(self, more: Iterable[Unreadable]) -> "World":
        """The world with further rows that cannot be read."""
        known = tuple(dict.fromkeys((*self.unreadable, *more)))
        return self if known == self.unreadable else replace(self, unreadable=known)

    def with_queues(self, queues: Mapping[str, Queue]) -> "World":
        """The world with the queues as users have set them."""
        return self if queues == self.queues else replace(self, queues=queues)

    def with_spent(self, spent: frozenset[str]) -> "World":
        """The world with these queues as those whose budget is spent."""
        return replace(self, spent=spent)

    def with_strays(self, strays: Mapping[WorkerId, Stray]) -> "World":
        """The world with the strays of a newer observation."""
        return replace(self, strays=strays)

    def with_crowded(self, crowded: Mapping[NodeName, Mapping[int, CrowdedSlot]]) -> "World":
        """The world with the crowded slots of a newer observation."""
        return replace(self, crowded=crowded)

    def with_withheld(self, withheld: Mapping[Subject, str]) -> "World":
        """The world with the withheld subjects of a newer observation."""
        return replace(self, withheld=withheld)

    def with_foreign(self, foreign: Mapping[NodeName, ForeignUse], demands: tuple[Awaited, ...]) -> "World":
        """The world with the foreign use and demands of a newer observation."""
        return replace(self, foreign=foreign, demands=demands)


def sharers(world: World) -> Iterator[Worker | Stray]:
    """Everybody who holds slots beyond the physical count."""
    for job in world.active.values():
        yield from (worker for worker in job.workers if worker.shared)
    yield from (stray for stray in world.strays.values() if stray.shared)


def _moved(
    before: Mapping[JobId, Job],
    jobs: Mapping[JobId, Job],
    progressed: frozenset[JobId],
    belongs: Callable[[Job], bool],
) -> Mapping[JobId, Job]:
    """Jobs of one kind after some changed; the same mapping where none came or left.

    Those that have only `progressed` stay where they were.
    """
    gone = {job_id for job_id in jobs if job_id in before}
    stay = progressed.intersection(gone)
    come = {job_id: job for job_id, job in jobs.items() if (job_id in stay if job_id in progressed else belongs(job))}
    if not gone and not come:
        return before
    return changed(before, gone, come)


def _has_leavers(job: Job) -> bool:
    stopping = job.state is JobState.STOPPING
    return job.state.managed and any(stopping or not worker.wanted for worker in job.all_workers)


def _is_unexplained(job: Job) -> bool:
    return job.state is JobState.QUEUED and job.wait_reason in (None, WaitReason.SUBMITTED)
