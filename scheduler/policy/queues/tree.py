"""The tree of queues as the planner sees it: which of them count the slots of a job."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler import bounds
from scheduler.model.job import Job
from scheduler.model.queue import ANY_GPU, ROOT, Queue, ancestry
from scheduler.model.queue_tree import chain, nearest


class Limit(NamedTuple):
    """The most slots of a kind, by its index in `Tree.kinds`, that an account may hold."""

    account: str
    kind: int
    slots: int

    @property
    def of_user(self) -> bool:
        """Whether it is for each user of a queue."""
        return "@" in self.account


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Jobs that are counted in the same accounts; among those with the same `own` one, importance alone decides.

    Each lane is one object, so that lanes are compared by identity.
    """

    #: Accounts from the first level down to that of its queue, or of its user where users have shares of the queue;
    #: none for jobs above all queues. No path is the beginning of another one.
    path: tuple[str, ...]
    #: All that count its slots: these, and those of its user in queues that limit each user.
    accounts: tuple[str, ...]
    #: Those of queues from the first level down, then those of its user.
    limits: tuple[Limit, ...] = ()
    #: Accounts of its path that are queues with a guarantee.
    guaranteed: tuple[str, ...] = ()
    #: The last account of its path; empty for jobs above all queues.
    own: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "own", self.path[-1] if self.path else "")

    def inside(self, queues: frozenset[str]) -> bool:
        """Whether it is inside one of these queues."""
        return not queues.isdisjoint(self.path)

    def shared_levels(self, other: "Lane") -> int:
        """The number of accounts that both paths begin with."""
        pairs = enumerate(zip(self.path, other.path, strict=False))
        return next((k for k, (a, b) in pairs if a != b), min(len(self.path), len(other.path)))


#: The lane of jobs above all queues: all jobs where there are no queues, those of open bookings, and placeholders.
TOP = Lane((), ())


def queue_of(account: str) -> tuple[str, str | None]:
    """The path of the queue of an account, and the user where it is that of a user."""
    path, at, user = account.partition("@")
    return path.removesuffix("/."), user if at else None


def is_told(account: str) -> bool:
    """Whether the account is that of a queue, of a user, or of jobs in no queue: not of some jobs of a queue."""
    return not account.endswith("/.") or account == "/."


class Tree:
    """Queues by path, and the lanes of jobs.

    An *account* is what slots are counted for: a queue by its path, the jobs directly in a queue with inner ones as
    `path/.`, and a user in a queue as `path@user`.
    """

    def __init__(self, queues: Mapping[str, Queue] | None = None) -> None:
        queues = queues or {}
        self._queues = queues
        #: Queues that contain others, by path, with those directly inside them.
        self._inner: defaultdict[str, list[Queue]] = defaultdict(list)
        for queue in queues.values():
            self._inner[nearest(queues, queue.parent)].append(queue)
        self._lanes: dict[tuple[str, str], Lane] = {}
        #: By path, and accounts of users that are limited.
        self._by_path: dict[tuple[tuple[str, ...], tuple[str, ...]], Lane] = {}
        #: Kinds of slots that are counted: all, and those of each GPU type that a queue names.
        named = {kind for queue in queues.values() for kind, _ in (*queue.guarantee, *queue.limit)}
        self.kinds: tuple[str, ...] = (ANY_GPU, *sorted(named - {ANY_GPU}))
        #: By kind: queues that guarantee or limit slots of it, or that cannot be read, and all queues around these.
        self._naming = [self._named_in(kind) for kind in self.kinds]

    def __bool__(self) -> bool:
        """Whether there is any queue."""
        return bool(self._queues)

    def lane_of(self, job: Job) -> Lane:
        """The lane of the job."""
        if not self._queues or job.priority > bounds.PRIORITY.high:
            return TOP
        key = (job.spec.queue, job.spec.user)
        lane = self._lanes.get(key)
        if lane is None:
            accounts = self._accounts(*key)
            if accounts not in self._by_path:
                self._by_path[accounts] = self._lane(*accounts)
            lane = self._lanes[key] = self._by_path[accounts]
        return lane

    def accounts(self, path: str, user: str) -> tuple[str, ...]:
        """The accounts from the first level down that count the slots of the user's jobs in a queue."""
        return self._accounts(path, user)[0] if self._queues else ()

    def guarantees_types_only(self, account: str) -> bool:
        """Whether it is a queue that is guaranteed slots of GPU types, and none of any."""
        queue = self._queues.get(account)
        return queue is not None and bool(queue.guarantee) and ANY_GPU not in dict(queue.guarantee)

    def guaranteed_of_any(self, queue: str) -> int:
        """The slots of whatever GPU type that a queue is guaranteed."""
        return dict(self._queues[queue].guarantee).get(ANY_GPU, 0)

    def guaranteed_at_most(self, queue: str) -> int:
        """The slots that a queue is guaranteed of any type, or of the types that it names, if these are more."""
        typed = sum(slots for name, slots in self._queues[queue].guarantee if name != ANY_GPU)
        return max(self.guaranteed_of_any(queue), typed)

    def may_guarantee(self, lane: Lane, counts: Sequence[int]) -> bool:
        """Whether guarantees of the lane's queues would cover this many slots by kind, if they had no other job."""
        return bool(lane.guaranteed) and all(self._may_cover(self._queues[path], counts) for path in lane.guaranteed)

    def weight(self, account: str) -> float:
        """The weight of the account among its siblings."""
        queue = self._queues.get(account)
        return queue.weight if queue is not None else 1.0

    def divides(self, account: str, kind: int) -> bool:
        """Whether slots of the kind are divided inside the account: of a GPU type only where a queue names it."""
        return kind == 0 or account in self._naming[kind]

    def queue(self, account: str) -> Queue | None:
        """The queue of the account; None: it is that of a user, or of some jobs of a queue."""
        return self._queues.get(account)

    def _may_cover(self, queue: Queue, counts: Sequence[int]) -> bool:
        """Whether a guarantee could cover all of these: of any type, or of each of the types that they name."""
        if counts[0] <= self.guaranteed_of_any(queue.path):
            return True
        if sum(counts[1:]) < counts[0] or counts[0] > self.guaranteed_at_most(queue.path):
            return False
        by_type = zip(self.kinds[1:], counts[1:], strict=True)
        return all(slots <= self._guaranteed_of(queue, name) for name, slots in by_type if slots)

    def _guaranteed_of(self, queue: Queue, name: str) -> float:
        """Slots of a GPU type that a queue is guaranteed at most; infinite: what it was promised is not known."""
        promised = dict(queue.guarantee)
        if not queue.readable:
            return math.inf
        if name in promised:
            return promised[name]
        inner = sum(self._guaranteed_of(each, name) for each in self._inner.get(queue.path, ()))
        return min(promised.get(ANY_GPU, math.inf), inner)

    def _named_in(self, kind: str) -> set[str]:
        """Queues that name the kind, or that cannot be read, and all around these."""
        queues = self._queues.values()
        named = (each for each in queues if not each.readable or kind in dict((*each.guarantee, *each.limit)))
        return {ROOT, *(path for queue in named for path in ancestry(queue.path))}

    def _lane(self, path: tuple[str, ...], of_user: tuple[str, ...]) -> Lane:
        """The lane with this path, whose user is limited in these accounts."""
        queues = [queue for account in path if (queue := self._queues.get(account)) is not None]
        limits = [Limit(queue.path, self.kinds.index(name), slots) for queue in queues for name, slots in queue.limit]
        for account in of_user:
            most = self._queues[account.partition("@")[0]].user_limit
            assert most is not None, "it is the account of a limit"
            limits.append(Limit(account, 0, most))
        guaranteed = tuple(queue.path for queue in queues if queue.guarantee)
        return Lane(path, tuple(dict.fromkeys((*path, *of_user))), tuple(limits), guaranteed)

    def _accounts(self, path: str, user: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The path of accounts of such a job, and its user's accounts besides."""
        path = nearest(self._queues, path)
        limiting = (queue for queue in chain(self._queues, path) if queue.user_limit is not None)
        of_user = tuple(f"{queue.path}@{user}" for queue in limiting)
        own: tuple[str, ...] = ()
        if path in self._queues and self._queues[path].share_users:
            own = (f"{path}@{user}",)
        elif path in self._inner or path == ROOT:
            own = (f"{path}/.",)
        return ancestry(path) + own, of_user
