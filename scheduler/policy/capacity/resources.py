"""Amounts of slots, CPUs and memory: one node's as a tuple, all nodes' as rows of an array.

CPUs are counted in billionths, as whole numbers: sums come out the same in whatever order they are made, so what is
kept from pass to pass equals what is counted anew.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from scheduler.model.foreign import ForeignUse
from scheduler.model.node import CPU_EPSILON, FIT_MAX, Node
from scheduler.model.shape import WorkerShape
from scheduler.model.stray import Stray
from scheduler.model.worker import Worker

#: Slots, billionths of a CPU, and MiB.
Amount = tuple[int, int, int]
NOTHING: Amount = (0, 0, 0)
Ints = npt.NDArray[np.int64]
#: One amount per position, as int64. Rows of all positions lie in memory resource by resource: most work goes over one.
Rows = npt.NDArray[np.int64]
#: Amounts by position, each position once.
Held = tuple[tuple[int, Amount], ...]
#: Maps an amount at a position to the amounts there and on the other half of an oversold node.
Spread = Callable[[int, Amount], Held]
#: More than there is of anything.
UNBOUNDED = 2**60

_NANO = 1_000_000_000
_CPU_SLACK = round(CPU_EPSILON * _NANO)
_ALL = slice(None)


def nano_cpus(cpus: float) -> int:
    return round(cpus * _NANO) if cpus else 0


def needs(shape: WorkerShape, count: int = 1) -> Amount:
    """The amount that `count` workers of the shape hold."""
    return (shape.slots * count, nano_cpus(shape.cpus) * count, shape.memory_mib * count)


def amount_of(worker: Worker | Stray, node: Node) -> Amount:
    """The amount that its node regains once it is gone: nothing for slots that are closed or that no longer exist."""
    slots = len(worker.slot_ids)
    if slots and max(worker.slot_ids) >= node.slots:
        slots = sum(1 for slot in worker.slot_ids if slot < node.slots)
    if node.closed_slots and not worker.shared:
        slots -= sum(1 for each in node.closed_among(worker.slot_ids) if each.slot < node.slots)
    return (slots, nano_cpus(worker.cpus), worker.memory_mib)


def foreign_amount(foreign: ForeignUse) -> Amount:
    """The amount that foreign processes hold on a node."""
    return (foreign.slots, nano_cpus(foreign.cpus), foreign.memory_mib)


def with_amount(foreign: ForeignUse, amount: Amount) -> ForeignUse:
    """The foreign use, and this amount besides."""
    return ForeignUse(foreign.slots + amount[0], foreign.cpus + amount[1] / _NANO, foreign.memory_mib + amount[2])


def add(a: Amount, b: Amount, sign: int = 1) -> Amount:
    return (a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2])


def least(a: Amount, b: Amount) -> Amount:
    """The smaller amount of each resource."""
    return (min(a[0], b[0]), min(a[1], b[1]), min(a[2], b[2]))


def enough(left: Amount, drawn: Amount) -> bool:
    """Whether no drawn resource is overdrawn; of the rest, more may be held than there is."""
    floors = (0, -_CPU_SLACK, 0)
    return all(not taken or rest >= floor for rest, taken, floor in zip(left, drawn, floors, strict=True))


def fit_in(need: Amount, amount: Amount) -> int:
    """Number of workers of this need that fit into the amount."""
    fit = amount[0] // need[0] if need[0] else FIT_MAX
    if need[1]:
        fit = min(fit, (amount[1] + _CPU_SLACK) // need[1])
    if need[2]:
        fit = min(fit, amount[2] // need[2])
    return max(fit, 0)


def fit_in_rows(need: Amount, rows: Rows) -> Ints:
    """Number of workers of this need that fit into each row."""
    if need[0] == 1:  # most need one slot, and a division costs more than all else
        fit = rows[:, 0]
    else:
        fit = rows[:, 0] // need[0] if need[0] else np.full(len(rows), FIT_MAX)
    if need[1]:
        fit = np.minimum(fit, (rows[:, 1] + _CPU_SLACK) // need[1])
    if need[2]:
        fit = np.minimum(fit, rows[:, 2] // need[2])
    return np.maximum(fit, 0)


def together(each: Iterable[Held]) -> Held:
    """The sum of these amounts, by position."""
    held: dict[int, Amount] = {}
    for pieces, count in _runs(each):
        for i, amount in pieces:
            held[i] = add(held.get(i, NOTHING), amount, count)
    return tuple(held.items())


def _runs(each: Iterable[Held]) -> Iterator[tuple[Held, int]]:
    """Amounts, and how often each comes one after the other as the same object."""
    like: Held = ()
    count = 0
    for pieces in each:
        if pieces is like:
            count += 1
        else:
            yield like, count
            like, count = pieces, 1
    yield like, count


def no_rows(count: int) -> Rows:
    """Rows with nothing, one for each position."""
    return np.zeros((count, 3), np.int64, order="F")


def stable_order(numbers: Ints) -> Ints:
    """Indexes that sort the numbers, equal ones as they are; much faster where they are close together."""
    span = numbers - numbers.min(initial=np.iinfo(np.int64).max)
    order: Ints = span.astype(np.min_scalar_type(int(span.max(initial=0)))).argsort(kind="stable")
    return order


def row(rows: Rows, i: int) -> Amount:
    slots, cpus, memory = rows[i].tolist()
    return (slots, cpus, memory)


def pour(rows: Rows, held: Iterable[tuple[int, Amount]], sign: int = 1) -> None:
    """Add these amounts to their rows."""
    pieces = list(held)
    if pieces:
        positions = np.fromiter((i for i, _ in pieces), np.int64, len(pieces))
        pour_rows(rows, positions, np.array([amount for _, amount in pieces], np.int64), sign)


def pour_rows(rows: Rows, positions: Ints, amounts: Rows, sign: int = 1) -> None:
    """Add an amount at each of these positions; resource by resource, which is much faster."""
    for resource in range(3):
        np.add.at(rows[:, resource], positions, sign * amounts[:, resource])


class Headroom:
    """Capacity that the blocked job leaves on each node once it can start; nodes that it cannot use are unbounded."""

    def __init__(self, rows: Rows, bounded: npt.NDArray[np.bool_], spread: Spread, lent: Rows | None = None) -> None:
        self._rows = rows
        self._bounded = bounded
        self._spread = spread
        self._lent = lent

    def bound(self, i: int) -> Amount | None:
        if not self._bounded[i]:
            return None
        bound = row(self._rows, i)
        return bound if self._lent is None else add(bound, row(self._lent, i))

    def within(self, rows: Rows, positions: Ints | slice = _ALL) -> Rows:
        """The rows, which belong to these positions, limited to the bounds."""
        bounds = self._rows[positions]
        if self._lent is not None:
            bounds = bounds + self._lent[positions]
        return np.where(self._bounded[positions, None], np.minimum(rows, bounds), rows)

    def widened(self, by: Rows) -> "Headroom":
        """These bounds with `by` added; they follow later uses of this headroom."""
        return Headroom(self._rows, self._bounded, self._spread, by)

    def as_it_is(self) -> "Headroom":
        """A copy of the bounds that later uses and loans do not change."""
        lent = None if self._lent is None else self._lent.copy(order="K")
        return Headroom(self._rows.copy(order="K"), self._bounded, self._spread, lent)

    def without_loans(self) -> "Headroom":
        """These bounds without what is lent; they follow later uses of this headroom."""
        return self if self._lent is None else Headroom(self._rows, self._bounded, self._spread)

    def pass_on(self, freed: Held) -> None:
        """Add what a job that the blocked one does not count on gives up, for the one to which it goes."""
        pour(self._rows, freed)

    def use_beyond(self, lent: Amount, i: int, amount: Amount) -> None:
        """Use the headroom for what an amount exceeds the one `lent`."""
        slots, cpus, memory = add(amount, lent, -1)
        self._use(i, (max(slots, 0), max(cpus, 0), max(memory, 0)))

    def take(self, i: int, shape: WorkerShape, count: int) -> None:
        """Use the headroom for `count` workers; a negative count gives it back."""
        self._use(i, needs(shape, count))

    def _use(self, i: int, amount: Amount) -> None:
        for k, part in self._spread(i, amount):
            self._rows[k] -= part
