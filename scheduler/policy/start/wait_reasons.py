"""Why each job that is left waiting does not start, judged by what the finished plan leaves."""

from collections.abc import Iterable, Mapping
from itertools import islice

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import Waiting
from scheduler.policy.capacity.fixed_fit import request_of
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import FeasibleNodes
from scheduler.policy.draft import Draft
from scheduler.policy.snapshot.queue import UNEXPLAINED, JobClass, differs, not_carried
from scheduler.policy.start.backfill import HeadReservation

#: Number of reasons that one plan replaces in job classes: one slot that comes free may change those of all the queue,
#: and they are for people to read.
REWRITTEN_MAX = 1000

#: Most workers that fit into free slots, most that fit without touching a reservation, the first job with one.
RoomKey = tuple[int, int, JobId | None]


def explain(
    draft: Draft,
    left: Iterable[tuple[Job, FeasibleNodes]],
    impossible: Mapping[JobClass, WaitReason],
    head_reservation: HeadReservation | None,
) -> None:
    """Give every job that is left waiting its reason; drop the reasons that the jobs carry already.

    `left` are jobs that the pass over the queue looked at one by one, `impossible` job classes that no plan can start.
    """
    rooms: dict[FeasibleNodes, RoomKey] = {}
    waiting = not_carried(draft.world, draft.waiting)
    for job, feasible in left:
        if job.spec.fixed is not None:
            said = _reason_with_fixed(draft, job, head_reservation)
        else:
            said = _reason(draft, feasible, job.min_workers, head_reservation, rooms)
        if differs(job, said):
            waiting[job.id] = said
    _explain_job_classes(draft, impossible, head_reservation, rooms, waiting)
    draft.waiting = waiting


def _explain_job_classes(
    draft: Draft,
    impossible: Mapping[JobClass, WaitReason],
    head_reservation: HeadReservation | None,
    rooms: dict[FeasibleNodes, RoomKey],
    waiting: dict[JobId, Waiting],
) -> None:
    """Add changed reasons of job classes, by place in the queue; limited for jobs that have a reason already."""
    decided = draft.starts.keys() | draft.holding.keys()
    rewritten = 0
    for job_class in sorted(draft.snapshot.queue.job_classes, key=lambda job_class: job_class.ranks[0]):
        if job_class in impossible:
            said = Waiting(impossible[job_class])
        else:
            said = _reason(
                draft, draft.places.feasible(job_class.shape), job_class.min_workers, head_reservation, rooms
            )
        for carried, job_ids in job_class.carrying_other_than(said):
            left = (job_id for job_id in job_ids if job_id not in decided)
            first = carried[0] in UNEXPLAINED
            told = dict.fromkeys(left if first else islice(left, REWRITTEN_MAX - rewritten), said)
            rewritten += 0 if first else len(told)
            waiting |= told


def _reason(
    draft: Draft,
    feasible: FeasibleNodes,
    count: int,
    head_reservation: HeadReservation | None,
    rooms: dict[FeasibleNodes, RoomKey],
) -> Waiting:
    """Why a job that needs `count` workers does not start."""
    room = rooms.get(feasible)
    if room is None:
        room = rooms[feasible] = _room(draft, feasible)
    if count > room[0]:
        return Waiting(WaitReason.INSUFFICIENT_SLOTS)
    if count <= room[1] and head_reservation is not None:
        return Waiting(WaitReason.BEHIND_RESERVATION, head_reservation.job.id)
    return Waiting(WaitReason.BEHIND_RESERVATION, room[2])


def _reason_with_fixed(draft: Draft, job: Job, head_reservation: HeadReservation | None) -> Waiting:
    """Why a job with a fixed group does not start, judged by what the finished plan leaves."""
    request = request_of(draft.places, job)
    if request.find(draft.ledger.rows_at(slice(None), View.FREE)) is None:
        return Waiting(WaitReason.INSUFFICIENT_SLOTS)
    if head_reservation is not None and request.find(draft.ledger.rows_at(slice(None), View.OPEN)) is not None:
        return Waiting(WaitReason.BEHIND_RESERVATION, head_reservation.job.id)
    return Waiting(WaitReason.BEHIND_RESERVATION, next(iter(draft.holding), None))


def _room(draft: Draft, feasible: FeasibleNodes) -> RoomKey:
    open_now = feasible.fits(View.OPEN).most()
    if draft.ledger.plain:
        return (open_now, open_now, None)
    holder = next((job_id for job_id in draft.holding if _holds_some(draft, job_id, feasible)), None)
    return (feasible.fits(View.FREE).most(), open_now, holder)


def _holds_some(draft: Draft, holder: JobId, feasible: FeasibleNodes) -> bool:
    position = draft.ledger.position
    return any(position.get(name) in feasible.types for name, _ in draft.holding[holder])
