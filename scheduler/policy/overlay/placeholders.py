"""What a plan made with jobs that do not exist means for the real world.

Such stand-ins wait in the queue so that the planner holds or makes room for something else than a job.
"""

from collections.abc import Container, Iterable, Mapping

from scheduler.model.ids import JobId
from scheduler.model.job_state import StopReason, WaitReason
from scheduler.model.plan import Action, Shrink, StopJob, Waiting
from scheduler.model.worker import LeaveReason


def real_actions(
    actions: Iterable[Action], stand_ins: Container[JobId], stop: StopReason, leave: LeaveReason
) -> list[Action]:
    """Actions on real jobs; what is taken from them for stand-ins is taken once, and for these reasons."""
    stops: list[Action] = []
    shrinks: dict[JobId, Shrink] = {}
    others: list[Action] = []
    for action in actions:
        if action.job_id in stand_ins:
            continue
        if isinstance(action, Shrink) and action.for_job in stand_ins:
            before = shrinks[action.job_id].workers if action.job_id in shrinks else ()
            shrinks[action.job_id] = Shrink(action.job_id, before + action.workers, leave)
        elif isinstance(action, StopJob) and action.for_job in stand_ins:
            stops.append(StopJob(action.job_id, stop))
        else:
            others.append(action)
    return [*stops, *shrinks.values(), *others]


def real_waiting(
    waiting: Mapping[JobId, Waiting], stand_ins: Container[JobId], reason: WaitReason
) -> dict[JobId, Waiting]:
    """Why real jobs wait; those that wait for stand-ins do it for this reason."""
    return {
        job_id: Waiting(reason) if said.for_job in stand_ins else said
        for job_id, said in waiting.items()
        if job_id not in stand_ins
    }
