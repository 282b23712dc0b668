"""What accounts came to in a span of whole hours: what is charged, and what is held now up to the present.

Jobs have no accounts of their own: as long as they are stored, their workers tell what each held, and their events what
of it was lost. What was lent of an account's slots in an hour is divided among its jobs by what they held in it. The
rest of an account is that of jobs which retention has removed: their number is 0. Hours are those of people's clocks as
they stood at the time, since accounts were charged by them.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from sqlalchemy import Connection, and_, case, func, or_, select

from scheduler.model.account import (
    LOSING,
    AccountKey,
    AccountSum,
    Charge,
    charges_of,
    folded,
    hour_of,
    summed,
)
from scheduler.model.ids import JobId, worker_id
from scheduler.store.codec.account_rows import charge_from_row, holding_from_row
from scheduler.store.codec.reading import SetAside, plain
from scheduler.store.queries.clock_leads import Leads, Stretch, leads
from scheduler.store.queries.slot_usage import first_event, is_number
from scheduler.store.sql.engine_tables import events, holdings, jobs, node_types, usage, workers

_KEYS = {"queue": usage.c.queue, "user": usage.c.user_name, "gpu_type": usage.c.gpu_type}
_SUMS = (usage.c.held_seconds, usage.c.lent_seconds, usage.c.lost_seconds)
_OF_WORKER = (
    *(workers.c.ordinal, workers.c.fixed_index, workers.c.slot_ids),
    *(workers.c.created_at, workers.c.ended_at),
)
_HELD = select(holdings).where(holdings.c.held_slots != 0)
_LOSING = sorted(kind.value for kind in LOSING)
#: Less than this is what sums of floats leave over; slot-seconds.
_NOTHING = 1e-3


@dataclass(frozen=True, slots=True)
class Span:
    """Hours, the last one not included, as far as they are over at a moment of the engine's clock."""

    first: int
    last: int
    now: float


def sums(connection: Connection, span: Span, by: Collection[str]) -> list[AccountSum]:
    """Sums by these of queue, user, gpu_type and job."""
    ahead = leads(connection)
    if "job" in by:
        return folded(_of_jobs(connection, span, ahead), by)
    live = (AccountSum(*each.key, None, each.held, each.lent, 0.0) for each in _live(connection, span, ahead))
    return folded(chain(_stored(connection, span, by), live), by)


def first_hour(connection: Connection) -> int | None:
    """The hour in which accounts begin; None: nothing was ever held."""
    charged = connection.execute(select(func.min(usage.c.hour)).where(is_number(usage.c.hour))).scalar_one()
    since = connection.execute(select(func.min(holdings.c.at)).where(is_number(holdings.c.at))).scalar_one()
    begun = [] if since is None else [hour_of(since, leads(connection).at(since))]
    return min([*begun, *([] if charged is None else [int(charged)])], default=None)


def _stored(connection: Connection, span: Span, by: Collection[str]) -> Iterator[AccountSum]:
    """What is charged in these hours, summed by the database."""
    keys = [column for name, column in _KEYS.items() if name in by]
    added = [func.sum(case((is_number(each), each), else_=0.0)).label(each.name) for each in _SUMS]
    inside = usage.c.hour >= span.first, usage.c.hour < span.last
    for row in connection.execute(select(*keys, *added).where(*inside).group_by(*keys)):
        found = row._mapping
        queue, user, gpu_type = (plain(found[each.name]) if each.name in found else None for each in _KEYS.values())
        yield AccountSum(queue, user, gpu_type, None, *(float(found[each.name] or 0.0) for each in _SUMS))


def _live(connection: Connection, span: Span, ahead: Leads) -> Iterator[Charge]:
    """What is held now and not charged yet, in these hours: when clocks are set, all is charged."""
    for holding in SetAside().read(holdings, connection.execute(_HELD).all(), holding_from_row):
        for charge in charges_of(holding, span.now, ahead.present_seconds):
            if span.first <= charge.hour < span.last:
                yield charge


def _of_jobs(connection: Connection, span: Span, ahead: Leads) -> Iterator[AccountSum]:
    """The accounts of each hour, divided among jobs."""
    losses = _losses(connection, span, ahead)
    held = _held(connection, span, ahead, losses)
    lost: dict[AccountKey, float] = defaultdict(float)
    for charge in _by_hour(connection, span, ahead):
        parts = held[charge.hour, charge.key].divided(charge.held, ahead.doubt_seconds)
        whole = sum(parts.values())
        for job, seconds in parts.items():
            yield AccountSum(*charge.key, job, seconds, charge.lent * seconds / whole if whole else 0.0, 0.0)
        lost[charge.key] += charge.lost
    for job, key, seconds in ((job, *part) for job, mine in losses.items() for loss in mine for part in loss.parts()):
        yield AccountSum(*key, job, 0.0, 0.0, seconds)
        lost[key] -= seconds
    yield from (AccountSum(*key, 0, 0.0, 0.0, seconds) for key, seconds in lost.items() if seconds > _NOTHING)


def _held(
    connection: Connection, span: Span, ahead: Leads, losses: Mapping[int, Sequence["_Loss"]]
) -> Mapping[tuple[int, AccountKey], "_Hour"]:
    """What jobs held in each hour, by their accounts; the workers of a job are shown to its losses."""
    held: dict[tuple[int, AccountKey], _Hour] = defaultdict(_Hour)
    stretches = ahead.stretches(span.first, span.last, span.now)
    for worker in _workers(connection, stretches):
        for stretch in stretches:
            for hour, seconds in stretch.hours(worker.since, worker.until):
                held[hour, worker.key].see(worker, seconds)
        for loss in losses.get(worker.job, ()):
            loss.see(worker)
    return held


def _by_hour(connection: Connection, span: Span, ahead: Leads) -> Iterator[Charge]:
    query = select(usage).where(usage.c.hour >= span.first, usage.c.hour < span.last)
    stored = SetAside().read(usage, connection.execute(query), charge_from_row)
    return iter(summed(chain(stored, _live(connection, span, ahead))))


class _Worker(NamedTuple):
    job: int
    key: AccountKey
    id: str
    fixed: bool
    slots: int
    since: float
    #: Infinite: it lives.
    until: float
    #: Whether this is all of it, or the last part: its node had another GPU type before.
    last: bool


@dataclass(slots=True)
class _Hour:
    """What the jobs of an account held in an hour."""

    slot_seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    #: Of all their workers.
    slots: int = 0

    def see(self, worker: _Worker, seconds: float) -> None:
        """A worker that lived for so long in this hour."""
        self.slot_seconds[worker.job] += worker.slots * seconds
        self.slots += worker.slots

    def divided(self, charged: float, doubt_seconds: float) -> dict[int, float]:
        """What the account was charged, by job, where the hour's ends are in doubt by so much."""
        mine = sum(self.slot_seconds.values())
        if mine and abs(charged - mine) <= self.slots * doubt_seconds:
            return {job: seconds * charged / mine for job, seconds in self.slot_seconds.items()}
        rest = {0: charged - mine} if charged - mine > _NOTHING else {}
        return {**self.slot_seconds, **rest}


@dataclass(slots=True)
class _Loss:
    """Work of a job that was lost, and the slots on which it was done."""

    at: float
    slot_seconds: float
    #: Of the worker that lost it; None: the job was stopped.
    worker: str | None
    slots: dict[AccountKey, int] = field(default_factory=dict)

    def see(self, worker: _Worker) -> None:
        """A worker of the job."""
        stopped = self.worker is None and not worker.fixed and worker.since <= self.at <= worker.until
        if stopped or (self.worker == worker.id and worker.last):
            self.slots[worker.key] = self.slots.get(worker.key, 0) + worker.slots

    def parts(self) -> Iterator[tuple[AccountKey, float]]:
        whole = sum(self.slots.values())
        return ((key, self.slot_seconds * slots / whole) for key, slots in self.slots.items() if whole)


def _workers(connection: Connection, stretches: Sequence[Stretch]) -> Iterator[_Worker]:
    """The stored workers that held slots of their own in these times, one for each GPU type that their node had."""
    if not stretches:
        return
    types = _types(connection)
    since, until = min(each.since for each in stretches), max(each.until for each in stretches)
    ended = and_(workers.c.ended_at >= since, is_number(workers.c.ended_at))
    inside = workers.c.created_at < until, or_(workers.c.ended_at.is_(None), ended)
    query = (
        select(jobs.c.id, jobs.c.queue, jobs.c.user_name, workers.c.node, *_OF_WORKER)
        .join_from(workers, jobs, jobs.c.id == workers.c.job_id)
        .where(*inside, or_(jobs.c.finished_at.is_(None), jobs.c.finished_at >= since))
        .where(workers.c.shared.is_not(True), is_number(workers.c.created_at))
    )
    with connection.execute(query, execution_options={"yield_per": 1000}) as result:
        for row in result:
            slots = 0 if row.slot_ids == "[]" else row.slot_ids.count(",") + 1
            name, end = worker_id(JobId(row.id), row.ordinal), math.inf if row.ended_at is None else row.ended_at
            for gpu_type, begun, over in _parts(types.get(row.node, ()), row.created_at, end):
                key = AccountKey(plain(row.queue), plain(row.user_name), gpu_type)
                yield _Worker(row.id, key, name, row.fixed_index is not None, slots, begun, over, over == end)


def _types(connection: Connection) -> dict[str, list[tuple[float, str]]]:
    """By node: since when it has had which GPU type, oldest first."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    query = select(node_types).where(is_number(node_types.c.since)).order_by(node_types.c.since)
    for row in connection.execute(query):
        found[row.node].append((row.since, plain(row.gpu_type)))
    return found


def _parts(types: Sequence[tuple[float, str]], since: float, until: float) -> Iterator[tuple[str, float, float]]:
    """The GPU types of a node in an interval, with the part of it in which it had each."""
    for k, (begun, gpu_type) in enumerate(types or [(since, "")]):
        first = since if k == 0 else max(begun, since)
        last = min(types[k + 1][0], until) if k + 1 < len(types) else until
        if first < last or first == last == until:
            yield gpu_type, first, last


def _losses(connection: Connection, span: Span, ahead: Leads) -> dict[int, list[_Loss]]:
    """What the events of these hours say of lost work, by job."""
    found: dict[int, list[_Loss]] = defaultdict(list)
    stretches = ahead.stretches(span.first, span.last, span.now)
    if not stretches:
        return found
    since, until = min(each.since for each in stretches), max(each.until for each in stretches)
    query = (
        select(events.c.job_id, events.c.at, events.c.amount, events.c.worker_id)
        .where(events.c.id >= first_event(connection, since), events.c.kind.in_(_LOSING))
        .where(events.c.at.between(since, until), is_number(events.c.amount), events.c.job_id.is_not(None))
    )
    for job, at, amount, worker in connection.execute(query):
        if span.first <= hour_of(at, ahead.at(at)) < span.last:
            found[job].append(_Loss(at, amount, worker))
    return found
