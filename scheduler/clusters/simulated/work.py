"""What a simulated job has to do: how much, how fast at which placement, and how much of it is done."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a job works for now."""

    #: Units of its work per second.
    per_second: float
    #: The amount done at which it changes by itself.
    until: float
    #: What the workers say of it; None: nothing.
    samples_per_second: float | None = None
    efficiency: float | None = None

    def times(self, factor: float) -> "Pace":
        """The pace at which everything goes by this factor faster."""
        if factor == 1.0:
            return self
        samples_per_second = None if self.samples_per_second is None else self.samples_per_second * factor
        return Pace(self.per_second * factor, self.until, samples_per_second, self.efficiency)


#: Nobody works.
STANDSTILL = Pace(0.0, 0.0)


class Work(Protocol):
    """The work of one job, in any one unit."""

    @property
    def total(self) -> float: ...

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        """The pace of this many workers on each node (none is zero) when `done` units are done."""
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
    """The work of one job as it goes on. Whoever changes who works calls `set_members`, and `go_on` at `due`."""

    def __init__(self, work: Work, now: float) -> None:
        self.work = work
        self.done = 0.0
        #: What of it is not lost with the last worker.
        self._kept = 0.0
        self.finished_at: float | None = None
        #: When the present pace ends, or the work does; None: not by itself.
        self.due: float | None = None
        self.pace = STANDSTILL
        self._members: tuple[int, ...] = ()
        self._share = 1.0
        self._counted_until = now

    def fraction_at(self, now: float) -> float:
        """Share of it that is done by now."""
        self.count(now)
        return min(self.work.fraction(self.done), 1.0)

    def set_members(self, members: tuple[int, ...], share: float, now: float) -> None:
        """From now on these work: how many on each node, nodes without any left out; empty: nobody.

        `share` is the speed of each in relation to what the work was measured with.
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
        """Commit what has been done by now."""
        self.count(now)
        self._kept = self.done

    def lose(self, now: float) -> None:
        """Go back to the last commit: nobody is left who has more. Nobody works until `set_members`."""
        self.count(now)
        if self.finished_at is None:
            self.done, self.due, self.pace = self._kept, None, STANDSTILL

    def count(self, now: float) -> None:
        """Count what has been done since the last call."""
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
