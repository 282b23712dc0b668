"""The queues as the live page shows them: what each holds and is entitled to. Pure: computed from a world."""

from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from scheduler.http.schemas.queue_loads import queue_loads
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import QueueShare
from scheduler.model.world import World

#: Most users of one queue that are named; those who hold the most.
USERS_MAX = 10
#: Most queues whose lines change from one picture to the next; the changes of others follow in the pictures after it.
CHANGED_MAX = 200


class QueueLine(TypedDict):
    """A queue in one line, with the queues inside it."""

    path: str
    slots_held: int
    #: Null: no plan has looked at it.
    slots_entitled: float | None
    #: Those of them that its guarantee covers.
    slots_guaranteed: float | None
    jobs_running: int
    jobs_waiting: int
    #: Users who share it, the slots that each holds and those that each is entitled to.
    users: list[tuple[str, int, float]]
    #: How many more there are.
    users_more: int
    #: Why none of its jobs starts, whatever is free: BUDGET_SPENT or QUEUE_UNREADABLE.
    trouble: str | None


class LinesInTurn:
    """The lines of one picture after the other, each with at most `changed_max` that changed.

    What changed waits for its turn: the longest wait first, then queues before those inside them. Once nothing else
    changes, all lines are told after a few pictures.
    """

    def __init__(self, changed_max: int = CHANGED_MAX) -> None:
        self._changed_max = changed_max
        self._told: Mapping[str, QueueLine] | None = None
        #: Paths whose lines are not yet told as they are.
        self.late: list[str] = []

    def next(self, lines: Mapping[str, QueueLine]) -> Mapping[str, QueueLine]:
        """The lines of the next picture. The first one has all of them."""
        told = self._told
        if told is not None:
            changed = {path for path, line in lines.items() if told.get(path) != line}
            new = sorted(changed.difference(self.late), key=lambda path: (path.count("/"), path))
            due = [*(path for path in self.late if path in changed), *new]
            self.late = due[self._changed_max :]
            now = set(due[: self._changed_max])
            lines = {
                path: line if path in now else told[path] for path, line in lines.items() if path in now or path in told
            }
        self._told = lines
        return lines


def queue_lines(world: World, shares: Sequence[QueueShare]) -> dict[str, QueueLine]:
    """All queues by path. `shares`: as the last plan saw them."""
    if not world.queues:
        return {}
    whole = {share.path: share for share in shares if share.user is None}
    of_users: dict[str, list[tuple[str, int, float]]] = {}
    for share in shares:
        if share.user is not None:
            of_users.setdefault(share.path, []).append((share.user, share.held, _rounded(share.entitled)))
    lines: dict[str, QueueLine] = {}
    for path, load in queue_loads(world.queues, world).items():
        mine = whole.get(path) if load.running + load.waiting else None
        users = sorted(of_users.get(path, ()), key=lambda user: (-user[1], user[0])) if mine is not None else []
        lines[path] = {
            "path": path,
            "slots_held": load.slots,
            "slots_entitled": None if mine is None else _rounded(mine.entitled),
            "slots_guaranteed": None if mine is None else _rounded(mine.guaranteed),
            "jobs_running": load.running,
            "jobs_waiting": load.waiting,
            "users": users[:USERS_MAX],
            "users_more": max(0, len(users) - USERS_MAX),
            "trouble": _trouble(world.queues[path].readable, load.spent),
        }
    return lines


def _trouble(readable: bool, spent: bool) -> str | None:
    if not readable:
        return WaitReason.QUEUE_UNREADABLE
    return WaitReason.BUDGET_SPENT if spent else None


def _rounded(slots: float) -> float:
    """As exact as it is shown, so that no smaller change is sent."""
    return round(slots, 1)
