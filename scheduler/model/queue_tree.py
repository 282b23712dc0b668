"""What follows from the tree of queues: what paths may be, who may submit where, and where jobs go that name none."""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

from scheduler.bounds import NAMED_MAX
from scheduler.errors import InvalidInput, UnreadableRow
from scheduler.model.queue import DEPTH_MAX, ROOT, Queue, ancestry

#: Queues by path.
Queues = Mapping[str, Queue]

#: Most queues that there may be: every tick divides the slots among all of them.
QUEUES_MAX = 1000
#: What brings back a queue whose row cannot be read.
REPLACE_IT = "set all of it anew with sched queue create {} (see sched db unreadable)"
#: Begins the name of a group among members.
GROUP_PREFIX = "@"

_NAME = r"[a-z0-9][a-z0-9_.-]{0,62}"
#: What every valid path is like.
PATH_PATTERN = rf"^{_NAME}(/{_NAME}){{0,{DEPTH_MAX - 1}}}$"
PATH_LENGTH_MAX = DEPTH_MAX * 64 - 1


def broken_path(path: str) -> str | None:
    """The rule that the path of a queue breaks."""
    names = path.split("/")
    if len(names) > DEPTH_MAX:
        return f"must have at most {DEPTH_MAX} levels, not {len(names)}"
    wrong = next((name for name in names if not re.fullmatch(_NAME, name)), None)
    if wrong is None:
        return None
    rule = "1 to 63 of a-z, 0-9, _, . and -, the first a letter or a digit, with a slash between two levels"
    return f"each name must be {rule}, not {wrong[:100]!r}"


def check_path(field: str, path: str) -> None:
    """Raise `InvalidInput` for a path that no queue may have."""
    if (rule := broken_path(path)) is not None:
        raise InvalidInput(field, rule)


def nearest(queues: Queues, path: str) -> str:
    """The path itself where there is such a queue, else that of the innermost one that would contain it."""
    return next((each for each in reversed(ancestry(path)) if each in queues), ROOT)


def chain(queues: Queues, path: str) -> Iterator[Queue]:
    """The queue and those that contain it, from the first level down, as far as they exist."""
    return (queues[each] for each in ancestry(path) if each in queues)


def members_of(queues: Queues, path: str) -> tuple[str, ...]:
    """Who may submit to the queue: its members, else those of the innermost queue around it that has any.

    None at all: everybody may.
    """
    found: tuple[str, ...] = ()
    for queue in chain(queues, path):
        found = queue.members or found
    return found


def is_member(members: Collection[str], user: str, groups: Collection[str]) -> bool:
    """Whether the user, or one of the user's groups, is among the members."""
    return user in members or any(f"{GROUP_PREFIX}{group}" in members for group in groups)


def check_exists(queues: Queues, path: str) -> None:
    """Raise `InvalidInput` for a job of a queue that does not exist, `UnreadableRow` where its rules are not known."""
    if path != ROOT and path not in queues:
        raise InvalidInput("queue", unknown_queue(path, queues))
    _check_readable(queues, path)


def _check_readable(queues: Queues, path: str) -> None:
    if (unread := unreadable_of(queues, path)) is not None:
        inside = f", and {path} is inside it" if path != unread else ""
        raise UnreadableRow(f"queue: {cannot_be_read(unread)}{inside}: {REPLACE_IT.format(unread)}")


def unreadable_of(queues: Queues, path: str) -> str | None:
    """The outermost queue on the way to this one whose row cannot be read; None: all can be."""
    return next((queue.path for queue in chain(queues, path) if not queue.readable), None)


def unreadable(queues: Queues) -> list[str]:
    """Paths of all queues whose rows cannot be read."""
    return [path for path, queue in queues.items() if not queue.readable]


def closed_queues(queues: Queues, spent: frozenset[str]) -> frozenset[str]:
    """Paths of queues whose jobs, with those of queues inside them, get no slots beyond those that they hold.

    `spent`: those with a spent budget.
    """
    return spent.union(unreadable(queues))


def cannot_be_read(path: str) -> str:
    """What is wrong with such a queue, for people."""
    return f"the row of queue {path} cannot be read"


def check_priority(queues: Queues, path: str, priority: int) -> None:
    """Raise `InvalidInput` for a priority above the lowest `priority_max` on the way to the queue.

    Raises `UnreadableRow` where that is not known.
    """
    _check_readable(queues, path)
    found = [(queue.priority_max, queue.path) for queue in chain(queues, path) if queue.priority_max is not None]
    if found and priority > min(found)[0]:
        highest, where = min(found)
        raise InvalidInput("priority", f"must be at most {highest}, as queue {where} says, not {priority}")


def not_a_member(queues: Queues, path: str, user: str, groups: Collection[str]) -> str | None:
    """Why the user may not submit to the queue, in one line; None if nothing keeps the user from it."""
    members = members_of(queues, path)
    if not members or is_member(members, user, groups):
        return None
    return f"{user or 'who has no name'} is not a member of {path}: its members are {listed(members)}"


def default_queue(queues: Queues, user: str, groups: Collection[str]) -> str:
    """The queue of the user's jobs that name none. Raises `InvalidInput` where several could be.

    It is the innermost one of which the user is a member by name, else by a group, else the root. Raises
    `UnreadableRow` instead of the last where the members of a queue are not known.
    """
    if user:
        for words in ({user}, {f"{GROUP_PREFIX}{group}" for group in groups}):
            found = _innermost([path for path, queue in queues.items() if not words.isdisjoint(queue.members)])
            if len(found) > 1:
                raise InvalidInput("queue", f"{user} is a member of {listed(found)}: name the one to submit to")
            if found:
                return found[0]
        if unread := unreadable(queues):
            unknown = f"so that it is not known whether {user} is a member of it"
            raise UnreadableRow(f"queue: {cannot_be_read(min(unread))}, {unknown}: name the queue to submit to")
    return ROOT


def unknown_queue(path: str, paths: Collection[str]) -> str:
    """What is wrong with the name of a queue that does not exist, in one line that says which do."""
    near = _innermost_of(ancestry(path), paths)
    beside = sorted(each for each in paths if each.rpartition("/")[0] == near)
    if beside:
        alike = get_close_matches(path, beside, NAMED_MAX, cutoff=0.0)
        told = f"{f'in {near} ' if near else ''}{'there is' if len(beside) == 1 else 'there are'}"
        return f"queue {path[:100]!r} does not exist: {told} {_told(sorted(alike), len(beside))}"
    return f"queue {path[:100]!r} does not exist: " + (f"the nearest is {near}" if near else "there are no queues")


def listed(names: Collection[str]) -> str:
    """The first names, and how many more there are."""
    return _told(sorted(names)[:NAMED_MAX], len(names))


def _told(shown: Collection[str], count: int) -> str:
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _innermost_of(way: Collection[str], paths: Collection[str]) -> str:
    return next((each for each in reversed(list(way)) if each in paths), ROOT)


def _innermost(paths: Collection[str]) -> list[str]:
    """Those that contain none of the others."""
    return [path for path in paths if not any(other.startswith(f"{path}/") for other in paths)]
