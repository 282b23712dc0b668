"""What would change a job's state or size, each in one sentence. Nothing is promised: the planner decides."""

from typing import assert_never

from scheduler.config import PolicySettings
from scheduler.http.explain.room import fitting, reserved_by
from scheduler.http.explain.words import job_name
from scheduler.http.feasible import most_workers
from scheduler.model.job import Job, JobState, StopReason, WaitReason
from scheduler.model.node import Node, NodeHealth, NodeIntent
from scheduler.model.world import World


def remedies(job: Job, reason: str | None, world: World, settings: PolicySettings, now: float) -> list[str]:
    """For a job that is as it is for this reason; empty where nothing would, or there is nothing to change."""
    match job.state:
        case JobState.QUEUED:
            return _to_start(job, job.wait_reason or WaitReason.SUBMITTED, world, settings, now)
        case JobState.RUNNING | JobState.RESIZING:
            return _to_grow(job, reason, world)
        case JobState.SUSPENDED:
            return [f'To resume it: "sched resume {job.id}".']
        case JobState.FAILED if job.stop_reason is StopReason.RETRIES_EXHAUSTED:
            return [f'Its output says what failed: "sched logs {job.id}".']
        case _:
            return []


def _to_start(job: Job, reason: WaitReason, world: World, settings: PolicySettings, now: float) -> list[str]:
    suitable = [node for node in world.nodes.values() if node.suits(job.shape)]
    match reason:
        case WaitReason.SUBMITTED:
            return []
        case WaitReason.INSUFFICIENT_SLOTS:
            return [*_less(job, fitting(job, world), "on what is free now"), *_higher(job, world, settings)]
        case WaitReason.WAITING_FOR_VICTIMS:
            return _when_they_are_gone(job, world, now)
        case WaitReason.BEHIND_RESERVATION:
            return _before(job, world, settings)
        case WaitReason.BACKOFF:
            return [f'The end of its pause; its output says what failed: "sched logs {job.id}".']
        case WaitReason.NO_MATCHING_NODE:
            return ["A node that has what it asks for."]
        case WaitReason.EXCEEDS_CLUSTER:
            return ["More nodes that suit it.", *_less(job, most_workers(job.spec, suitable), "on the nodes there are")]
        case WaitReason.NODES_UNAVAILABLE:
            return _nodes_back(suitable, now)
        case WaitReason.BOOKED_LATER:
            return [f'The start of its booking ("sched bookings"), or "sched unbook {job.spec.booking}".']
        case WaitReason.BOOKING_FULL:
            return [f"The end of another job of its booking {job.spec.booking}."]
        case WaitReason.BEHIND_BOOKING:
            return ["The end of the booking, or a shorter time limit (it has to be submitted again with it)."]
        case WaitReason.BEHIND_FOREIGN:
            return ["That others of the cluster get what they wait for, or give up."]
        case WaitReason.POLICY_WITHOUT_FIXED:
            return [f"Another policy than {settings.name} in the daemon's settings (policy.name)."]
        case _:
            assert_never(reason)


def _less(job: Job, workers: int, where: str) -> list[str]:
    if not 0 < workers < job.min_workers:
        return []
    return [f'A smaller minimum: {workers} of its workers would fit {where} ("sched scale {job.id} --min {workers}").']


def _higher(job: Job, world: World, settings: PolicySettings) -> list[str]:
    """A priority above that of the least important job from which it could take something."""
    if settings.name != "elastic":
        return []
    suitable = {node.name for node in world.nodes.values() if node.suits(job.shape)}
    holders = [
        other
        for other in world.active.values()
        if other.priority >= job.priority
        and other.spec.preemptible
        and any(worker.node in suitable for worker in other.wanted_workers)
    ]
    if not holders:
        return []
    least = min(holders, key=lambda other: (other.priority, -other.id))
    asked = f'"sched priority {job.id} {least.priority + 1} --dry-run" says what that would do'
    return [f"A priority above {least.priority}, to take from {job_name(least.id, world)}: {asked}."]


def _before(job: Job, world: World, settings: PolicySettings) -> list[str]:
    """Past the job that it waits behind."""
    ahead = world.job(job.wait_for) if job.wait_for is not None else None
    if ahead is None or settings.name != "elastic":
        return ["The start of the job ahead of it."]
    asked = f'"sched priority {job.id} {ahead.priority + 1} --dry-run" says what that would do'
    return [
        f"The start of {job_name(ahead.id, world)}.",
        f"A priority above {ahead.priority}, to go before it: {asked}.",
    ]


def _when_they_are_gone(job: Job, world: World, now: float) -> list[str]:
    leaving = [w for other in world.active.values() for w in other.all_leaving if w.leave_for == job.id]
    deadlines = [worker.stop_deadline for worker in leaving if worker.stop_deadline is not None]
    if not deadlines:
        return []
    count = f"{len(leaving)} worker{'s' if len(leaving) > 1 else ''}"
    return [f"Nothing need be done: {count} of others leave for it within {max(0.0, max(deadlines) - now):.0f} s."]


def _nodes_back(suitable: list[Node], now: float) -> list[str]:
    ways = []
    held_back = sorted(n.name for n in suitable if n.intent is not NodeIntent.ACTIVE and n.health is NodeHealth.UP)
    if held_back:
        ways.append(f'To let workers in again: "sched uncordon {" ".join(held_back[:5])}".')
    ends = [node.quarantined_until for node in suitable if node.intent is NodeIntent.QUARANTINED]
    known = [end for end in ends if end is not None]
    if known:
        ways.append(f"The end of a quarantine, in {max(0.0, min(known) - now):.0f} s.")
    if any(node.health is not NodeHealth.UP for node in suitable):
        ways.append("That a node which is down comes back.")
    return ways


def _to_grow(job: Job, reason: str | None, world: World) -> list[str]:
    size = len(job.wanted_workers)
    if job.finishing:
        return []
    if size >= job.max_workers:
        return [f'A larger maximum: "sched scale {job.id} --max {size + 1}" or more.'] if job.elastic else []
    if reason == "INSUFFICIENT_SLOTS":
        return ["Slots that come free: the most important job that can use them gets them."]
    if reason == "BEHIND_RESERVATION":
        holder = reserved_by(job, world)
        return [f"The start of {job_name(holder, world)}, if it leaves something."] if holder is not None else []
    giving_to = {worker.leave_for for worker in job.leaving if worker.leave_for is not None}
    return [f"The end of {job_name(each, world)}." for each in sorted(giving_to)]
