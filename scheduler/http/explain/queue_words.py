"""What queues have to do with a job that waits."""

from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import QueueShare
from scheduler.model.queue import ROOT, ancestry
from scheduler.model.world import World
from scheduler.policy.explain.held_slots import Look


def who_gives(world: World) -> str:
    """Those from whom a job may take."""
    if not world.queues:
        return "Less important jobs"
    return "Less important jobs of its queue, and queues that hold more than they are entitled to,"


def held_by_queues(job: Job, look: Look | None) -> str:
    """A sentence about what the job's queues hold and may have; empty without queues, or if no plan looked at them."""
    shares = look.plan.shares if look is not None else ()
    paths = ancestry(job.spec.queue) or (ROOT,)
    mine = [each for each in shares if each.path in paths and each.user in (None, job.spec.user)]
    if not mine:
        return ""
    said = "; ".join(map(_share, mine))
    return f" {said[0].upper()}{said[1:]}."


def _share(share: QueueShare) -> str:
    whose = f"queue {share.path}" if share.path else "jobs in no queue"
    if share.user is not None:
        whose = f"user {share.user} in {whose}"
    hold = "hold" if share.path == ROOT and share.user is None else "holds"
    return f"{whose} {hold} {share.held} of the {round(share.entitled, 1):g} slots that it is entitled to"


def why_kept_by_queues(job: Job, reason: WaitReason, need: str) -> str:
    """The sentence for a reason that lies in rules of the job's queues."""
    queue = f"queue {job.spec.queue}" if job.spec.queue else "the jobs in no queue"
    match reason:
        case WaitReason.USER_LIMIT:
            return f"User {job.spec.user} has reached the limit that {queue} sets each user: {need}."
        case WaitReason.BUDGET_SPENT:
            return f"The budget of {queue}, or of one that contains it, is spent for this month."
        case WaitReason.NOT_GUARANTEED:
            what = "Its minimum is not preemptible" if job.spec.surplus_preemptible else "Not preemptible"
            return f"{what}, and the guarantee of {queue} does not cover it: {need}."
        case _:
            return f"The limit of {queue}, or of one that contains it, does not allow it: {need}."
