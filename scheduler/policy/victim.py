"""One job that may lose workers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.model.job import Job
from scheduler.model.worker import Worker
from scheduler.policy.amounts import Amount, Held, Rows
from scheduler.policy.ledger import Ledger


class Taking(NamedTuple):
    """One thing taken from a job, and what that frees on which nodes."""

    victim: Job
    #: Workers asked to leave; none where it is a reservation that is taken over.
    workers: tuple[Worker, ...]
    whole: bool
    freed: Held


@dataclass(frozen=True)
class Victim:
    """An active job that may lose workers."""

    job: Job
    #: Those that stay so far, in the order in which they would leave: youngest first if nothing else is said.
    workers: tuple[Worker, ...]
    #: What they hold, a row per node of each; see `laid_out`.
    pieces: Rows

    @cached_property
    def surplus(self) -> int:
        """How many workers it has above its minimum."""
        return max(len(self.workers) - self.job.min_workers, 0)

    @cached_property
    def takings(self) -> tuple[Taking, ...]:
        """Each of its workers as something that could be taken."""
        freed: list[list[tuple[int, Amount]]] = [[] for _ in self.workers]
        for k, i, slots, cpus, memory, _ in self.pieces.tolist():
            freed[k].append((i, (slots, cpus, memory)))
        return tuple(
            Taking(self.job, (worker,), False, tuple(held)) for worker, held in zip(self.workers, freed, strict=True)
        )

    @property
    def gift(self) -> Rows:
        """The pieces of what it could give of any node without going below its minimum: no more than that together."""
        gift: Rows = self.pieces[self.pieces[:, 5] < self.surplus]
        return gift

    def beside(self, ledger: Ledger) -> "Victim":
        """The same with only what its leaving frees for those who have slots of their own."""
        return Victim(self.job, self.workers, self.pieces[self.pieces[:, 1] < ledger.own])

    def staying(self, workers: Iterable[Worker]) -> "Victim":
        """The same with no more than these workers."""
        ids = {worker.id for worker in workers}
        kept = [taking for taking in self.takings if taking.workers[0].id in ids]
        pieces = laid_out([[taking.freed for taking in kept]])[0]
        return Victim(self.job, tuple(taking.workers[0] for taking in kept), pieces)

    def by_company(self, *, most_first: bool) -> "Victim":
        """The same with those ahead who are many (or few) on their node."""
        together = Counter(worker.node for worker in self.workers)
        if len(set(together.values())) <= 1:
            return self
        sign = -1 if most_first else 1
        order = sorted(range(len(self.workers)), key=lambda k: sign * together[self.workers[k].node])
        place = np.argsort(order)[self.pieces[:, 0]]
        rows = place.argsort(kind="stable")
        pieces = self.pieces[rows]  # on each node the order stays as it is
        pieces[:, 0] = place[rows]
        return Victim(self.job, tuple(self.workers[k] for k in order), pieces)


def laid_out(jobs: Sequence[Sequence[Held]]) -> list[Rows]:
    """What the workers of each of these jobs hold, in the order in which they would leave, a row per node of each.

    In a row: which worker, where, slots, CPUs, MiB, and how many of the job's workers before it hold something there.
    """
    numbers: list[int] = []
    ends = [0]
    for workers in jobs:
        for k, held in enumerate(workers):
            for i, amount in held:
                numbers += (k, i, *amount)
        ends.append(len(numbers) // 5)
    pieces = np.zeros((ends[-1], 6), np.int64)
    pieces[:, :5] = np.array(numbers, np.int64).reshape(-1, 5)
    whose = np.arange(len(jobs)).repeat(np.diff(ends))
    pieces[:, 5] = _equals_before(whose * (pieces[:, 1].max(initial=0) + 1) + pieces[:, 1])
    return [pieces[first:end] for first, end in pairwise(ends)]


def _equals_before(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each key, how many like it stand before it."""
    order = keys.argsort(kind="stable")
    ordered = keys[order]
    before = np.empty_like(keys)
    before[order] = np.arange(len(keys)) - ordered.searchsorted(ordered)
    return before


def own_part(held: Held, ledger: Ledger) -> Held:
    """What is held of nodes' own halves."""
    return tuple(piece for piece in held if piece[0] < ledger.own)
