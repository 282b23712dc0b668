"""The queues as the live page shows them: what each holds and is entitled to. Pure: computed from a world."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from scheduler.http.schemas.queue_loads import queue_loads
from scheduler.model.plan import QueueShare
from scheduler.model.world import World

#: Most users of one queue that are named; those who hold the most.
USERS_MAX = 10


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
    #: Users among whom it is divided, the slots that each holds and those that each is entitled to.
    users: list[tuple[str, int, float]]
    #: How many more there are.
    users_more: int


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
        }
    return lines


def _rounded(slots: float) -> float:
    """As exact as it is shown, so that no smaller change is sent."""
    return round(slots, 1)
