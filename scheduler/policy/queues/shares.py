"""What each account holds in a draft, against what it is entitled and limited to."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import add
from typing import NamedTuple, TypeVar

from scheduler.model.job_state import WaitReason
from scheduler.model.plan import QueueShare
from scheduler.model.queue import ROOT
from scheduler.policy.capacity.resources import Held
from scheduler.policy.queues.entitlement import NO_ENTITLEMENT, Entitlement
from scheduler.policy.queues.tree import TOP, Lane, Tree, is_told, queue_of

K = TypeVar("K")
#: Slots by kind, in the order of `Tree.kinds`: all, then those of each GPU type that a queue names.
Counts = tuple[int, ...]
#: Accounts differ by whole slots: what sums of floats leave over is nothing.
_EPSILON = 1e-6


class Quota(NamedTuple):
    """Slots that a job's accounts lack below their limits, by kind; the jobs in them may give these up."""

    account: str
    kind: int
    slots: int

    @property
    def reason(self) -> WaitReason:
        """Why a job waits that cannot have them."""
        return WaitReason.USER_LIMIT if "@" in self.account else WaitReason.QUEUE_LIMIT


@dataclass(frozen=True, slots=True)
class Standing:
    """What accounts may have and hold in a world; slots by kind."""

    tree: Tree
    #: By position, the kind of the node's GPU type; 0: no queue names it.
    kinds: Sequence[int]
    entitled: Mapping[str, tuple[Entitlement, ...]] = field(default_factory=dict)
    #: Slots of workers that stay.
    held: Mapping[str, Counts] = field(default_factory=dict)
    #: Slots of workers that are leaving.
    leaving: Mapping[str, Counts] = field(default_factory=dict)
    #: Slots of workers that stay and that nobody may take: of jobs that are not preemptible.
    pinned: Mapping[str, Counts] = field(default_factory=dict)
    #: Slots, by kind, that are divided.
    divisible: Sequence[float] = ()
    #: Slots that jobs hold or wait for.
    wanted: Mapping[str, Counts] = field(default_factory=dict)
    #: Slots of workers on nodes that take no new ones, and closed slots: nobody divides these, but limits count them.
    elsewhere: Mapping[str, Counts] = field(default_factory=dict)
    #: Decayed slot-seconds of accounts in relation to their weights; empty: usage does not count.
    used: Mapping[str, float] = field(default_factory=dict)
    #: The smallest number of a job that waits, by the own account of its lane.
    oldest: Mapping[str, int] = field(default_factory=dict)
    #: Queues that are closed, as `queue_tree.closed_queues` says.
    closed: frozenset[str] = frozenset()

    @property
    def shares(self) -> tuple[QueueShare, ...]:
        """What to tell of each queue, by path, and of each user where users share a queue."""
        told = ((account, self.entitled[account][0]) for account in sorted(self.wanted) if is_told(account))
        return tuple(
            QueueShare(*queue_of(account), guaranteed, total, self.wanted[account][0], self.held.get(account, (0,))[0])
            for account, (guaranteed, total) in told
        )

    def counts(self, held: Iterable[tuple[int, tuple[int, int, int]]]) -> Counts:
        """The slots among these amounts, by kind. Slots beyond the physical ones are nobody's."""
        found = [0] * len(self.tree.kinds)
        for i, (slots, _, _) in held:
            if i < len(self.kinds):
                found[0] += slots
                if self.kinds[i]:
                    found[self.kinds[i]] += slots
        return tuple(found)

    def typed(self, gpu_type: str | None, slots: int) -> Counts:
        """This many slots of nodes of this GPU type, by kind."""
        return _typed(self.tree.kinds, gpu_type, slots)

    def asked(self, gpu_type: str | None, slots: int) -> Counts:
        """This many slots of each kind that they may be of, asked for by a job which names this GPU type or none."""
        return _asked(self.tree.kinds, gpu_type, slots)


class Changes:
    """Accounts whose held slots changed, as one reader learns of them."""

    def __init__(self, log: Sequence[str]) -> None:
        self._log = log
        self._read = 0

    def news(self) -> set[str]:
        """The accounts that changed since the reader asked last."""
        read, self._read = self._read, len(self._log)
        return set(self._log[read:]) if read < len(self._log) else set()


class Shares:
    """The standing of accounts as a draft goes on."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.tree = standing.tree
        self._entitled = standing.entitled
        self._held = dict(standing.held)
        self._leaving = dict(standing.leaving)
        self._pinned = dict(standing.pinned)
        self._none: Counts = (0,) * len(self.tree.kinds)
        #: What `most_within` found since slots changed last in the same queue of the first level.
        self._most_within = defaultdict[str, dict[tuple[Lane, int, bool], tuple[float, ...]]](dict)
        #: Accounts whose held slots changed, in the order in which they did.
        self._changed: list[str] = []
        #: By GPU type: accounts that lack some of a guarantee.
        self._lacking: dict[str, set[str]] = {name: set() for name in self.tree.kinds[1:]}
        #: By account, the kinds of which slots are guaranteed, and how many.
        self._guaranteed: dict[str, list[tuple[int, float]]] = {}
        for account, parts in self._entitled.items():
            self._note_lacking(account)
            if guaranteed := [(k, part.guaranteed) for k, part in enumerate(parts) if part.guaranteed > 0]:
                self._guaranteed[account] = guaranteed
        self._changes = self.changes()

    def changes(self) -> Changes:
        """For one more reader: the accounts whose held slots change."""
        return Changes(self._changed)

    def put(
        self, lane: Lane, held: Held | Iterable[tuple[int, tuple[int, int, int]]], sign: int, *, pinned: bool
    ) -> Counts:
        """Count these amounts as held by a job of the lane, or with sign -1 as held no more."""
        counts = self.standing.counts(held)
        self.put_counts(lane, counts, sign, pinned=pinned)
        return counts

    def put_counts(self, lane: Lane, counts: Counts, sign: int, *, pinned: bool) -> None:
        """Count this many slots by kind as held by a job of the lane, or with sign -1 as held no more."""
        add_to(self._held, lane.accounts, counts, sign)
        self._changed += lane.path
        if lane.path:
            self._most_within[lane.path[0]].clear()
        if pinned:
            add_to(self._pinned, lane.accounts, counts, sign)

    def leave(self, lane: Lane, held: Held) -> None:
        """Count these amounts as being freed."""
        counts = self.put(lane, held, -1, pinned=False)
        add_to(self._leaving, lane.accounts, counts)

    def pin(self, lane: Lane, held: Held, sign: int) -> None:
        """Count these amounts as what nobody may take, or with sign -1 not any more."""
        add_to(self._pinned, lane.accounts, self.standing.counts(held), sign)

    def place(self, account: str, asked: Counts) -> tuple[float, float]:
        """The place of the account among its siblings, smaller first: what it holds of its entitlement, and its usage.

        Below zero where what is asked for in it, as `Standing.asked` says, is inside a guarantee: what a guarantee
        would take back at once must not be given to others first, who would be stopped again. That of a GPU type takes
        from whoever holds the type, also inside a guarantee of any: it comes before these.
        """
        lacks = 0.0
        for k, guaranteed in self._guaranteed.get(account, ()):
            held = self.held(account)[k]
            if asked[k] and held + asked[k] <= guaranteed + _EPSILON:
                lacks = min(lacks, held / guaranteed - (2.0 if k else 1.0))
        return (lacks or self.part(account), self.standing.used.get(account, 0.0))

    def oldest(self, own: str) -> int:
        """The smallest number of a job that waits in the queue with this account; 0: none does."""
        return self.standing.oldest.get(own, 0)

    def part(self, account: str) -> float:
        """The part of its entitlement that the account holds; infinite: it is entitled to none."""
        held, entitled = self.held(account)[0], self._entitlement(account, 0).total
        return held / entitled if entitled > _EPSILON else float("inf")

    def within(self, lane: Lane, depth: int, slots: int) -> bool:
        """Whether the lane may have this many slots more at the cost of lanes that share `depth` levels with it."""
        return slots <= self.most_within(lane)[depth]

    def depths_within(self, lane: Lane, slots: int, *, kind: int = 0, guaranteed: bool = False) -> frozenset[int]:
        """The depths at which `most_within` has this many slots."""
        most = self.most_within(lane, kind=kind, guaranteed=guaranteed)
        return frozenset(depth for depth, each in enumerate(most) if slots <= each)

    def most_within(self, lane: Lane, *, kind: int = 0, guaranteed: bool = False) -> tuple[float, ...]:
        """By depth: the most slots more that the lane may have at the cost of lanes that share `depth` levels with it.

        Its account at that depth stays inside its guarantee, or inside all that it is entitled to; those below it stay
        inside what they are entitled to, so that none of them borrows from its own siblings.
        """
        if not lane.path:
            return ()
        known, key = self._most_within[lane.path[0]], (lane, kind, guaranteed)
        found = known.get(key)
        if found is None:
            found = known[key] = self._find_most_within(lane, kind, guaranteed)
        return found

    def _find_most_within(self, lane: Lane, kind: int, guaranteed: bool) -> tuple[float, ...]:
        most, below, nothing = list[float](), math.inf, (NO_ENTITLEMENT,) * len(self._none)
        for account in reversed(lane.path):
            entitled, held = self._entitled.get(account, nothing), self._held.get(account, self._none)
            part = entitled[kind].guaranteed if guaranteed else entitled[kind].total
            if guaranteed and not kind and self.tree.guarantees_types_only(account):
                part = -math.inf
            most.append(min(part + _EPSILON - held[kind], below))
            below = min(below, entitled[0].total + _EPSILON - held[0])
        return tuple(reversed(most))

    def left_beside_guarantees(self, lane: Lane, kind: int) -> float:
        """How many more slots of a GPU type the lane may have, if all others have what is guaranteed to them of it."""
        around = {ROOT, *lane.path}
        others = sum(
            self._entitlement(account, kind).guaranteed
            for account in self._guaranteed
            if account not in around and account.rpartition("/")[0] in around
        )
        return self.standing.divisible[kind] - others - self.held(lane.own)[kind] + _EPSILON

    def lacks(self, lane: Lane) -> bool:
        """Whether the lane holds less than it is entitled to, or than is guaranteed to it of a GPU type."""
        if self.within(lane, len(lane.path) - 1, 1):
            return True
        kinds = range(1, len(self.tree.kinds))
        return any(self.depths_within(lane, 1, kind=kind, guaranteed=True) for kind in kinds)

    def promised_to_others(self, lane: Lane) -> set[str]:
        """GPU types of which queues that do not count the lane's slots lack some of a guarantee."""
        for account in self._changes.news():
            self._note_lacking(account)
        return {name for name, lacking in self._lacking.items() if not lacking.issubset(lane.path)}

    def covers(self, lane: Lane, slots: int) -> bool:
        """Whether the lane's accounts are entitled to this many slots, if all else in them were gone."""
        return all(self._entitlement(account, 0).total + _EPSILON >= slots for account in lane.path)

    def beyond(self, account: str, kind: int) -> float:
        """Slots that the account holds beyond what it is entitled to; of a GPU type, beyond what is guaranteed."""
        return self.held(account)[kind] - self._entitlement(account, kind).total + _EPSILON

    def held(self, account: str) -> Counts:
        return self._held.get(account, self._none)

    def lacking(self, lane: Lane, counts: Counts) -> list[Quota]:
        """What the lane's accounts lack below their limits for this many slots more, once nothing is leaving."""
        return [quota for quota in self._beyond_limits(lane, counts, {}) if quota.slots > 0]

    def room(self, lane: Lane, counts: Counts) -> bool:
        """Whether budgets and limits let the lane have this many slots more at once: those being freed are in use."""
        return not self.is_closed(lane) and all(
            quota.slots <= 0 for quota in self._beyond_limits(lane, counts, self._leaving)
        )

    def left(self, lane: Lane) -> float:
        """Slots, of whatever type, that no limit keeps the lane from having at once; none where it is closed."""
        if self.is_closed(lane):
            return 0.0
        leaving = self._leaving
        below = (limit.slots - self._of_limit(limit.account, limit.kind, leaving) for limit in lane.limits)
        return min(below, default=math.inf)

    def replaces(self, lane: Lane, counts: Counts) -> bool:
        """Whether limits let the lane have this many slots once it has given up as many."""
        beyond = self._beyond_limits(lane, counts, self._leaving)
        return all(quota.slots <= counts[quota.kind] for quota in beyond)

    def why_never(self, lane: Lane, counts: Counts, *, preemptible: bool) -> WaitReason | None:
        """Why a job of the lane that needs at least this many slots gets them whatever others give up; None: it may."""
        if self.is_closed(lane):
            known = all(queue.readable for account in lane.path if (queue := self.tree.queue(account)) is not None)
            return WaitReason.BUDGET_SPENT if known else WaitReason.QUEUE_UNREADABLE
        for quota in self._beyond_limits(lane, counts, {}):
            if quota.slots > self.held(quota.account)[quota.kind]:
                return quota.reason
        return WaitReason.NOT_GUARANTEED if not preemptible and not self.pins(lane, counts) else None

    def is_closed(self, lane: Lane) -> bool:
        """Whether its jobs get no more than they hold: a budget is spent, or a queue's row cannot be read."""
        return lane.inside(self.standing.closed)

    def pins(self, lane: Lane, counts: Counts) -> bool:
        """Whether guarantees cover this many slots more that nobody may take: of any type, or of theirs.

        Those of all queues around the lane count, and there has to be one; queues and users without a guarantee of
        their own may have what they are entitled to.
        """
        if not lane.guaranteed:
            return lane is TOP
        return all(self._covers(account, counts) for account in lane.guaranteed) and all(
            self._pinned.get(a, self._none)[0] + counts[0] <= self._entitlement(a, 0).total + _EPSILON
            for a in lane.path
        )

    def _covers(self, account: str, counts: Counts) -> bool:
        """Whether the guarantee of a queue covers all of these: of any type, or of each of the types that they name."""
        if self._covered(account, 0, counts[0]):
            return True
        pinned = self._pinned.get(account, self._none)[0]
        if sum(counts[1:]) < counts[0] or pinned + counts[0] > self.tree.guaranteed_at_most(account):
            return False
        return all(self._covered(account, kind, slots) for kind, slots in enumerate(counts) if kind and slots)

    def _covered(self, account: str, kind: int, slots: int) -> bool:
        guaranteed = self._entitlement(account, kind).guaranteed
        if not kind:  # what is guaranteed of GPU types comes and goes with who wants or holds some
            guaranteed = min(guaranteed, self.tree.guaranteed_of_any(account))
        return self._pinned.get(account, self._none)[kind] + slots <= guaranteed + _EPSILON

    def _beyond_limits(self, lane: Lane, counts: Counts, besides: Mapping[str, Counts]) -> Iterable[Quota]:
        """Slots beyond each limit of the lane's accounts if it gets this many more."""
        for account, kind, limit in lane.limits:
            if counts[kind]:
                yield Quota(account, kind, self._of_limit(account, kind, besides) + counts[kind] - limit)

    def _note_lacking(self, account: str) -> None:
        """Note of which GPU types the account lacks some of a guarantee."""
        held, entitled = self.held(account), self._entitled.get(account, ())
        for lacking, slots, part in zip(self._lacking.values(), held[1:], entitled[1:], strict=False):
            (lacking.add if slots + 1 <= part.guaranteed else lacking.discard)(account)

    def _of_limit(self, account: str, kind: int, besides: Mapping[str, Counts]) -> int:
        """Slots of the kind that count towards a limit of the account."""
        parts = (self._held.get(account), self.standing.elsewhere.get(account), besides.get(account))
        return sum(part[kind] for part in parts if part is not None)

    def _entitlement(self, account: str, kind: int) -> Entitlement:
        found = self._entitled.get(account)
        return found[kind] if found is not None else NO_ENTITLEMENT


@lru_cache(maxsize=4096)
def _typed(kinds: tuple[str, ...], gpu_type: str | None, slots: int) -> Counts:
    return tuple(slots if k == 0 or name == gpu_type else 0 for k, name in enumerate(kinds))


@lru_cache(maxsize=4096)
def _asked(kinds: tuple[str, ...], gpu_type: str | None, slots: int) -> Counts:
    return tuple(slots if k == 0 or gpu_type in (None, name) else 0 for k, name in enumerate(kinds))


def add_to(tally: dict[K, Counts], keys: Iterable[K], counts: Counts, sign: int = 1) -> None:
    """Add these slots to each of the sums, or with sign -1 subtract them."""
    more = counts if sign == 1 else tuple(sign * slots for slots in counts)
    for key in keys:
        before = tally.get(key)
        tally[key] = more if before is None else tuple(map(add, before, more))


@lru_cache(maxsize=4096)
def kind_of(counts: Counts) -> int:
    """The kind of the GPU type among these slots; 0: no queue names it."""
    return next((kind for kind, slots in enumerate(counts) if kind and slots), 0)
