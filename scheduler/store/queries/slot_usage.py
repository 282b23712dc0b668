"""Slots over time, from the rows of workers and the events of nodes: sums by part of a window, made by the database."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Double,
    Subquery,
    and_,
    case,
    cast,
    func,
    literal,
    select,
    union_all,
)

from scheduler.model.event import EventKind
from scheduler.model.job_state import TERMINAL_STATES, JobState
from scheduler.model.node import NodeHealth
from scheduler.model.report import Held, Kept, Usage, Window, slot_seconds
from scheduler.store.sql.engine_tables import counters, events, jobs, nodes, workers

#: Events are committed at most about a tick after the time that they bear; their ids follow the commits.
LATE_SECONDS = 120.0
_OPEN = sorted(state.value for state in JobState if state not in TERMINAL_STATES)
_NODE_KINDS = (
    EventKind.NODE_UP.value,
    EventKind.NODE_DOWN.value,
    EventKind.NODE_HELD.value,
    EventKind.NODE_RESIZED.value,
)
#: Beyond all that is stored.
_NUMBER_MAX = 1e40


def usage(connection: Connection, window: Window, classes: Sequence[int]) -> Usage:
    """`classes`: lower bounds of priority classes, ascending."""
    held = _held(connection, window)
    times = [(held.c.slots * at).label(at.name) for at in (held.c.begun, held.c.ended)]
    # Computed below the grouping: PostgreSQL does not see that two expressions with parameters are the same.
    position = class_of(held.c.priority, classes).label("position")
    rows = select(position, held.c.shared, held.c.first, held.c.last, held.c.slots, *times).subquery()
    keys = (rows.c.shared, rows.c.position, rows.c.first, rows.c.last)
    sums = [func.sum(each) for each in (rows.c.slots, rows.c.begun, rows.c.ended)]
    by_class: dict[int, list[Held]] = {}
    shared_slot_seconds = 0.0
    for shared, index, first, last, *amounts in connection.execute(select(*keys, *sums).group_by(*keys)):
        slots, begun, ended = map(float, amounts)
        if shared:
            shared_slot_seconds += ended - begun
        else:
            by_class.setdefault(index, []).append(Held(first, last, slots, begun, ended))
    up = [each for each in _capacity(connection, window) if each.slots_ended > each.slots_begun]
    return Usage(
        window=window,
        kept=kept(connection, window.until),
        slots_since=_begin(window, up),
        capacity=slot_seconds(window, up),
        used={index: slot_seconds(window, by_class[index]) for index in sorted(by_class)},
        shared_slot_seconds=shared_slot_seconds,
    )


def held_by_user(connection: Connection, window: Window) -> Subquery:
    """Jobs, slot-seconds and shared ones of each user."""
    held = _held(connection, window)
    each = held.c.slots * (held.c.ended - held.c.begun)
    return (
        select(
            held.c.user_name,
            func.count(held.c.job_id.distinct()).label("jobs"),
            func.sum(case((held.c.shared.is_(True), 0.0), else_=each)).label("slot_seconds"),
            func.sum(case((held.c.shared.is_(True), each), else_=0.0)).label("shared_slot_seconds"),
        )
        .group_by(held.c.user_name)
        .subquery()
    )


def _held(connection: Connection, window: Window) -> Subquery:
    """Workers that held slots in the window: how many, between which seconds of it, and in which parts."""
    begun, ended, until = workers.c.created_at - window.since, _end(window), window.until - window.since
    columns = (
        jobs.c.id.label("job_id"),
        jobs.c.user_name,
        jobs.c.priority,
        workers.c.shared,
        _slot_count().label("slots"),
        case((begun < 0.0, 0.0), else_=begun).label("begun"),
        case((ended > until, until), else_=ended).label("ended"),
    )
    inside = and_(workers.c.created_at < window.until, ended > 0.0)
    base = select(*columns).join_from(jobs, workers, workers.c.job_id == jobs.c.id)
    # Two reads, each with an index of its own.
    rows = union_all(
        base.where(jobs.c.finished_at >= window.since, inside), base.where(jobs.c.state.in_(_OPEN), inside)
    ).subquery()
    first = _part(connection, rows.c.begun, window)
    last = case((rows.c.ended >= until, window.parts), else_=_part(connection, rows.c.ended, window))
    return select(*rows.c, first.label("first"), last.label("last")).subquery()


def _end(window: Window) -> ColumnElement[float]:
    """Seconds from the window's start to the worker's end; one that lives goes on beyond the window."""
    return func.coalesce(workers.c.ended_at - window.since, literal(window.until - window.since, Double))


def _slot_count() -> ColumnElement[int]:
    """Of a JSON list of numbers: one more than its commas."""
    commas = func.length(workers.c.slot_ids) - func.length(func.replace(workers.c.slot_ids, ",", ""))
    return case((workers.c.slot_ids == "[]", 0), else_=commas + 1)


def _part(connection: Connection, seconds: ColumnElement[float], window: Window) -> ColumnElement[int]:
    step = literal(window.step_seconds, Double)
    part = whole(connection, seconds / step)
    # What is next to nothing is not divided: PostgreSQL raises an error where the result is too small for a number.
    return case((seconds < step, 0), (part >= window.parts, window.parts - 1), else_=part)


def part_of(connection: Connection, at: ColumnElement[float], window: Window) -> ColumnElement[int]:
    """The part of the window that a time inside of it belongs to."""
    return _part(connection, at - window.since, window)


def whole(connection: Connection, number: ColumnElement[float]) -> ColumnElement[int]:
    """Without its fraction: a cast rounds on PostgreSQL, and SQLite need not know any function for it."""
    return cast(number if connection.dialect.name == "sqlite" else func.trunc(number), BigInteger)


def is_number(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether the column holds a number of a possible size: texts, NaN and infinity stand above all numbers."""
    return column.between(-_NUMBER_MAX, _NUMBER_MAX)


def class_of(priority: ColumnElement[int], classes: Sequence[int]) -> ColumnElement[int]:
    """The position of the highest class that the priority reaches; -1: none."""
    steps = [(priority >= bound, index) for index, bound in reversed(list(enumerate(classes)))]
    return case(*steps, else_=-1) if steps else literal(-1)


def kept(connection: Connection, until: float) -> Kept:
    """What retention has left: ids begin with 1 and have no gaps but what it made."""
    ids = connection.execute(select(counters.c.jobs)).scalar_one()
    stored = connection.execute(select(func.count()).select_from(jobs)).scalar_one()
    # Those that ended first went first.
    oldest_end = select(func.min(jobs.c.finished_at)).where(is_number(jobs.c.finished_at))
    first = connection.execute(select(events.c.id, events.c.at).order_by(events.c.id).limit(1)).one_or_none()
    first_at = first.at if first is not None and isinstance(first.at, float) else until
    taken = connection.execute(select(counters.c.events)).scalar_one()
    events_gone = first.id > 1 if first is not None else taken > 0
    return Kept(
        jobs_since=(connection.execute(oldest_end).scalar_one() or until) if stored < ids else None,
        events_since=first_at if events_gone else None,
    )


def first_event(connection: Connection, since: float) -> int:
    """An id that no event since then is below, found in a few looks: there is no index on time."""
    low = connection.execute(select(func.min(events.c.id))).scalar_one() or 0
    high = (connection.execute(select(func.max(events.c.id))).scalar_one() or 0) + 1
    while low < high:
        middle = (low + high) // 2
        query = select(events.c.at).where(events.c.id >= middle).order_by(events.c.id).limit(1)
        at = connection.execute(query).scalar_one_or_none()
        if not isinstance(at, float) or at >= since - LATE_SECONDS:
            high = middle
        else:
            low = middle + 1
    return low


def _capacity(connection: Connection, window: Window) -> Iterator[Held]:
    """Slots of nodes while they were up: back from what each node is now, by the events of nodes."""
    span = window.until - window.since
    present = {
        row.name: (row.slots, row.health == NodeHealth.UP.value)
        for row in connection.execute(
            select(nodes.c.name, nodes.c.slots, nodes.c.health).where(is_number(nodes.c.slots))
        )
    }
    #: Slots that are up, and until which second.
    up = {name: (float(slots) if is_up else 0.0, span) for name, (slots, is_up) in present.items()}
    for name, at, kind, amount in _node_events(connection, window):
        seconds = min(max(at - window.since, 0.0), span)
        after, ended = up.get(name, (0.0, span))
        # Events of earlier versions have no amount: the node counts as large as it is now, or not at all if it is gone.
        match kind:
            case EventKind.NODE_UP.value:
                before, after = 0.0, after if amount is None else amount
            case EventKind.NODE_DOWN.value:
                before, after = present.get(name, (0.0, False))[0] if amount is None else amount, 0.0
            case EventKind.NODE_HELD.value:
                before, after = amount or 0.0, 0.0
            case _:
                before = after - (amount or 0.0)
        yield _holding(window, after, seconds, ended)
        up[name] = before, seconds
    for slots, ended in up.values():
        yield _holding(window, slots, 0.0, ended)


def _node_events(connection: Connection, window: Window) -> Iterator[Any]:
    """The newest first."""
    amount = case((is_number(events.c.amount), events.c.amount), else_=None)
    query = (
        select(events.c.node, events.c.at, events.c.kind, amount)
        .where(events.c.id >= first_event(connection, window.since), events.c.kind.in_(_NODE_KINDS))
        .where(events.c.at >= window.since, is_number(events.c.at))
        .order_by(events.c.id.desc())
    )
    with connection.execute(query, execution_options={"yield_per": 1000}) as result:
        yield from result


def _holding(window: Window, slots: float, began: float, ended: float) -> Held:
    first, last = (min(int(at / window.step_seconds), window.parts) for at in (began, ended))
    return Held(first, last, slots, slots * began, slots * ended)


def _begin(window: Window, up: Iterable[Held]) -> float | None:
    """When there came to be slots in the window, or were already; None: there were none."""
    begun = min((each.slots_begun / each.slots for each in up), default=None)
    return None if begun is None else window.since + begun
