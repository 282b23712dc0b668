"""What may be taken of all takeable jobs, side by side in arrays, so that thousands of them are examined together.

Kept from pass to pass; what a draft takes is removed here, too, until the journal undoes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.worker import Worker
from scheduler.policy.capacity.journal import Journal
from scheduler.policy.capacity.priority_sums import SumsBelow
from scheduler.policy.capacity.resources import Held, Rows, pour_rows, stable_order
from scheduler.policy.estimate.lost_work import shrink_cost, stop_cost
from scheduler.policy.snapshot.taking import (
    AMOUNT,
    BEFORE,
    COLUMNS,
    FIXED,
    WHERE,
    WORKER,
    Members,
    Victim,
    count_by_node,
    laid_out,
)
from scheduler.policy.snapshot.usage import JobUsage

S = TypeVar("S", bound=np.generic)
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
#: One record per job.
Table = npt.NDArray[np.void]

_RECORD = np.dtype(
    [
        ("job", np.int64),
        ("priority", np.int64),
        # number of these workers that leave with the whole job only, and whether it may be stopped
        ("minimum", np.int64),
        ("stops", np.bool_),
        # whether any of its workers shares slots
        ("shared", np.bool_),
        # when it saved its work last (infinite: it has none to lose), what a shrink costs besides, and the slots whose
        # work since then is lost by a shrink and by a stop; see `scheduler.policy.estimate.lost_work`
        ("since", np.float64),
        ("shrink_fixed", np.float64),
        ("shrink_slots", np.int64),
        ("stop_slots", np.int64),
        # number of workers that stay so far and may leave alone, and of those of its fixed group; index of the first of
        # its pieces, and their number
        ("workers", np.int64),
        ("fixed", np.int64),
        ("first", np.int64),
        ("pieces", np.int64),
    ]
)
#: Pieces of jobs that are gone may take this much space besides those that are needed.
_UNUSED_MAX = 10_000


class VictimTable:
    """A record per job, in no order, and the pieces that its workers hold; see `laid_out` for these."""

    def __init__(self, positions: int, journal: Journal) -> None:
        """`positions`: how many there are in the ledger."""
        self._journal = journal
        self._records: Table = np.zeros(0, _RECORD)
        self._pieces: Rows = np.zeros((0, COLUMNS), np.int64)
        #: Number of pieces that are or were in use.
        self._end = 0
        #: By record.
        self._jobs: list[tuple[Job, Members]] = []
        self._at: dict[JobId, int] = {}
        #: Victims that were examined one by one, as they are now.
        self._victims: dict[JobId, Victim] = {}
        #: Records in preemption order at one moment, by whether they are to shrink.
        self._in_turn: dict[bool, Ints] = {}
        self._in_turn_at = 0.0
        #: Records whose pieces are out of date, and the workers to which these pieces belong.
        self._taken: dict[int, Members] = {}
        self._below = SumsBelow(positions, self._pour_between)

    @property
    def table(self) -> Table:
        """The records, after the draft's takings."""
        self._take_out()
        return self._records[: len(self._jobs)]

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._at

    def at(self, job_id: JobId) -> int:
        """The index of the job's record."""
        return self._at[job_id]

    def update(self, gone: Sequence[JobUsage], come: Sequence[JobUsage], progressed: Sequence[JobUsage] = ()) -> None:
        """Drop some jobs, then add others; of those that `progressed`, nothing but the cost of taking has changed."""
        for usages, sign in ((gone, -1), (come, 1)):
            for usage in usages:
                self._below.note(usage.job.priority, usage.held, sign)
        if gone or come or progressed:
            self._in_turn.clear()
        for usage in progressed:
            self._restate(usage)
        if gone or come:
            for usage in gone:
                self._drop(usage.job.id)
            self._add(come)
            self._compact()
        self._below.trim()

    def below(self, priority: int) -> Rows:
        """Amounts that jobs of lower priority hold after the draft's takings; see `SumsBelow.below`."""
        return self._below.below(priority)

    def less_than(self, priority: int) -> list[JobId]:
        """Jobs of lower priority, in no order."""
        table = self.table
        job_ids: list[JobId] = table["job"][table["priority"] < priority].tolist()
        return job_ids

    def take(self, job_id: JobId, staying: tuple[Worker, ...], fixed: tuple[Worker, ...], freed: Held) -> None:
        """Record that the draft leaves the job these workers and this fixed group, which frees the amounts `freed`."""
        k = self._at[job_id]
        job, before = self._jobs[k]
        record, end = self._records[k].item(), self._end

        def undo() -> None:
            self._records[k], self._jobs[k], self._end = record, (job, before), end
            self._taken.pop(k, None)
            self._victims.pop(job_id, None)
            self._below.note(job.priority, freed, 1)

        self._journal.note(undo)
        self._below.note(job.priority, freed, -1)
        self._taken.setdefault(k, before)
        self._records[k]["workers"], self._records[k]["fixed"] = len(staying), len(fixed)
        ids = {worker.id for worker in staying + fixed}
        self._jobs[k] = (job, before.those(ids))
        self._victims.pop(job_id, None)

    def in_turn(self, now: float, *, shrink: bool) -> Ints:
        """All records in preemption order: least important, least cost, newest first.

        `shrink`: by the cost of a shrink, else of a stop.
        """
        if self._in_turn_at != now:
            self._in_turn.clear()
            self._in_turn_at = now
        records = self._in_turn.get(shrink)
        if records is None:
            table = self.table
            records = np.lexsort((-table["job"], _costs(table, now, shrink=shrink)))
            records = self._in_turn[shrink] = records[stable_order(table["priority"][records])]
        return records

    def pieces_of(self, table: Table) -> tuple[Ints, Rows]:
        """By piece, the index of its record; and the pieces of these records one after the other, a copy.

        The records may be as they were before the draft changed them.
        """
        counts, begin = table["pieces"], table["first"]
        end = counts.cumsum()
        where = np.arange(end[-1] if len(end) else 0) + (begin - end + counts).repeat(counts)
        return np.arange(len(table)).repeat(counts), self._pieces.take(where, 0)

    def gifts_of(self, table: Table) -> Rows:
        """Pieces that each job could give on any one node without going below its minimum."""
        owner, pieces = self.pieces_of(table)
        gifts: Rows = pieces[(pieces[:, BEFORE] < surplus(table)[owner]) & (pieces[:, FIXED] == 0)]
        return gifts

    def pour(self, rows: Rows, table: Table, sign: int = 1) -> None:
        """Add what these jobs hold to the rows, or with sign -1 subtract it."""
        pieces = self.pieces_of(table)[1]
        pour_rows(rows, pieces[:, WHERE], pieces[:, AMOUNT], sign)

    def victim(self, k: int) -> Victim:
        """The victim of one record."""
        return self.victims([k])[0]

    def victims(self, records: Sequence[int]) -> list[Victim]:
        """The victims of these records."""
        found = []
        for k in records:
            job, members = self._jobs[k]
            victim = self._victims.get(job.id)
            if victim is None:
                victim = self._victims[job.id] = Victim(job, members)
            found.append(victim)
        return found

    def _pour_between(self, rows: Rows, least: float, above: float, sign: int) -> None:
        """Add what jobs of these priorities hold after the draft's takings, or with sign -1 subtract it."""
        table = self.table
        self.pour(rows, table[(least <= table["priority"]) & (table["priority"] < above)], sign)

    def _take_out(self) -> None:
        """Replace the pieces of jobs that lost workers by those of the workers that stay."""
        if not self._taken:
            return
        records = list(self._taken)
        stays: list[bool] = []
        first = []
        for k, before in self._taken.items():
            ids = {worker.id for worker in self._jobs[k][1].workers}
            first.append(len(stays))
            stays += [worker.id in ids for worker in before.workers]
        owner, pieces = self.pieces_of(self._records[records])
        begin = np.array(first, np.int64)[owner]
        stay, staying_before = np.array(stays, np.bool_), np.concatenate(([0], np.cumsum(stays)))
        which = begin + pieces[:, WORKER]
        pieces[:, WORKER] = staying_before[which] - staying_before[begin]
        owner, pieces = owner[stay[which]], pieces[stay[which]]
        count_by_node(pieces, owner)
        counts = np.bincount(owner, minlength=len(records))
        self._records["pieces"][records] = counts
        self._records["first"][records] = self._end + counts.cumsum() - counts
        self._append(pieces)
        self._taken.clear()

    def _add(self, usages: Sequence[JobUsage]) -> None:
        pieces, counts = laid_out([(usage.each[::-1], usage.fixed_each) for usage in usages])
        first = len(self._jobs)
        self._jobs += [(usage.job, _members(usage)) for usage in usages]
        self._at |= {usage.job.id: k for k, usage in enumerate(usages, first)}
        if len(self._jobs) > len(self._records):
            self._records = _longer(self._records, len(self._jobs))
        ends = self._end + np.cumsum(counts)
        self._records[first : len(self._jobs)] = [
            _record(usage, end - count, count) for usage, end, count in zip(usages, ends.tolist(), counts, strict=True)
        ]
        self._append(pieces)

    def _restate(self, usage: JobUsage) -> None:
        k = self._at[usage.job.id]
        self._victims.pop(usage.job.id, None)
        self._jobs[k] = (usage.job, self._jobs[k][1])
        self._records[k] = _record(usage, self._records[k]["first"], self._records[k]["pieces"])

    def _drop(self, job_id: JobId) -> None:
        """Remove the job's record; the last one takes its place."""
        k = self._at.pop(job_id)
        self._victims.pop(job_id, None)
        last = self._jobs.pop()
        if k < len(self._jobs):
            self._jobs[k], self._records[k] = last, self._records[len(self._jobs)]
            self._at[last[0].id] = k

    def _append(self, pieces: Rows) -> None:
        end = self._end + len(pieces)
        if end > len(self._pieces):
            self._pieces = _longer(self._pieces, end)
        self._pieces[self._end : end] = pieces
        self._end = end

    def _compact(self) -> None:
        """Drop pieces that no record has, if there are many."""
        table = self.table
        if self._end > 2 * table["pieces"].sum() + _UNUSED_MAX:
            self._pieces = self.pieces_of(table)[1]
            self._end = len(self._pieces)
            table["first"] = table["pieces"].cumsum() - table["pieces"]


@dataclass(frozen=True, slots=True)
class VictimOrder:
    """Jobs that may lose workers to another one, in preemption order."""

    victim_table: VictimTable
    #: Victims, by record.
    records: Ints
    #: By victim: whether it has the priority of the job that takes.
    equal: Bools
    #: By victim: how many workers it may lose without being stopped, and whether it may be stopped.
    spare: Ints
    whole: Bools
    #: Whether equals first give workers that are many (True) or few (False) on their node; None: they leave in their
    #: order, and only the CPUs and memory that this frees beside own slots counts, before position `own`.
    most_first: bool | None
    own: int

    def first(self, count: int) -> "VictimOrder":
        """The first `count` victims."""
        return replace(
            self,
            records=self.records[:count],
            equal=self.equal[:count],
            spare=self.spare[:count],
            whole=self.whole[:count],
        )

    def stopping_first(self, count: int) -> "VictimOrder":
        """The first `count` victims, and behind them those that may lose workers without being stopped: only these."""
        first = np.arange(len(self.records)) < count
        kept = first | (self.spare > 0)
        return replace(
            self,
            records=self.records[kept],
            equal=self.equal[kept],
            spare=self.spare[kept],
            whole=(self.whole & first)[kept],
        )

    def before(self, other: "VictimOrder") -> "VictimOrder":
        """These victims, then those of the other order."""
        return replace(
            other,
            records=np.concatenate((self.records, other.records)),
            equal=np.concatenate((self.equal, other.equal)),
            spare=np.concatenate((self.spare, other.spare)),
            whole=np.concatenate((self.whole, other.whole)),
        )


def surplus(table: Table) -> Ints:
    """Number of workers that each job has above its minimum."""
    above: Ints = np.maximum(table["workers"] - table["minimum"], 0)
    return above


def _costs(table: Table, now: float, *, shrink: bool) -> npt.NDArray[np.float64]:
    """By record: `Cost.at` of a shrink or a stop."""
    unsaved_seconds = np.maximum(now - table["since"], 0.0)
    costs: npt.NDArray[np.float64]
    if shrink:
        costs = table["shrink_fixed"] + table["shrink_slots"] * unsaved_seconds
    else:
        costs = table["stop_slots"] * unsaved_seconds
    return costs


def _members(usage: JobUsage) -> Members:
    return Members(usage.staying[::-1] + usage.fixed, usage.each[::-1] + usage.fixed_each)


def _record(usage: JobUsage, first: int, pieces: int) -> tuple[object, ...]:
    job, stops = usage.job, usage.job.spec.preemptible
    shrink = shrink_cost(job)
    stop = stop_cost(job) if stops else shrink
    return (
        job.id,
        job.priority,
        job.min_workers if stops else 0,
        stops,
        any(worker.shared for worker in job.workers),
        stop.since,
        shrink.fixed,
        shrink.slots,
        stop.slots,
        len(usage.staying),
        len(usage.fixed),
        first,
        pieces,
    )


def _longer(rows: npt.NDArray[S], length: int) -> npt.NDArray[S]:
    """A copy with room for `length` rows, and for some more."""
    longer = np.zeros((length + length // 2, *rows.shape[1:]), rows.dtype)
    longer[: len(rows)] = rows
    return longer
