"""Why each job that is left waiting does not start, judged by what the finished plan leaves."""

from collections.abc import Iterator
from itertools import islice

from scheduler.model.ids import JobId
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import Waiting
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.request import Request
from scheduler.policy.draft import Draft
from scheduler.policy.snapshot.queue import UNEXPLAINED, differs, not_carried
from scheduler.policy.start.backfill import HeadReservation
from scheduler.policy.start.starts import Starts

#: Number of reasons that one plan replaces in job classes: one slot that comes free may change those of all the queue,
#: and they are for people to read.
REWRITTEN_MAX = 1000


def explain(starts: Starts) -> None:
    """Give every job that this pass over the queue leaves waiting its reason, unless the job carries it already."""
    draft = starts.draft
    waiting = not_carried(draft.world, draft.waiting)
    for job in starts.left:
        said = _reason(draft, draft.request(job), starts.head_reservation)
        if job.id not in draft.holding and differs(job, said):
            waiting[job.id] = said
    _explain_job_classes(starts, waiting)
    draft.waiting = waiting


def _explain_job_classes(starts: Starts, waiting: dict[JobId, Waiting]) -> None:
    """Add changed reasons of job classes, by place in the queue; limited for jobs that have a reason already."""
    draft = starts.draft
    decided = draft.starts.keys() | draft.holding.keys()
    rewritten = 0
    for job_class in sorted(draft.snapshot.queue.job_classes, key=lambda job_class: job_class.ranks[0]):
        if job_class in starts.impossible:
            said = Waiting(starts.impossible[job_class])
        else:
            said = _reason(draft, starts.request(job_class), starts.head_reservation)
        for carried, job_ids in job_class.carrying_other_than(said):
            left = (job_id for job_id in job_ids if job_id not in decided)
            first = carried[0] in UNEXPLAINED
            told = dict.fromkeys(left if first else islice(left, REWRITTEN_MAX - rewritten), said)
            rewritten += 0 if first else len(told)
            waiting |= told


def _reason(draft: Draft, request: Request, head_reservation: HeadReservation | None) -> Waiting:
    """Why a job with this request does not start."""
    plain = draft.ledger.plain
    if not request.fits(View.OPEN if plain else View.FREE):
        return Waiting(WaitReason.INSUFFICIENT_SLOTS)
    if head_reservation is not None and (plain or request.fits(View.OPEN)):
        return Waiting(WaitReason.BEHIND_RESERVATION, head_reservation.job.id)
    return Waiting(WaitReason.BEHIND_RESERVATION, next(_holders(draft, request), None))


def _holders(draft: Draft, request: Request) -> Iterator[JobId]:
    """Jobs that hold capacity on nodes that suit the request."""
    position, types = draft.ledger.position, request.types
    for job_id, placements in draft.holding.items():
        if any(position.get(name) in types for placement in placements for name, _ in placement):
            yield job_id
