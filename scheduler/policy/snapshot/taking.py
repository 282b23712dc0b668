"""A job that may lose workers, and what may be taken from it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.model.ids import WorkerId
from scheduler.model.job import Job
from scheduler.model.worker import Worker
from scheduler.policy.capacity.resources import Held, Rows, together

#: Columns of pieces: which worker of the job, the position, slots, billionths of a CPU, and MiB; whether it is of the
#: fixed group; and, among workers of its kind: how many before it hold something there, and how many in all.
WORKER, WHERE, AMOUNT, FIXED, BEFORE, TOGETHER = 0, 1, slice(2, 5), 5, 6, 7
COLUMNS = 8


class Members(NamedTuple):
    """Workers of one job that stay so far, in leaving order: youngest first, and the fixed group last."""

    workers: tuple[Worker, ...]
    #: Amounts that each of them holds, by position.
    each: tuple[Held, ...]

    def those(self, ids: Collection[WorkerId]) -> "Members":
        """Those with these ids."""
        chosen = [worker.id in ids for worker in self.workers]
        return Members(tuple(compress(self.workers, chosen)), tuple(compress(self.each, chosen)))


class Taking(NamedTuple):
    """One thing taken from a job, and the amounts that it frees, by position."""

    victim: Job
    #: Workers asked to leave; none where a reservation is taken over.
    workers: tuple[Worker, ...]
    whole: bool
    freed: Held

    @classmethod
    def of_all(cls, rest: "Sequence[Taking]") -> "Taking":
        """The whole job, of which these are left."""
        workers = tuple(worker for taking in rest for worker in taking.workers)
        return cls(rest[0].victim, workers, True, together(taking.freed for taking in rest))


@dataclass(frozen=True)
class Victim:
    """An active job that may lose workers."""

    job: Job
    members: Members

    @cached_property
    def takings(self) -> tuple[Taking, ...]:
        """A taking for each of the workers."""
        return tuple(Taking(self.job, (worker,), False, held) for worker, held in zip(*self.members, strict=True))


def laid_out(jobs: Sequence[tuple[Sequence[Held], Sequence[Held]]]) -> tuple[Rows, list[int]]:
    """Pieces of what the workers of each of these jobs hold, a row per worker and node, and how many each job has.

    `jobs` has the amounts of the workers that may leave alone, in leaving order, and of the fixed group.
    """
    helds = [held for alone, fixed in jobs for held in chain(alone, fixed)]
    held_pieces = list(chain.from_iterable(helds))
    alone_counts = np.array([len(alone) for alone, _ in jobs], np.int64)
    counts = alone_counts + np.array([len(fixed) for _, fixed in jobs], np.int64)
    # by worker: its job, and which of the job's workers; then both by piece
    owner = np.arange(len(jobs)).repeat(counts)
    worker = np.arange(len(helds)) - (counts.cumsum() - counts)[owner]
    lengths = np.fromiter(map(len, helds), np.int64, len(helds))
    owner, worker = owner.repeat(lengths), worker.repeat(lengths)
    pieces = np.zeros((len(held_pieces), COLUMNS), np.int64)
    pieces[:, WORKER] = worker
    pieces[:, WHERE] = [i for i, _ in held_pieces]
    amounts = chain.from_iterable([amount for _, amount in held_pieces])
    pieces[:, AMOUNT] = np.fromiter(amounts, np.int64, 3 * len(held_pieces)).reshape(-1, 3)
    pieces[:, FIXED] = worker >= alone_counts[owner]
    count_by_node(pieces, owner)
    return pieces, np.bincount(owner, minlength=len(jobs)).tolist()


def count_by_node(pieces: Rows, whose: npt.NDArray[np.int64] | int = 0) -> None:
    """Fill in the columns that count workers of the same job on the same node."""
    keys = (2 * whose + pieces[:, FIXED]) * (pieces[:, WHERE].max(initial=0) + 1) + pieces[:, WHERE]
    order = keys.argsort(kind="stable")
    ordered = keys[order]
    first = ordered.searchsorted(ordered)
    pieces[order, BEFORE] = np.arange(len(keys)) - first
    pieces[order, TOGETHER] = ordered.searchsorted(ordered, side="right") - first
