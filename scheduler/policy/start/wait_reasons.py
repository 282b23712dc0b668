"""Why each job that is left waiting does not start, judged by what the finished plan leaves."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import Waiting
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.request import Request
from scheduler.policy.draft import Draft
from scheduler.policy.snapshot.waiting_jobs import UNEXPLAINED, JobClass, differs, not_carried
from scheduler.policy.start.backfill import HeadReservation

#: Number of reasons that one plan replaces in job classes: one slot that comes free may change those of all the queue,
#: and they are for people to read.
REWRITTEN_MAX = 1000


def explain(
    draft: Draft,
    left: Iterable[Job],
    never: Callable[[JobClass], WaitReason | None],
    request: Callable[[JobClass], Request],
    head_reservation: HeadReservation | None,
) -> None:
    """Give every job that is left waiting its reason; drop the reasons that the jobs carry already.

    `left` are jobs that the pass over the queue looked at one by one; `never` tells why no plan can start the jobs of a
    class whatever is free, `request` what each of them asks for.
    """
    waiting = not_carried(draft.world, draft.waiting)
    for job in left:
        said = _reason(draft, draft.request(job), head_reservation)
        if differs(job, said):
            waiting[job.id] = said

    lacking: dict[Request, Waiting] = {}

    def said_to(job_class: JobClass) -> Waiting:
        reason = never(job_class)
        if reason is not None:
            return Waiting(reason)
        asked = request(job_class)
        if asked not in lacking:
            lacking[asked] = _reason(draft, asked, head_reservation)
        return lacking[asked]

    _explain_job_classes(draft, said_to, waiting)
    draft.waiting = waiting


def _explain_job_classes(draft: Draft, said_to: Callable[[JobClass], Waiting], waiting: dict[JobId, Waiting]) -> None:
    """Add changed reasons of job classes, by place in the queue; limited for jobs that have a reason already."""
    decided = draft.starts.keys() | draft.holding.keys()
    each = ((job_class, said_to(job_class)) for job_class in draft.snapshot.waiting_jobs.job_classes)
    changed = [(job_class, said) for job_class, said in each if job_class.carries_other_than(said)]
    rewritten = 0
    for job_class, said in sorted(changed, key=lambda pair: pair[0].ranks[0]):
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
