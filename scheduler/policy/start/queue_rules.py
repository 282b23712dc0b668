"""What limits and guarantees of its queues say about the start of a job."""

import math
from collections.abc import Iterator
from dataclasses import replace

from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.policy.capacity.barred_nodes import barred_from, barred_of
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.pools import shapes_of, slots_to_start
from scheduler.policy.capacity.request import Request, request_of
from scheduler.policy.draft import Draft
from scheduler.policy.queues.shares import Counts, Quota, Shares
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.standing import counts_of


class QueueRules:
    """Rules of all queues, as a draft goes on; without queues there are none."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._shares = draft.shares
        #: Nodes by their GPU types.
        self._names: dict[frozenset[str], frozenset[NodeName]] = {}

    def why_never(self, job: Job) -> WaitReason | None:
        """The rule that keeps the job from starting whatever others give up; None: there is none."""
        if self._shares is None:
            return None
        return self._shares.why_never(self._draft.lane(job), self._counts(job), preemptible=job.spec.preemptible)

    def why_not(self, job: Job) -> WaitReason | None:
        """The rule that keeps the job from starting unless jobs of its own queues leave; None: there is none."""
        if slots_to_start(job) <= self.left(self._draft.lane(job)):
            return None if job.spec.preemptible else self.why_never(job)
        reason = self.why_never(job) or next((quota.reason for quota in self.lacking(job)), None)
        if reason is None and self._any_type(job):
            request = self._draft.request(job)
            bounded = self.bounded(job, request)
            if bounded is not request and request.fits(View.OPEN) and not bounded.fits(View.OPEN):
                return WaitReason.QUEUE_LIMIT
        return reason

    def without_limit(self, lane: Lane) -> bool:
        """Whether the queues of a lane get all that they ask for, as far as there is any."""
        return self._shares is None or not (lane.limits or self._shares.is_closed(lane))

    def left(self, lane: Lane) -> float:
        """Slots, of whatever type, that limits let the lane have at once."""
        return math.inf if self._shares is None else self._shares.left(lane)

    def has_room(self, job: Job) -> bool:
        """Whether limits let the job start at once."""
        return self._shares is None or self._shares.room(self._draft.lane(job), self._counts(job))

    def lacking(self, job: Job) -> list[Quota]:
        """What jobs of its queues have to give up for the job, for the sake of limits."""
        return self._shares.lacking(self._draft.lane(job), self._counts(job)) if self._shares is not None else []

    def bounded(self, job: Job, request: Request) -> Request:
        """The request without nodes of GPU types of which limits do not let the job have all that names no type."""
        shares = self._shares
        if shares is None or self.without_limit(self._draft.lane(job)) or not self._any_type(job):
            return request
        return self._without(self._full_types(shares, job, request), job, request)

    def of_full_types(self, job: Job) -> Iterator[Job]:
        """The job as one that names a GPU type, for each type that is full for it and that its queues may have.

        There others of its queues have to leave, as for the limit of any other job of that type.
        """
        shares, shape = self._shares, job.shape
        if shares is None or shape.gpu_type is not None or job.spec.fixed is not None:
            return
        for gpu_type in sorted(self._full_types(shares, job, self._draft.request(job))):
            typed = replace(job, spec=replace(job.spec, shape=replace(shape, gpu_type=gpu_type)))
            if self.why_never(typed) is None:
                yield typed

    def _full_types(self, shares: Shares, job: Job, request: Request) -> set[str]:
        """GPU types of which limits do not let the job have all that may be of them."""
        lane, types = self._draft.lane(job), shares.tree.kinds[1:]
        slots = {gpu_type: _slots_on(request, gpu_type) for gpu_type in types}
        return {each for each in types if not shares.room(lane, shares.standing.typed(each, slots[each]))}

    def sparing(self, job: Job, request: Request) -> Request:
        """The request without nodes of GPU types that other queues will take back for a guarantee, where any type does.

        There the job would be stopped, and start again, and be stopped.
        """
        shares = self._shares
        if shares is None or not self._any_type(job):
            return request
        return self._without(shares.promised_to_others(self._draft.lane(job)), job, request)

    def _any_type(self, job: Job) -> bool:
        """Whether queues name GPU types and the job does not."""
        if self._shares is None or len(self._shares.tree.kinds) == 1:
            return False
        return any(shape.gpu_type is None and shape.slots for shape in shapes_of(job))

    def _without(self, gpu_types: set[str], job: Job, request: Request) -> Request:
        draft = self._draft
        if not gpu_types:
            return request
        names = self._names.get(key := frozenset(gpu_types))
        if names is None:
            nodes = draft.world.nodes.values()
            names = self._names[key] = frozenset(node.name for node in nodes if node.gpu_type in gpu_types)
        names = names.union(*(barred_of(part.feasible.shape) for part in request.parts))
        return request_of(draft.ledger, draft.places, barred_from(job, names, typed=False)) if names else request

    def may_be_promised(self, job: Job) -> bool:
        """Whether others may have to leave it room: not for its queue's limit, nor beyond what its queue can have."""
        if self._shares is None:
            return True
        return not self.lacking(job) and self._shares.covers(self._draft.lane(job), self._counts(job)[0])

    def _counts(self, job: Job) -> Counts:
        """Slots that it needs to start, by kind."""
        assert self._shares is not None, "there are queues"
        return counts_of(self._shares.standing, job, job.min_workers)


def _slots_on(request: Request, gpu_type: str) -> int:
    """Slots of the request that may be on nodes of this GPU type, as its workers name this one or none."""
    parts = ((part.feasible.shape, part.number) for part in request.parts)
    return sum(number * shape.slots for shape, number in parts if shape.gpu_type in (None, gpu_type))
