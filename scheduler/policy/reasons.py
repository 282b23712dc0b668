"""Why each job that is left waiting does not start, judged by what the finished plan leaves."""

from scheduler.model.ids import JobId
from scheduler.model.job import Job, WaitReason
from scheduler.model.plan import Waiting
from scheduler.policy.backfill import Blocked
from scheduler.policy.draft import Draft
from scheduler.policy.ledger import View
from scheduler.policy.place import Suited

#: Most workers that fit into free slots, most that fit without touching a reservation, the first who holds some.
Room = tuple[int, int, JobId | None]


def explain(draft: Draft, left: list[tuple[Job, Suited]], blocked: Blocked | None) -> None:
    """Give every job in `left` its reason; drop the reasons that the jobs carry already."""
    rooms: dict[int, Room] = {}
    waiting = {job_id: said for job_id, said in draft.waiting.items() if _differs(draft.world.queued[job_id], said)}
    for job, suited in left:
        room = rooms.get(id(suited))
        if room is None:
            room = rooms[id(suited)] = _room(draft, suited)
        reason, ahead = WaitReason.INSUFFICIENT_SLOTS, None
        if job.min_workers <= room[0]:
            reason, ahead = WaitReason.BEHIND_RESERVATION, room[2]
            if job.min_workers <= room[1] and blocked is not None:
                ahead = blocked.job.id
        if job.wait_reason is not reason or job.wait_for != ahead:
            waiting[job.id] = Waiting(reason, ahead)
    draft.waiting = waiting


def _differs(job: Job, said: Waiting) -> bool:
    return job.wait_reason is not said.reason or job.wait_for != said.for_job


def _room(draft: Draft, suited: Suited) -> Room:
    open_now = suited.fits(View.OPEN).most()
    if draft.ledger.plain:
        return (open_now, open_now, None)
    holder = next((job_id for job_id in draft.holding if _holds_some(draft, job_id, suited)), None)
    return (suited.fits(View.FREE).most(), open_now, holder)


def _holds_some(draft: Draft, holder: JobId, suited: Suited) -> bool:
    position = draft.ledger.position
    return any(position.get(name) in suited.types for name, _ in draft.holding[holder])
