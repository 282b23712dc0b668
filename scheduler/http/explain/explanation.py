"""A job's state in one world, with its reason and the numbers behind it."""

from typing import assert_never

from typing_extensions import TypedDict

from scheduler.config import PolicySettings
from scheduler.http.explain.room import free_extra, free_slots, reserved_by
from scheduler.http.explain.running import what_blocks, why_starting, why_this_size
from scheduler.http.explain.stopped import how_it_ended, why_held, why_stopped
from scheduler.http.explain.waiting import why_waiting
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.world import World
from scheduler.policy.explain.growth_limits import GrowthLimits
from scheduler.policy.explain.held_slots import Look


class ExplainDetails(TypedDict):
    #: Fewest workers.
    min_workers: int
    #: Most workers.
    max_workers: int
    #: Workers that were not asked to leave.
    workers: int
    #: Slots of each worker.
    slots_per_worker: int
    #: Slots on nodes that suit the job.
    slots_suitable: int | None
    #: Free slots on suitable nodes that accept workers.
    slots_free: int | None
    #: Free slots beyond the physical ones on these nodes; null where the job does not accept to share.
    extra_slots_free: int | None
    #: Nodes and numbers of workers for which capacity is held.
    reservation: list[tuple[str, int]]
    #: A waiting job that holds free slots which this one could use.
    reserved_by: int | None
    #: Earliest start; null: no such time is set.
    not_before: float | None


class Explanation(TypedDict):
    #: Id of the job.
    id: int
    #: Its state.
    state: str
    #: One or two lines for people.
    summary: str
    #: The typed reason; null: there is none.
    reason: str | None
    #: The job in whose favour; null: none.
    for_job: int | None
    #: Numbers behind the sentence.
    details: ExplainDetails


def explain(job: Job, world: World, settings: PolicySettings, now: float, look: Look | None = None) -> Explanation:
    """The explanation of a job in this world; less detailed without the planner's `look`."""
    reason: str | None = None
    for_job: JobId | None = None
    match job.state:
        case JobState.QUEUED:
            why = job.wait_reason or WaitReason.SUBMITTED
            reason, for_job, summary = why, job.wait_for, why_waiting(job, why, world, settings, now, look)
        case JobState.STARTING:
            summary = why_starting(job)
        case JobState.RUNNING | JobState.RESIZING:
            growth = GrowthLimits(world, now, settings, look).of(job)
            reason, for_job, summary = why_this_size(job, growth, world, settings, now)
            summary += what_blocks(job)
        case JobState.STOPPING | JobState.SUSPENDED:
            reason, for_job = job.stop_reason, job.stop_for
            summary = why_stopped(job, world)
        case JobState.HELD:
            summary = why_held(job)
        case JobState.SUCCEEDED | JobState.FAILED | JobState.CANCELLED:
            reason, for_job = job.stop_reason, job.stop_for
            summary = how_it_ended(job)
        case _:
            assert_never(job.state)
    return {
        "id": job.id,
        "state": job.state,
        "summary": summary,
        "reason": reason,
        "for_job": for_job,
        "details": _details(job, world, now),
    }


def _details(job: Job, world: World, now: float) -> ExplainDetails:
    suitable = [node for node in world.nodes.values() if node.suits(job.shape)]
    return {
        "min_workers": job.min_workers,
        "max_workers": job.max_workers,
        "workers": len(job.wanted_workers),
        "slots_per_worker": job.shape.slots,
        "slots_suitable": sum(node.slots for node in suitable) if world.nodes else None,
        "slots_free": sum(free_slots(n, world) for n in suitable if n.schedulable) if world.nodes else None,
        "extra_slots_free": sum(free_extra(n, world) for n in suitable if n.schedulable)
        if job.shape.oversell
        else None,
        "reservation": [(node, count) for node, count in job.reservation],
        "reserved_by": reserved_by(job, world),
        "not_before": job.not_before if job.not_before > now else None,
    }
