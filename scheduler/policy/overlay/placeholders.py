"""Placeholder jobs: the planner holds or frees room for them, which something other than a job will use.

They wait in the queue above all jobs. A plan made with them is translated to the world without them.
"""

from collections.abc import Container, Iterator
from dataclasses import replace
from itertools import count

from scheduler.model.ids import JobId
from scheduler.model.job_state import StopReason
from scheduler.model.plan import Action, Plan, Shrink, StopJob
from scheduler.model.worker import LeaveReason
from scheduler.model.world import World

#: Above every priority that a job can be given: demands of foreign processes, claims of bookings, and their members.
DEMAND_PRIORITY = 10**9 // 2
CLAIM_PRIORITY = 10**9
MEMBER_PRIORITY = CLAIM_PRIORITY + 1


def free_ids(world: World) -> Iterator[JobId]:
    """Ids that neither jobs nor other placeholders have."""
    return (job_id for job_id in map(JobId, count(-1, -1)) if job_id not in world.queued)


def without(made: Plan, placeholders: Container[JobId], stop: StopReason, leave: LeaveReason) -> Plan:
    """The plan without these placeholders; jobs stop or lose workers in favour of them for these reasons."""
    stops: list[Action] = []
    shrinks: dict[JobId, Shrink] = {}
    others: list[Action] = []
    for action in made.actions:
        if action.job_id in placeholders:
            continue
        if isinstance(action, Shrink) and action.for_job in placeholders:
            before = shrinks[action.job_id].workers if action.job_id in shrinks else ()
            shrinks[action.job_id] = Shrink(action.job_id, before + action.workers, leave)
        elif isinstance(action, StopJob) and action.for_job in placeholders:
            stops.append(StopJob(action.job_id, stop))
        else:
            others.append(action)
    waiting = {job_id: said for job_id, said in made.waiting.items() if job_id not in placeholders}
    return replace(made, actions=(*stops, *shrinks.values(), *others), waiting=waiting)
