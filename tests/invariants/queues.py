"""What invariants have to know of queues."""

from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.model.queue_tree import nearest
from scheduler.model.world import World

#: Why a job waits whose queues do not let it have what is there; a limit may be used up since something was held.
LIMITS_OF_QUEUES = frozenset(
    {WaitReason.QUEUE_LIMIT, WaitReason.USER_LIMIT, WaitReason.BUDGET_SPENT, WaitReason.QUEUE_UNREADABLE}
)
#: The same, or nothing guaranteed to the job's queues covers it.
RULES_OF_QUEUES = LIMITS_OF_QUEUES | {WaitReason.NOT_GUARANTEED}


def whose(job: Job, world: World) -> tuple[str, str]:
    """The job's queue, and its user where users share that: among jobs of both, importance decides."""
    path = nearest(world.queues, job.spec.queue)
    return path, job.spec.user if path in world.queues and world.queues[path].share_users else ""
