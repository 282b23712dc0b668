"""A queue: the jobs of one team, in a tree of queues among which the slots of the cluster are divided."""

from dataclasses import dataclass

from scheduler import bounds
from scheduler.errors import InvalidInput
from scheduler.model.words import counted

#: Slots of any GPU type, in guarantees and limits.
ANY_GPU = "*"
#: The queue that holds all others, and the jobs that name none.
ROOT = ""
#: Names in a path, from the root down.
DEPTH_MAX = 8

#: Slots by GPU type, or of any; each type once, sorted.
SlotsByType = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Queue:
    """A part of the cluster's users: what is promised to their jobs together, and what they may not exceed."""

    #: Names from the root down, joined by slashes: `lab/vision`.
    path: str
    created_at: float
    #: Slots that its jobs get back from borrowers whenever they need them.
    guarantee: SlotsByType = ()
    #: Slots that its jobs never exceed together; a GPU type that is not named is not limited.
    limit: SlotsByType = ()
    #: Its part of what is lent, against that of its siblings.
    weight: float = 1.0
    #: Whether what the queue has is divided among its users, all of one weight.
    share_users: bool = False
    #: Slots that one user may hold in it; None: up to the queue's own limit.
    user_limit: int | None = None
    #: The highest priority that its jobs may have; None: any.
    priority_max: int | None = None
    #: Jobs that it may contain before they end; None: any number.
    max_jobs: int | None = None
    #: Slot-hours that its jobs, with those of the queues inside it, may hold in a calendar month; None: any number.
    budget: int | None = None
    #: Users, and groups as `@name`, who may submit to it and to the queues inside it; empty: as its parent says.
    members: tuple[str, ...] = ()
    #: Whether its row can be read. If not, what is set of it is not known: it takes no new jobs, and its jobs get no
    #: slots beyond those that they hold.
    readable: bool = True

    def __post_init__(self) -> None:
        bounds.WEIGHT.check("weight", self.weight)
        for kind, slots in (*self.guarantee, *self.limit):
            bounds.SLOTS_OF_QUEUE.check(f"slots of {gpu_words(kind)}", slots)
        bounds.SLOTS_OF_QUEUE.check("user_limit", self.user_limit)
        bounds.PRIORITY.check("priority_max", self.priority_max)
        bounds.JOBS_OF_QUEUE.check("max_jobs", self.max_jobs)
        bounds.BUDGET.check("budget", self.budget)
        for kind, slots in self.guarantee:
            self._check_limit(kind, slots, limited=kind)

    @property
    def parent(self) -> str:
        """Path of the queue that contains it; the root's is empty."""
        return self.path.rpartition("/")[0]

    def check_guarantee(self) -> None:
        """Raise `InvalidInput` for a guarantee of a GPU type above the limit of any type, which can never be met.

        It is asked for what somebody sets: a stored queue may have such a guarantee.
        """
        for kind, slots in self.guarantee:
            self._check_limit(kind, slots, limited=ANY_GPU)

    def _check_limit(self, kind: str, slots: int, *, limited: str) -> None:
        """Raise `InvalidInput` for a guarantee above the limit of this kind."""
        limit = dict(self.limit).get(limited, slots)
        if slots > limit:
            rule = f"{slots_words(kind, slots)} cannot be guaranteed beside the limit of {slots_words(limited, limit)}"
            raise InvalidInput("guarantee", f"{rule}: guarantee at most {limit}, or raise the limit")


def gpu_words(kind: str) -> str:
    """A GPU type in guarantees and limits, in words."""
    return "any GPU type" if kind == ANY_GPU else f"GPU type {kind}"


def slots_words(kind: str, slots: int) -> str:
    """Slots of a GPU type, or of any, in words."""
    return f"{counted(slots, 'slot')} of {gpu_words(kind)}"


def ancestry(path: str) -> tuple[str, ...]:
    """The path and those of the queues that contain it, from the first level down to itself; none for the root."""
    names = path.split("/") if path else []
    return tuple("/".join(names[: k + 1]) for k in range(len(names)))
