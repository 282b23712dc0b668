"""The work of a simulated job: its amount, its pace by placement, and the part that is done."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Pace:
    """The present pace of a job."""

    #: Units of its work per second.
    per_second: float
    #: The amount of work at which the pace changes by itself.
    until: float
    #: The speed that workers report; None: they report none.
    samples_per_second: float | None = None
    efficiency: float | None = None

    def times(self, factor: float) -> "Pace":
        """This pace, faster by `factor`."""
        if factor == 1.0:
            return self
        samples_per_second = None if self.samples_per_second is None else self.samples_per_second * factor
        return Pace(self.per_second * factor, self.until, samples_per_second, self.efficiency)


#: The pace without workers.
STANDSTILL = Pace(0.0, 0.0)


class Work(Protocol):
    """The work of one job, in any one unit."""

    @property
    def total(self) -> float: ...

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        """The pace at these numbers of workers per node (none is zero) when `done` units are done."""
        ...

    def fraction(self, done: float) -> float:
        """The share of the work that workers say is done when `done` units are."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerSeconds:
    """Work that every worker does at the same rate, however many they are."""

    total: float

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        return Pace(float(sum(members)), self.total)

    def fraction(self, done: float) -> float:
        return done / self.total


class JobProgress:
    """The progress of one job's work. Call `set_members` when the workers change, and `go_on` at `due`."""

    def __init__(self, work: Work, now: float) -> None:
        self.work = work
        self.done = 0.0
        #: The amount that is not lost with the last worker.
        self._kept = 0.0
        self.finished_at: float | None = None
        #: When the present pace ends, or the work does; None: not by itself.
        self.due: float | None = None
        self.pace = STANDSTILL
        self._members: tuple[int, ...] = ()
        self._share = 1.0
        self._counted_until = now

    def fraction_at(self, now: float) -> float:
        """Share of the work that is done by now."""
        self.count(now)
        return min(self.work.fraction(self.done), 1.0)

    def set_members(self, members: tuple[int, ...], share: float, now: float) -> None:
        """Set the numbers of workers per node from now on, without empty nodes; empty: no worker.

        `share`: the speed of each worker relative to that with which the work was measured.
        """
        self.count(now)
        self._members, self._share = members, share
        self._take_pace(now)

    def go_on(self, now: float) -> bool:
        """Take the next pace; False if the present one has not ended: it was planned anew meanwhile."""
        if self.due is None or now < self.due:
            return False
        self.count(now)
        self._take_pace(now)
        return True

    def keep(self, now: float) -> None:
        """Commit the work that has been done by now."""
        self.count(now)
        self._kept = self.done

    def lose(self, now: float) -> None:
        """Go back to the last commit, since no worker is left that has more. Work stands still until `set_members`."""
        self.count(now)
        if self.finished_at is None:
            self.done, self.due, self.pace = self._kept, None, STANDSTILL

    def count(self, now: float) -> None:
        """Count the work done since the last call."""
        if self.due is not None and now >= self.due:
            self.done = self._end_of_pace  # exactly, or the rest would ask for ever smaller steps
        else:
            self.done += (now - self._counted_until) * self.pace.per_second
        self._counted_until = now
        if self.finished_at is None and self.done >= self.work.total:
            self.finished_at = now

    @property
    def _end_of_pace(self) -> float:
        return min(self.pace.until, self.work.total)

    def _take_pace(self, now: float) -> None:
        idle = not self._members or self.finished_at is not None
        self.pace = STANDSTILL if idle else self.work.pace(self._members, self.done).times(self._share)
        left = self._end_of_pace - self.done
        self.due = now + left / self.pace.per_second if self.pace.per_second > 0 else None
