"""One job that may lose workers."""

from collections import Counter
from dataclasses import dataclass

from scheduler.model.job import Job
from scheduler.policy.amounts import Held
from scheduler.policy.ledger import Ledger
from scheduler.policy.stakes import Taking


@dataclass(frozen=True, slots=True)
class Victim:
    """An active job that may lose workers."""

    job: Job
    #: Its workers that stay so far, youngest first.
    takings: tuple[Taking, ...]

    @property
    def surplus(self) -> int:
        """How many workers it has above its minimum."""
        return max(len(self.takings) - self.job.min_workers, 0)

    def beside(self, ledger: Ledger) -> "Victim":
        """The same with only what its leaving frees for those who have slots of their own."""
        own = (taking._replace(freed=own_part(taking.freed, ledger)) for taking in self.takings)
        return Victim(self.job, tuple(own))

    def by_company(self, *, most_first: bool) -> "Victim":
        """The same with those ahead who are many (or few) on their node."""
        together = Counter(taking.workers[0].node for taking in self.takings)
        sign = -1 if most_first else 1
        order = sorted(self.takings, key=lambda taking: sign * together[taking.workers[0].node])
        return Victim(self.job, tuple(order))

    def gift(self) -> Held:
        """What it could give anywhere without going below its minimum: no more than that together."""
        given: Counter[int] = Counter()
        pieces = []
        for taking in self.takings:
            for i, amount in taking.freed:
                if given[i] < self.surplus:
                    given[i] += 1
                    pieces.append((i, amount))
        return tuple(pieces)


def own_part(held: Held, ledger: Ledger) -> Held:
    """What is held of nodes' own halves."""
    return tuple(piece for piece in held if piece[0] < ledger.own)
