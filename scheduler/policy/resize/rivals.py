"""Who else of their queue would get what equals give up for each other."""

from collections.abc import Iterator
from functools import cached_property

from scheduler.model.job import Job
from scheduler.model.worker import Worker
from scheduler.policy.capacity.placement import FeasibleNodes
from scheduler.policy.capacity.pools import Group
from scheduler.policy.capacity.resources import Rows, fit_in, pour, row
from scheduler.policy.draft import Draft
from scheduler.policy.resize.grow import GrowthRound
from scheduler.policy.snapshot.peers import GrowthRank, Peers
from scheduler.policy.start.backfill import HeadReservation


class Rivals:
    """Jobs that grow or start before these peers grow, as more and more is freed."""

    def __init__(
        self, draft: Draft, peers: Peers, growth_round: GrowthRound, head_reservation: HeadReservation | None
    ) -> None:
        self._draft = draft
        self._peers = peers
        self._growth_round = growth_round
        self._head_reservation = head_reservation

    @cached_property
    def _room(self) -> Rows:
        """Capacity that is free soon, with all that was freed."""
        return self._draft.ledger.soon()

    def free(self, worker: Worker) -> None:
        """The worker's place is free soon, too."""
        pour(self._room, self._draft.ledger.held_by(worker))

    def grows_before(self, worker: Worker, grower: GrowthRank) -> bool:
        """Whether another than this grower would get the worker's place by growing."""
        ledger = self._draft.ledger
        i = ledger.where(worker)
        assert i is not None, "others may have its place"
        pour(room := self._room[i : i + 1].copy(), [(0, amount) for k, amount in ledger.held_by(worker) if k == i])
        return any(
            rank < grower and feasible.types.get(i) == group and fit_in(feasible.need, row(room, 0)) > 0
            for rank, feasible, group in self._growers
        )

    def starts(self) -> bool:
        """Whether a waiting job would start with what was freed."""
        return any(self._draft.request(job).find(self._room) is not None for job in self._waiting())

    @cached_property
    def _growers(self) -> list[tuple[GrowthRank, FeasibleNodes, Group]]:
        """The first grower of each other kind, where its nodes are, and their group."""
        draft, found = self._draft, list[tuple[GrowthRank, FeasibleNodes, Group]]()
        for peers in self._growth_round.peers_in(self._peers.lane.own):
            if peers is not self._peers:
                ranks = (rank for rank in peers.growers if self._may_grow(draft.world.active[rank[-1]], peers.group))
                if (first := next(ranks, None)) is not None:
                    found.append((first, draft.places.feasible(peers.shape), peers.group))
        return found

    def _may_grow(self, job: Job, group: Group) -> bool:
        return self._growth_round.headroom(job) is None and self._draft.admits(job, group)

    def _waiting(self) -> Iterator[Job]:
        """Of each class of waiting jobs the one that a blocked job bounds least."""
        draft, head_reservation = self._draft, self._head_reservation
        for job in draft.last_waiting_in(self._peers.lane.own):
            if job.id in draft.starts or job.id in draft.holding:
                continue
            if head_reservation is None or head_reservation.bounds(draft, job) is None:
                yield job
