"""Which workers leave so that another job has room: as few as possible, from the first donors."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.worker import Worker
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import FeasibleNodes, Fits
from scheduler.policy.capacity.pools import Group
from scheduler.policy.capacity.resources import NOTHING, Amount, add
from scheduler.policy.draft import Draft


@dataclass(frozen=True, slots=True)
class Donor:
    """A job that may lose up to `surplus` workers."""

    job: Job
    surplus: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """A worker that may leave, and the amount that it frees."""

    donor: int
    worker: Worker
    amount: Amount


def free_up(
    draft: Draft, feasible: FeasibleNodes, group: Group, donors: Sequence[Donor], count: int, near: Collection[int] = ()
) -> Mapping[JobId, list[Worker]]:
    """Workers that must leave for `count` workers to fit on nodes of this group soon; empty if that is impossible.

    `donors` come in the order in which they give. Nodes in `near` are preferred, and nodes where a donor has few
    workers, so that jobs come to be on fewer nodes.
    """
    fits = feasible.fits(View.SOON)
    on_node = _pieces(draft, feasible, group, donors)
    left = [donor.surplus for donor in donors]
    freed: dict[int, Amount] = {}
    leaving: dict[JobId, list[Worker]] = {}
    for _ in range(fits.total(group), count):
        choice = _fewest(fits, on_node, left, freed, near)
        if choice is None:
            return {}
        i, pieces = choice
        for piece in pieces:
            left[piece.donor] -= 1
            freed[i] = add(freed.get(i, NOTHING), piece.amount)
            leaving.setdefault(donors[piece.donor].job.id, []).append(piece.worker)
            on_node[i].remove(piece)
    return leaving


def _pieces(draft: Draft, feasible: FeasibleNodes, group: Group, donors: Sequence[Donor]) -> dict[int, list[_Piece]]:
    """By node: workers in the order in which they leave, the youngest of each job first."""
    on_node: dict[int, list[_Piece]] = {}
    for donor, each in enumerate(donors):
        for worker in reversed(draft.staying(each.job)):
            i = draft.ledger.where(worker)
            if i is not None and feasible.types.get(i) == group:
                piece = _Piece(donor, worker, dict(draft.ledger.held_by(worker))[i])
                on_node.setdefault(i, []).append(piece)
    return on_node


def _fewest(
    fits: Fits,
    on_node: Mapping[int, list[_Piece]],
    left: Sequence[int],
    freed: Mapping[int, Amount],
    near: Collection[int],
) -> tuple[int, list[_Piece]] | None:
    """The node where fewest workers leave until one more fits; then a near one, then the one with the first donors."""
    best: tuple[tuple[int, bool, int, int, int], list[_Piece]] | None = None
    for i, pieces in on_node.items():
        needed = _needed(fits, i, pieces, left, freed.get(i, NOTHING))
        if needed:
            last = needed[-1].donor
            rank = (len(needed), i not in near, last, sum(piece.donor == last for piece in pieces), i)
            if best is None or rank < best[0]:
                best = (rank, needed)
    return (best[0][-1], best[1]) if best else None


def _needed(fits: Fits, i: int, pieces: Sequence[_Piece], left: Sequence[int], freed: Amount) -> list[_Piece]:
    before = fits.fit(i, freed)
    used: dict[int, int] = {}
    needed: list[_Piece] = []
    for piece in pieces:
        if used.get(piece.donor, 0) < left[piece.donor]:
            used[piece.donor] = used.get(piece.donor, 0) + 1
            needed.append(piece)
            freed = add(freed, piece.amount)
            if fits.fit(i, freed) > before:
                return needed
    return []
