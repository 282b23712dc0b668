"""Free capacity, and the lack where workers of a shape find no room in it."""

from enum import StrEnum

import numpy as np

from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.capacity.journal import Journal
from scheduler.policy.capacity.ledger import Ledger, View
from scheduler.policy.capacity.placement import Places
from scheduler.policy.capacity.pools import Group, placed, reserved
from scheduler.policy.capacity.resources import Rows, fit_in_rows, needs


class Lack(StrEnum):
    """What is missing for a waiting job, in the order in which it is checked."""

    #: Too few slots are free.
    SLOTS = "SLOTS"
    #: Enough slots are free, but not on GPUs of one type.
    GPU_TYPE = "GPU_TYPE"
    #: Enough slots are free, but too few on one node.
    SPLIT = "SPLIT"
    #: Slots are free together, but without the CPUs.
    CPUS = "CPUS"
    #: Slots and CPUs are free together, but without the memory.
    MEMORY = "MEMORY"


class Vacancies:
    """Free capacity of a ledger by shape. A group of None stands for the group in which most workers fit."""

    def __init__(self, ledger: Ledger, places: Places) -> None:
        self._ledger = ledger
        self._places = places

    def fit(self, shape: WorkerShape, view: View, group: Group | None = None) -> int:
        """Number of workers that fit."""
        fits = self._places.feasible(shape).fits(view)
        return fits.most() if group is None else fits.total(group)

    def slots(self, shape: WorkerShape, view: View, group: Group) -> int:
        """Number of slots of the group that are left on nodes that suit the shape."""
        return _slots(self._rows(shape, view, group))

    def lack(self, shape: WorkerShape, count: int, view: View, group: Group | None = None) -> Lack | None:
        """The lack that keeps `count` workers out; None if there is room for them."""
        groups = self._places.feasible(shape).groups if group is None else [group]
        rows = [self._rows(shape, view, each) for each in groups]
        lacks = [_lack(shape, count, each) for each in rows]
        if any(lack is None for lack in lacks):
            return None
        order = list(Lack)
        worst = max((lack for lack in lacks if lack is not None), key=order.index, default=Lack.SLOTS)
        if worst is Lack.SLOTS and sum(map(_slots, rows)) >= count * shape.slots > 0:
            return Lack.GPU_TYPE
        return worst

    def _rows(self, shape: WorkerShape, view: View, group: Group) -> Rows:
        positions = self._places.feasible(shape).by_type.get(group)
        if positions is None:
            return np.zeros((0, 3), np.int64)
        return self._ledger.rows_at(positions, view)


def vacancies_of(world: World) -> Vacancies:
    """Vacancies of the world, beside its reservations."""
    ledger = Ledger(world, Journal())
    for job in world.reserved.values():
        if job.id in world.queued:
            for name, shape, count in placed(job, reserved(job)):
                ledger.hold(((name, count),), shape)
    return Vacancies(ledger, Places(world, ledger))


def _slots(rows: Rows) -> int:
    return int(np.maximum(rows[:, 0], 0).sum())


def _lack(shape: WorkerShape, count: int, rows: Rows) -> Lack | None:
    """The lack that keeps `count` workers off nodes of one group; None if there is room for them."""
    slots, cpus, memory = needs(shape)

    def room(slots: int, cpus: int, memory: int) -> bool:
        return int(fit_in_rows((slots, cpus, memory), rows).sum()) >= count

    if room(slots, cpus, memory):
        return None
    if _slots(rows) < count * slots or not len(rows):
        return Lack.SLOTS
    if not room(slots, 0, 0):
        return Lack.SPLIT
    return Lack.MEMORY if room(slots, cpus, 0) else Lack.CPUS
