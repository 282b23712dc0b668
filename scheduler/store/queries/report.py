"""A report over a span of time: everything is added up by the database, so that little is held however much it was."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, case, func, select

from scheduler.model.event import EventKind
from scheduler.model.job_state import JobState
from scheduler.model.report import Happened, Report, UserShare, Waits, Window
from scheduler.store.codec.reading import plain
from scheduler.store.queries.slot_usage import class_of, first_event, held_by_user, is_number, part_of, usage
from scheduler.store.sql.engine_tables import events, jobs

#: Kinds of events that a report counts.
COUNTED = (
    EventKind.JOB_SUBMITTED,
    EventKind.JOB_STARTED,
    EventKind.JOB_GREW,
    EventKind.JOB_SHRANK,
    EventKind.JOB_STOPPING,
    EventKind.JOB_REQUEUED,
    EventKind.JOB_SUCCEEDED,
    EventKind.JOB_FAILED,
    EventKind.JOB_CANCELLED,
    EventKind.WORKER_ENDED,
    EventKind.WORKER_REPLACED,
    EventKind.NODE_DOWN,
    EventKind.NODE_QUARANTINED,
)
_PERCENTS = (50, 90, 99)


def report(connection: Connection, window: Window, classes: Sequence[int], users: int) -> Report:
    """`classes`: lower bounds of priority classes, ascending; `users`: how many are named."""
    first = first_event(connection, window.since)
    return Report(
        usage=usage(connection, window, classes),
        happened=_happened(connection, window, first),
        waits=_waits(connection, window, first, classes),
        users=_users(connection, window, users),
    )


def _inside(window: Window, first: int) -> tuple[ColumnElement[bool], ...]:
    return events.c.id >= first, events.c.at >= window.since, events.c.at < window.until


def _happened(connection: Connection, window: Window, first: int) -> tuple[Happened, ...]:
    wanted = events.c.kind.in_([kind.value for kind in COUNTED])
    columns = (part_of(connection, events.c.at, window).label("part"), events.c.kind, events.c.cause, events.c.amount)
    each = select(*columns).where(*_inside(window, first), wanted).subquery()
    keys = (each.c.part, each.c.kind, each.c.cause)
    query = select(*keys, func.count(), func.coalesce(func.sum(each.c.amount), 0.0)).group_by(*keys).order_by(*keys)
    return tuple(Happened(*row) for row in connection.execute(query))


def _waits(connection: Connection, window: Window, first: int, classes: Sequence[int]) -> tuple[Waits, ...]:
    found = {each.priority_class: each for each in _starts(connection, window, first, classes)}
    position = class_of(jobs.c.priority, classes).label("position")
    mine = jobs.c.state == JobState.QUEUED.value, is_number(jobs.c.queued_at)
    queued = select(position, jobs.c.queued_at).where(*mine).subquery()
    query = select(queued.c.position, func.count(), func.min(queued.c.queued_at)).group_by(queued.c.position)
    for index, count, since in connection.execute(query):
        found[index] = replace(found.get(index, Waits(index)), waiting_now=count, queued_at_min=since)
    return tuple(sorted(found.values(), key=lambda each: -2 if each.priority_class is None else each.priority_class))


def _starts(connection: Connection, window: Window, first: int, classes: Sequence[int]) -> list[Waits]:
    """Each class's waits in their order, of which those are read that stand at the wanted ranks."""
    index = case((jobs.c.id.is_(None), None), else_=class_of(jobs.c.priority, classes)).label("position")
    waited = events.c.amount.label("waited")
    started = (
        select(index, waited)
        .join_from(events, jobs, jobs.c.id == events.c.job_id, isouter=True)
        .where(*_inside(window, first), events.c.kind == EventKind.JOB_STARTED.value, is_number(events.c.amount))
        .subquery()
    )
    place = func.row_number().over(partition_by=started.c.position, order_by=started.c.waited).label("place")
    of = func.count().over(partition_by=started.c.position).label("of")
    mean = func.avg(started.c.waited).over(partition_by=started.c.position).label("mean")
    ranked = select(started.c.position, started.c.waited, place, of, mean).subquery()
    ranks = [(ranked.c.of * percent + 99) // 100 for percent in (*_PERCENTS, 100)]
    rows = connection.execute(select(ranked).where(ranked.c.place.in_(ranks)).order_by(ranked.c.place)).all()
    result = []
    for position in {row.position for row in rows}:
        mine = [row for row in rows if row.position == position]
        count = mine[0].of
        at = {row.place: float(row.waited) for row in mine}
        half, most, nearly_all, longest = (at[(count * percent + 99) // 100] for percent in (*_PERCENTS, 100))
        result.append(Waits(position, count, float(mine[0].mean), half, most, nearly_all, longest))
    return result


def _users(connection: Connection, window: Window, limit: int) -> tuple[UserShare, ...]:
    each = held_by_user(connection, window)
    order = ((each.c.slot_seconds + each.c.shared_slot_seconds).desc(), each.c.user_name)
    return tuple(
        UserShare(plain(row.user_name), *row[1:])
        for row in connection.execute(select(each).order_by(*order).limit(limit))
    )
