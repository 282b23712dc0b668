"""Queues: set by users, and read again by the next tick; and the check that a queue takes one more job.

Each change locks the ids first, as each submission does: none of them comes between what another looks at and writes.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, Connection, func, insert, select

from scheduler.errors import Conflict, InvalidInput, LimitReached, NotFound, UnreadableRow
from scheduler.model.event import Event, EventKind
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import JobSpec
from scheduler.model.queue import ROOT, Queue, ancestry
from scheduler.model.queue_changes import difference
from scheduler.model.queue_tree import (
    QUEUES_MAX,
    REPLACE_IT,
    broken_path,
    cannot_be_read,
    check_exists,
    check_path,
    listed,
    unknown_queue,
)
from scheduler.model.words import counted
from scheduler.store.codec.reading import SetAside, only
from scheduler.store.codec.rows import event_values, intent_values, queue_from_row, queue_values
from scheduler.store.requests import recurring, tokens
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.engine_tables import IS_OF_A_QUEUE, jobs
from scheduler.store.sql.request_tables import queues
from scheduler.store.sql.sequences import take_ids

#: Makes the queue that is to be stored of the one that is; None: there is none.
Make = Callable[[Queue | None], Queue]

# Put together once: those that follow look at every commit.
_ALL = select(queues).order_by(queues.c.path)
_PATHS = select(queues.c.path)
_NAMED_BY_JOBS = select(jobs.c.queue).where(IS_OF_A_QUEUE).distinct()


def present(connection: Connection, aside: SetAside) -> tuple[Queue, ...]:
    """All of them by path; of those whose rows cannot be read, nothing is known but that."""
    before = len(aside.found)
    found = tuple(aside.read(queues, connection.execute(_ALL), queue_from_row))
    lost = [row.key[0] for row in aside.found[before:]]
    if not lost:
        return found
    # A row that does not even tell its path is that of a queue which something else still names.
    named = [*lost, *connection.execute(_NAMED_BY_JOBS).scalars(), *(queue.path for queue in found)]
    paths = {each for path in named if isinstance(path, str) and broken_path(path) is None for each in ancestry(path)}
    unread = (Queue(path, 0.0, readable=False) for path in paths - {queue.path for queue in found})
    return tuple(sorted((*found, *unread), key=lambda queue: queue.path))


def get(connection: Connection, path: str) -> Queue | None:
    """Raises `UnreadableRow`."""
    row = connection.execute(select(queues).where(queues.c.path == path)).one_or_none()
    return None if row is None else only(queues, row, queue_from_row)


def write(
    connection: Connection, statements: Statements, path: str, make: Make, now: float, *, anew: bool = False
) -> Queue:
    """Store what is made of the queue, with its QUEUE intent and event; raises what `make` raises.

    `anew`: nothing of the stored queue is kept, so that its row need not be readable. Raises `InvalidInput` for a path
    that no queue may have or whose parent does not exist, `Conflict` where there are too many queues.
    """
    check_path("path", path)
    take_ids(connection)  # none, until something is stored
    try:
        before = get(connection, path)
    except UnreadableRow:
        if not anew:
            raise UnreadableRow(f"{cannot_be_read(path)}: {REPLACE_IT.format(path)}") from None
        before = None
    after = make(before)
    if after == before:
        return after
    paths = set(connection.execute(_PATHS).scalars())
    _check_place(after, paths)
    if path in paths:
        connection.execute(queues.update().where(queues.c.path == path).values(queue_values(after)))
    else:
        connection.execute(insert(queues), queue_values(after))
    _tell(connection, statements, Event(now, EventKind.QUEUE_SET, detail=_line(path, before, after)), path)
    return after


def delete(connection: Connection, statements: Statements, path: str, now: float, wall: float) -> None:
    """Remove the queue. Raises `NotFound`, or `Conflict` while it contains or is named by anything that is in use.

    `wall`: the present moment of the machine's clock, by which tokens expire.
    """
    take_ids(connection)  # none, until something is stored
    paths = set(connection.execute(_PATHS).scalars())
    if path not in paths:
        raise NotFound(unknown_queue(path, paths))
    if inner := [each for each in paths if each.startswith(f"{path}/")]:
        raise Conflict(f"queue {path} contains {listed(inner)}: delete what is inside first")
    if unfinished := _unfinished(connection, path):
        raise Conflict(f"queue {path} contains {_jobs(unfinished)}: cancel what is inside, or wait for its end")
    if named := _names(recurring.naming(connection, path), tokens.naming(connection, path, wall)):
        raise Conflict(f"queue {path} is named by {named}")
    connection.execute(queues.delete().where(queues.c.path == path))
    _tell(connection, statements, Event(now, EventKind.QUEUE_DELETED, detail=path), path)


def admit(connection: Connection, specs: Sequence[JobSpec]) -> None:
    """Check that the queues of new jobs exist and take them. Whoever calls has taken the ids of these jobs.

    Raises `InvalidInput` for a queue that does not exist, `UnreadableRow` for one whose rules are not known, and
    `LimitReached` for one that takes no more jobs.
    """
    wanted = Counter(spec.queue for spec in specs if spec.queue != ROOT)
    if not wanted:
        return
    way = sorted({path for queue in wanted for path in ancestry(queue)})
    rows = connection.execute(_ALL.where(queues.c.path.in_(way)))
    known = {queue.path: queue for queue in SetAside().read(queues, rows, queue_from_row)}
    if len(known) < len(way):
        known = {queue.path: queue for queue in present(connection, SetAside())}
        for path in wanted:
            check_exists(known, path)
    for queue in (known[path] for path in way if path in known):
        if queue.max_jobs is not None:
            coming = sum(count for path, count in wanted.items() if queue.path in ancestry(path))
            _check_room(queue.path, queue.max_jobs, _unfinished(connection, queue.path), coming)


def check_named(connection: Connection, path: str) -> None:
    """Check that there is a queue of this name, before something is stored that names it. Raises `InvalidInput`."""
    if path == ROOT:
        return
    take_ids(connection)  # none, but a deletion comes before or after this
    paths = set(connection.execute(_PATHS).scalars())
    if path not in paths:
        raise InvalidInput("queue", unknown_queue(path, paths))


def _names(recurring_jobs: Sequence[int], of_users: Sequence[tuple[int, str]]) -> str:
    """What names a queue and would be without one, and what to do about it, in one line; empty if nothing does."""
    parts, todo = [], []
    if recurring_jobs:
        names = [f"r{number}" for number in recurring_jobs]
        parts.append(f"the recurring job{'s' * (len(names) > 1)} {listed(names)}")
        todo.append("cancel")
    if of_users:
        names = [f"{number} ({user})" for number, user in of_users]
        parts.append(f"the token{'s' * (len(names) > 1)} {listed(names)}")
        todo.append("revoke")
    return f"{' and '.join(parts)}: {' and '.join(todo)} what names it first" if parts else ""


def _check_room(path: str, max_jobs: int, unfinished: int, coming: int) -> None:
    if unfinished + coming > max_jobs:
        room = max(max_jobs - unfinished, 0)
        asked = "" if coming == 1 else f", and {coming} more were submitted where {room} would fit"
        raise LimitReached(
            f"queue: {path} contains {_jobs(unfinished)}, of at most {max_jobs}{asked}: wait until some have ended"
        )


def _jobs(unfinished: int) -> str:
    return f"{counted(unfinished, 'job')} that {'has' if unfinished == 1 else 'have'} not ended"


def _check_place(queue: Queue, paths: set[str]) -> None:
    if queue.parent != ROOT and queue.parent not in paths:
        raise InvalidInput("path", f"{unknown_queue(queue.parent, paths)}; create the outer queue first")
    if queue.path not in paths and len(paths) >= QUEUES_MAX:
        raise Conflict(f"there are {QUEUES_MAX:,} queues already: delete those that nobody needs")


def _unfinished(connection: Connection, path: str) -> int:
    """How many jobs that have not ended the queue contains, with those of inner queues."""
    below = queues.c.path.startswith(f"{path}/", autoescape=True)
    mine: ColumnElement[bool] = jobs.c.queue.in_(_PATHS.where((queues.c.path == path) | below))
    query = select(func.count()).select_from(jobs).where(mine, IS_OF_A_QUEUE)
    return int(connection.execute(query).scalar_one())


def _tell(connection: Connection, statements: Statements, event: Event, path: str) -> None:
    taken = take_ids(connection, intents=1, events=1)
    intent = Intent(taken.intent, IntentKind.QUEUE, event.at, queue=path)
    statements.insert_intents.run(connection, [intent_values(intent)])
    statements.insert_events.run(connection, [event_values(taken.event, event)])


def _line(path: str, before: Queue | None, after: Queue) -> str:
    return f"{path}: {difference(before, after)}"
