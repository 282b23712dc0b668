"""Growth at the cost of other queues: a queue below what it is entitled to takes from those above theirs.

What is taken is free only once workers have left. Until then a draft keeps these slots, and those that are being freed
already, from everybody who comes later in it.
"""

from dataclasses import replace

from scheduler.model.job import Job, Placement
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.pools import Group
from scheduler.policy.capacity.request import Part, Request
from scheduler.policy.capacity.resources import Headroom
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.search import Taker, apply, find_takings_to_grow
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.start.hopes import Hopes


class Reclaims:
    """Slots that running jobs will get as others leave them."""

    def __init__(self, draft: Draft, victims: Victims, hopes: Hopes) -> None:
        self._draft = draft
        self._hopes = hopes
        self._victims = victims
        self._kept: list[tuple[Placement, WorkerShape]] = []
        #: Openings of the draft when such a claim of a queue failed last; bounded by a blocked job or not.
        self._failed: dict[tuple[str, WorkerShape, bool], int] = {}

    def claim(self, job: Job, group: Group, headroom: Headroom | None, passes_on_at: float | None) -> bool:
        """Keep room for one more worker of the job, where it is being freed or can be taken from other queues.

        Beside a blocked job, see `Taker` for the headroom and the moment.
        """
        draft, (shared, gpu_type) = self._draft, group
        if shared or not draft.may_reclaim(draft.lane(job)):
            return False
        shape = replace(job.shape, gpu_type=gpu_type, oversell=False)
        request = Request(draft.ledger, Part(draft.places.feasible(shape), 1), None)
        chosen = request.place(View.SOON, headroom)
        if chosen is None:
            attempt = (draft.lane(job).own, shape, headroom is None)
            if self._failed.get(attempt) == draft.openings or not draft.may_take(job.id):
                return False
            takings = None
            if self._hopes.in_takings_to_grow(job, shape):
                takings = find_takings_to_grow(Taker(draft, job, request, self._victims, headroom, passes_on_at))
            if takings is None:
                self._failed[attempt] = draft.openings
                return False
            if headroom is not None:
                for taking in takings:
                    headroom.pass_on(taking.freed)
            apply(draft, job, takings, self._victims)
            chosen = request.place(View.SOON, headroom)
        assert chosen is not None, "takings are enough for the worker"
        if headroom is not None:
            for i, count in chosen[0].items():
                headroom.take(i, shape, count)
        placement = draft.places.named(chosen[0])
        draft.ledger.hold(placement, job.shape)
        draft.count(job, draft.amounts(job, chosen[0]))
        self._kept.append((placement, job.shape))
        return True

    def release(self) -> None:
        """Stop keeping room: the plan is made."""
        for placement, shape in self._kept:
            self._draft.ledger.hold(placement, shape, -1)
