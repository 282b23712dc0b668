"""Placement of workers: own slots before shared ones, fewest nodes of one GPU type, fullest nodes, then by name.

`FeasibleNodes` says what the nodes of a shape could hold at all; `Fits` keeps, for one shape and one view of the
ledger, how many workers each node would take, in buckets, so that a placement need not look at every node.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from scheduler.model.ids import NodeName
from scheduler.model.job import Placement
from scheduler.model.job_state import WaitReason
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.capacity.barred_nodes import barred_of
from scheduler.policy.capacity.ledger import LOG_MAX, Ledger, View
from scheduler.policy.capacity.node_kinds import NodeKind, kinds_of
from scheduler.policy.capacity.pools import Group
from scheduler.policy.capacity.resources import NOTHING, Amount, Headroom, Rows, add, fit_in, fit_in_rows, least, needs

#: Workers per node position.
NodeCounts = dict[int, int]
#: Shapes remembered between passes.
SHAPES_MAX = 5_000
#: Number of changed nodes from which on they are checked together before any is updated by itself.
MANY = 64


class Sites:
    """The positions of some kinds of nodes, used by all shapes that these kinds suit."""

    def __init__(self, kinds: Sequence[NodeKind], count: int) -> None:
        """`count` is the number of positions."""
        #: Group by position, of nodes that take new workers.
        self.types: dict[int, Group] = {}
        for kind in kinds:
            self.types |= dict.fromkeys(kind.positions, kind.group)
        self.by_type: dict[Group, npt.NDArray[np.int64]] = {
            group: np.array(sorted(i for kind in kinds if kind.group == group for i in kind.positions), np.int64)
            for group in sorted({kind.group for kind in kinds}, key=str)
        }
        self.groups = list(self.by_type)
        #: By position: the index of its group; -1 where the node is not feasible.
        self.kinds = np.full(count, -1, np.int64)
        for k, positions in enumerate(self.by_type.values()):
            self.kinds[positions] = k
        #: By position: whether the node is feasible.
        self.mask = self.kinds >= 0


class FeasibleNodes:
    """The nodes that suit one shape."""

    def __init__(self, shape: WorkerShape, ledger: Ledger, kinds: Sequence[NodeKind], sites: Sites) -> None:
        """`kinds` are the kinds of nodes that may suit the shape, and `sites` the positions of those that do."""
        self.shape = shape
        #: What one worker needs.
        self.need = needs(shape)
        everywhere: dict[Group, int] = {}
        ready: dict[Group, int] = {}
        for kind in kinds:
            fit = kind.node.fits_empty(shape) * kind.count
            everywhere[kind.group] = everywhere.get(kind.group, 0) + fit
            if kind.suits(shape):
                fit = kind.reduced.fits_empty(shape) * len(kind.positions)
                ready[kind.group] = ready.get(kind.group, 0) + fit
        self.matched = bool(everywhere)
        #: The most workers of one group that empty nodes would hold: of all nodes, and of those that take workers.
        self.most_everywhere = max(everywhere.values(), default=0)
        self.most_ready = max(ready.values(), default=0)
        self.types, self.by_type, self.groups = sites.types, sites.by_type, sites.groups
        self.kinds, self.mask = sites.kinds, sites.mask
        self._ledger = ledger
        self._fits: dict[View, Fits] = {}
        self._bounded_fits: dict[tuple[View, Headroom], Fits] = {}

    def impossible(self, count: int) -> WaitReason | None:
        """Why no plan can start `count` workers; None if one could."""
        if count <= self.most_ready:
            return None
        if not self.matched:
            return WaitReason.NO_MATCHING_NODE
        if count > self.most_everywhere:
            return WaitReason.EXCEEDS_CLUSTER
        return WaitReason.NODES_UNAVAILABLE

    def fits(self, view: View, headroom: Headroom | None = None) -> "Fits":
        """The number of workers that fit on each node in this view, within `headroom`."""
        fits = self._fits.get(view) if headroom is None else self._bounded_fits.get((view, headroom))
        if fits is None:
            fits = Fits(self.need, self.types, self._ledger, view, headroom)
            if headroom is None:
                self._fits[view] = fits
            else:
                self._bounded_fits[view, headroom] = fits
        return fits

    def place_in(self, room: Rows, count: int) -> NodeCounts | None:
        """The best nodes for `count` workers in this room, a row per position; None if they do not fit."""
        fit = np.where(self.mask, fit_in_rows(self.need, room), 0)
        groups: dict[Group, _Group] = {}
        for i in np.flatnonzero(fit).tolist():
            groups.setdefault(self.types[i], _Group()).add(int(fit[i]), int(room[i, 0]), i)
        return _best(groups, count)

    def all_fits(self) -> Iterable["Fits"]:
        """The fits that are kept between passes."""
        return self._fits.values()

    def forget_bounds(self) -> None:
        """Drop the fits within a headroom, which are valid for one pass."""
        self._bounded_fits.clear()


class Fits:
    """The number of workers of one shape that fit on each node in one view; follows the ledger's log."""

    def __init__(
        self, need: Amount, types: dict[int, Group], ledger: Ledger, view: View, headroom: Headroom | None
    ) -> None:
        self._need = need
        self._types = types
        self._ledger = ledger
        self._view = view
        self._headroom = headroom
        #: Workers that fit and slots left, where at least one fits.
        self._at: dict[int, tuple[int, int]] = {}
        self._groups: dict[Group, _Group] = {}
        self._read = len(ledger.log)
        # A worker without slots also fits where none are left.
        looked_at = ledger.occupied if need[0] else types.keys()
        self._update([i for i in looked_at if i in types])

    def fit(self, i: int, extra: Amount = NOTHING) -> int:
        """How many workers node `i` takes if `extra` is free there besides."""
        return fit_in(self._need, self._amount(i, extra))

    def known(self, i: int) -> int:
        """How many workers node `i` takes."""
        self.follow()
        return self._at[i][0] if i in self._at else 0

    def totals(self) -> dict[Group, int]:
        """Workers that fit, by group."""
        self.follow()
        return {key: group.total for key, group in self._groups.items()}

    def most(self) -> int:
        """The most workers that fit on nodes of one group."""
        self.follow()
        return max((group.total for group in self._groups.values()), default=0)

    def place(self, count: int) -> NodeCounts | None:
        """The best nodes for `count` workers of a job that has none yet; None if they do not fit."""
        self.follow()
        return _best(self._groups, count)

    def place_more(self, count: int, like: Group, own: Collection[int]) -> NodeCounts | None:
        """Nodes for `count` further workers of a job, in its group, its own first; None if they do not fit."""
        self.follow()
        group = self._groups.get(like)
        if group is None or group.total < count:
            return None
        node_counts: NodeCounts = {}
        # a node of the job may have changed its GPU type
        mine = (i for i in own if i in self._at and self._types[i] == like)
        here = sorted(mine, key=lambda i: (self._at[i], i))
        for i in here:
            if count:
                node_counts[i] = min(count, self._at[i][0])
                count -= node_counts[i]
        if not count:
            return node_counts
        for i in here:
            group.remove(*self._at[i], i)
        node_counts |= group.place(count)[0]
        for i in here:
            group.add(*self._at[i], i)
        return node_counts

    def total(self, key: Group) -> int:
        """Workers that fit on nodes of this group."""
        self.follow()
        group = self._groups.get(key)
        return group.total if group else 0

    def start_over(self) -> None:
        """Start reading at the beginning of the ledger's log, which was cleared."""
        self._read = 0

    def follow(self) -> None:
        """Catch up with the changes of the ledger."""
        log = self._ledger.log
        if self._read < len(log):
            changed = {i for i in log[self._read :] if i in self._types}
            self._read = len(log)
            self._update(changed)

    def _amount(self, i: int, extra: Amount = NOTHING) -> Amount:
        amount = self._ledger.available(i, self._view)
        if extra is not NOTHING:
            amount = add(amount, extra)
        bound = self._headroom.bound(i) if self._headroom is not None else None
        return amount if bound is None else least(amount, bound)

    def _update(self, changed: Collection[int]) -> None:
        """Bring these nodes up to date."""
        for i, fit, slots in self._now(changed):
            before = self._at.get(i, (0, 0))
            if (fit, slots) != before:
                group = self._groups.setdefault(self._types[i], _Group())
                if before[0]:
                    group.remove(*before, i)
                    del self._at[i]
                if fit:
                    group.add(fit, slots, i)
                    self._at[i] = (fit, slots)

    def _now(self, changed: Collection[int]) -> Iterator[tuple[int, int, int]]:
        """Position, workers that fit, and slots left, of all of these nodes that take a worker now or did before."""
        if len(changed) < MANY:
            for i in changed:
                amount = self._amount(i)
                yield i, fit_in(self._need, amount), amount[0]
            return
        positions = np.fromiter(changed, np.int64, len(changed))
        rows = self._ledger.rows_at(positions, self._view)
        if self._headroom is not None:
            rows = self._headroom.within(rows, positions)
        fit = fit_in_rows(self._need, rows)
        kept = (fit > 0) | np.fromiter(map(self._at.__contains__, changed), np.bool_, len(changed))
        yield from zip(positions[kept].tolist(), fit[kept].tolist(), rows[kept, 0].tolist(), strict=True)


class _Group:
    """Nodes of one group, in buckets by the number of workers that each takes."""

    def __init__(self) -> None:
        self.total = 0
        #: Workers that fit -> (slots left, position), ascending.
        self._buckets: dict[int, list[tuple[int, int]]] = {}

    def add(self, fit: int, slots: int, i: int) -> None:
        self.total += fit
        insort(self._buckets.setdefault(fit, []), (slots, i))

    def remove(self, fit: int, slots: int, i: int) -> None:
        self.total -= fit
        bucket = self._buckets[fit]
        del bucket[bisect_left(bucket, (slots, i))]
        if not bucket:
            del self._buckets[fit]

    def place(self, count: int) -> tuple[NodeCounts, int]:
        """Fewest nodes for `count` workers (at most `total`): the roomiest ones, then the tightest for the rest.

        Also returns the free slots of the last node, which tell how tight it is.
        """
        node_counts: NodeCounts = {}
        rest = count
        for fit, _, i in self._roomiest():
            if rest <= fit:
                break
            node_counts[i] = fit
            rest -= fit
        for fit in sorted(self._buckets):
            if fit >= rest:
                for slots, i in self._buckets[fit]:
                    if i not in node_counts:
                        node_counts[i] = rest
                        return node_counts, slots
        raise AssertionError("the caller asked for more than fits")

    def _roomiest(self) -> Iterator[tuple[int, int, int]]:
        for fit in sorted(self._buckets, reverse=True):
            for slots, i in self._buckets[fit]:
                yield fit, slots, i


def _best(groups: Mapping[Group, _Group], count: int) -> NodeCounts | None:
    """The best nodes for `count` workers, all in one group; None if they do not fit."""
    best: tuple[tuple[bool, int, int, str], NodeCounts] | None = None
    for (shared, gpu_type), group in groups.items():
        if group.total >= count:
            node_counts, slots_left = group.place(count)
            rank = (shared, len(node_counts), slots_left, gpu_type or "")
            if best is None or rank < best[0]:
                best = (rank, node_counts)
    return best[1] if best else None


class Places:
    """Every shape's `FeasibleNodes`, made when first asked for, and the way between positions and names."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kinds = kinds_of(world, ledger.position)
        self._feasible: dict[WorkerShape, FeasibleNodes] = {}
        #: By the indexes of their kinds and the barred nodes.
        self._sites: dict[tuple[tuple[int, ...], frozenset[NodeName]], Sites] = {}

    def feasible(self, shape: WorkerShape) -> FeasibleNodes:
        feasible = self._feasible.get(shape)
        if feasible is None:
            barred = barred_of(shape)
            kinds = [self._without(kind, barred) for kind in self._kinds if kind.may_suit(shape)]
            suiting = tuple(k for k, kind in enumerate(self._kinds) if kind.suits(shape))
            sites = self._sites.get((suiting, barred))
            if sites is None:
                suited = [kind for kind in kinds if kind.suits(shape)]
                sites = self._sites[suiting, barred] = Sites(suited, len(self._ledger.nodes))
            feasible = self._feasible[shape] = FeasibleNodes(shape, self._ledger, kinds, sites)
        return feasible

    def _without(self, kind: NodeKind, barred: frozenset[NodeName]) -> NodeKind:
        """The kind without the barred nodes."""
        nodes = self._ledger.nodes
        return replace(kind, positions=[i for i in kind.positions if nodes[i].name not in barred]) if barred else kind

    def trim(self) -> None:
        """Drop what only one pass needed, and caches that have grown too large."""
        for shape in [shape for shape in self._feasible if barred_of(shape)]:
            del self._feasible[shape]
        for key in [key for key in self._sites if key[1]]:
            del self._sites[key]
        for feasible in self._feasible.values():
            feasible.forget_bounds()
        if len(self._feasible) > SHAPES_MAX:
            self._feasible.clear()
        if len(self._ledger.log) > LOG_MAX:
            kept = [fits for feasible in self._feasible.values() for fits in feasible.all_fits()]
            for fits in kept:
                fits.follow()
                fits.start_over()
            self._ledger.clear_log()

    def named(self, node_counts: NodeCounts) -> Placement:
        nodes = self._ledger.nodes
        return tuple((nodes[i].name, node_counts[i]) for i in sorted(node_counts))

    def node_counts(self, placement: Placement) -> NodeCounts | None:
        """The positions of a placement; None if a node of it takes no workers (any more)."""
        position = self._ledger.position
        if any(name not in position for name, _ in placement):
            return None
        return {position[name]: count for name, count in placement}

    def amounts(self, placement: Placement, shape: WorkerShape) -> list[tuple[int, Amount]]:
        """Amounts that a placement holds, by position, on nodes that take workers."""
        position = self._ledger.position
        held = (self._ledger.spread(position[name], needs(shape, n)) for name, n in placement if name in position)
        return [piece for pieces in held for piece in pieces]
