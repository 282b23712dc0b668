"""Where workers go: fewest nodes, one GPU type per job, then the nodes left fullest, then by name.

`Suited` says what the nodes of a shape could hold at all; `Fits` keeps, for one shape and one view of the ledger, how
many workers each node would take, in buckets, so that a placement need not look at every node.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Sequence

from scheduler.model.job import Placement, WaitReason
from scheduler.model.node import Node, workers_that_fit
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.ledger import Amount, Ledger, Spare, View

GpuType = str | None
#: Workers per node position.
Spots = dict[int, int]
#: A node, how many are like it, and how many of those take new workers.
Kind = tuple[Node, int, int]


class Suited:
    """The nodes that suit one shape, whatever is free on them."""

    def __init__(self, shape: WorkerShape, world: World, ledger: Ledger, kinds: Sequence[Kind]) -> None:
        self.shape = shape
        everywhere: dict[GpuType, int] = {}
        ready: dict[GpuType, int] = {}
        self.matched = False
        for kind, count, taking in kinds:
            if kind.suits(shape):
                self.matched = True
                fit = kind.fits_empty(shape)
                everywhere[kind.gpu_type] = everywhere.get(kind.gpu_type, 0) + fit * count
                ready[kind.gpu_type] = ready.get(kind.gpu_type, 0) + fit * taking
        #: The most workers of one GPU type that empty nodes would hold: of all nodes, and of those that take workers.
        self.most_everywhere = max(everywhere.values(), default=0)
        self.most_ready = max(ready.values(), default=0)
        #: Position to GPU type of nodes that take new workers.
        self.types: dict[int, GpuType] = {i: node.gpu_type for i, node in enumerate(ledger.nodes) if node.suits(shape)}

    def impossible(self, count: int) -> WaitReason | None:
        """Why no plan can start so many workers; None if one could."""
        if count <= self.most_ready:
            return None
        if not self.matched:
            return WaitReason.NO_MATCHING_NODE
        if count > self.most_everywhere:
            return WaitReason.EXCEEDS_CLUSTER
        return WaitReason.NODES_UNAVAILABLE


class _Group:
    """Nodes of one GPU type by how many workers they take."""

    def __init__(self) -> None:
        self.total = 0
        #: Workers that fit -> (slots left, position), ascending.
        self.buckets: dict[int, list[tuple[int, int]]] = {}

    def add(self, fit: int, slots: int, i: int) -> None:
        self.total += fit
        insort(self.buckets.setdefault(fit, []), (slots, i))

    def remove(self, fit: int, slots: int, i: int) -> None:
        self.total -= fit
        bucket = self.buckets[fit]
        del bucket[bisect_left(bucket, (slots, i))]
        if not bucket:
            del self.buckets[fit]

    def place(self, count: int) -> tuple[Spots, int]:
        """Fewest nodes for `count` workers (at most `total`): the roomiest ones, then the tightest for the rest.

        Also gives the slots that would be left on the last node, which tells how well it fits.
        """
        spots: Spots = {}
        for fit in sorted(self.buckets, reverse=True):
            for _, i in self.buckets[fit]:
                if count <= fit:
                    return self._finish(spots, count)
                spots[i] = fit
                count -= fit
        return spots, 0

    def _finish(self, spots: Spots, count: int) -> tuple[Spots, int]:
        for fit in sorted(f for f in self.buckets if f >= count):
            for slots, i in self.buckets[fit]:
                if i not in spots:
                    spots[i] = count
                    return spots, slots
        raise AssertionError("the caller saw a node that takes the rest")


class Fits:
    """How many workers of one shape fit where, in one view; follows the ledger through its log."""

    def __init__(self, suited: Suited, ledger: Ledger, view: View, spare: Spare | None = None) -> None:
        self._suited = suited
        self._ledger = ledger
        self._view = view
        self._spare = spare
        self._at: dict[int, tuple[int, int]] = {}
        self._groups: dict[GpuType, _Group] = {}
        self._read = len(ledger.log)
        for i in ledger.occupied():
            if i in suited.types:
                self._update(i)

    def amount(self, i: int, extra: Amount = (0, 0.0, 0)) -> Amount:
        """What this view offers on the node if `extra` were free as well."""
        slots, cpus, memory = self._ledger.available(i, self._view)
        slots, cpus, memory = slots + extra[0], cpus + extra[1], memory + extra[2]
        bound = self._spare.bound(i) if self._spare else None
        if bound is not None:
            return (min(slots, bound[0]), min(cpus, bound[1]), min(memory, bound[2]))
        return (slots, cpus, memory)

    def fit(self, i: int, extra: Amount = (0, 0.0, 0)) -> int:
        return workers_that_fit(self._suited.shape, *self.amount(i, extra))

    def totals(self) -> dict[GpuType, int]:
        """Workers that fit, by GPU type."""
        self._follow()
        return {gpu_type: group.total for gpu_type, group in self._groups.items()}

    def most(self) -> int:
        """The most workers that fit on nodes of one GPU type."""
        self._follow()
        return max((group.total for group in self._groups.values()), default=0)

    def place(self, count: int) -> Spots | None:
        """The best spots for `count` workers of a job that has none yet; None if they do not fit."""
        self._follow()
        best: tuple[tuple[int, int, str], Spots] | None = None
        for gpu_type, group in self._groups.items():
            if group.total >= count:
                spots, slots_left = group.place(count)
                rank = (len(spots), slots_left, gpu_type or "")
                if best is None or rank < best[0]:
                    best = (rank, spots)
        return best[1] if best else None

    def place_more(self, count: int, gpu_type: GpuType, own: Collection[int]) -> Spots | None:
        """Spots for `count` further workers of a job on nodes of its GPU type, its own nodes first."""
        self._follow()
        group = self._groups.get(gpu_type)
        if group is None or group.total < count:
            return None
        spots: Spots = {}
        here = sorted((i for i in own if i in self._at), key=lambda i: (self._at[i], i))
        for i in here:
            if count:
                spots[i] = min(count, self._at[i][0])
                count -= spots[i]
        if not count:
            return spots
        for i in here:
            group.remove(*self._at[i], i)
        spots |= group.place(count)[0]
        for i in here:
            group.add(*self._at[i], i)
        return spots

    def _follow(self) -> None:
        log = self._ledger.log
        if self._read < len(log):
            changed = {i for i in log[self._read :] if i in self._suited.types}
            self._read = len(log)
            for i in changed:
                self._update(i)

    def _update(self, i: int) -> None:
        slots = self.amount(i)
        fit = workers_that_fit(self._suited.shape, *slots)
        group = self._groups.setdefault(self._suited.types[i], _Group())
        before = self._at.pop(i, None)
        if before is not None:
            group.remove(*before, i)
        if fit:
            self._at[i] = (fit, slots[0])
            group.add(fit, slots[0], i)


class Places:
    """Every shape's `Suited` and `Fits`, made when first asked for."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._world = world
        self._ledger = ledger
        self._kinds = _kinds(world)
        self._suited: dict[WorkerShape, Suited] = {}
        self._by_identity: dict[int, Suited] = {}
        self._fits: dict[tuple[int, View, int], Fits] = {}

    def suited(self, shape: WorkerShape) -> Suited:
        # Hashing a shape costs more than all else a hopeless job needs; the world keeps its shapes alive meanwhile.
        suited = self._by_identity.get(id(shape))
        if suited is None:
            suited = self._suited.get(shape)
            if suited is None:
                suited = self._suited[shape] = Suited(shape, self._world, self._ledger, self._kinds)
            self._by_identity[id(shape)] = suited
        return suited

    def fits(self, shape: WorkerShape, view: View, spare: Spare | None = None) -> Fits:
        suited = self.suited(shape)
        key = (id(suited), view, id(spare))
        fits = self._fits.get(key)
        if fits is None:
            fits = self._fits[key] = Fits(suited, self._ledger, view, spare)
        return fits

    def named(self, spots: Spots) -> Placement:
        nodes = self._ledger.nodes
        return tuple((nodes[i].name, spots[i]) for i in sorted(spots))

    def spots(self, placement: Placement) -> Spots | None:
        """The positions of a placement; None if a node of it takes no workers (any more)."""
        position = self._ledger.position
        if any(name not in position for name, _ in placement):
            return None
        return {position[name]: count for name, count in placement}


def _kinds(world: World) -> list[Kind]:
    """Nodes that are alike are counted once, each kind stood for by one of them."""
    first: dict[object, Node] = {}
    alike: dict[object, int] = {}
    taking: dict[object, int] = {}
    for node in world.nodes.values():
        key = (node.gpu_type, node.labels, node.slots, node.cpus, node.memory_mib)
        first.setdefault(key, node)
        alike[key] = alike.get(key, 0) + 1
        taking[key] = taking.get(key, 0) + node.schedulable
    return [(node, alike[key], taking[key]) for key, node in first.items()]
