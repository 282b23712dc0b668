"""Translation of a plan made with placeholder jobs to the real world.

Placeholders wait in the queue so that the planner holds or frees room for something other than a job.
"""

from collections.abc import Container, Iterable, Mapping

from scheduler.model.ids import JobId
from scheduler.model.job_state import StopReason, WaitReason
from scheduler.model.plan import Action, Shrink, StopJob, Waiting
from scheduler.model.worker import LeaveReason


def real_actions(
    actions: Iterable[Action], placeholders: Container[JobId], stop: StopReason, leave: LeaveReason
) -> list[Action]:
    """Actions on real jobs; workers taken for placeholders are taken once, and for these reasons."""
    stops: list[Action] = []
    shrinks: dict[JobId, Shrink] = {}
    others: list[Action] = []
    for action in actions:
        if action.job_id in placeholders:
            continue
        if isinstance(action, Shrink) and action.for_job in placeholders:
            before = shrinks[action.job_id].workers if action.job_id in shrinks else ()
            shrinks[action.job_id] = Shrink(action.job_id, before + action.workers, leave)
        elif isinstance(action, StopJob) and action.for_job in placeholders:
            stops.append(StopJob(action.job_id, stop))
        else:
            others.append(action)
    return [*stops, *shrinks.values(), *others]


def real_waiting(
    waiting: Mapping[JobId, Waiting], placeholders: Container[JobId], reason: WaitReason
) -> dict[JobId, Waiting]:
    """Wait reasons of real jobs; those that wait for placeholders get this reason."""
    return {
        job_id: Waiting(reason) if said.for_job in placeholders else said
        for job_id, said in waiting.items()
        if job_id not in placeholders
    }
