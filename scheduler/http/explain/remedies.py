"""Changes that would alter a job's state or size, each in one sentence. They promise nothing: the planner decides."""

from typing import assert_never

from scheduler import bounds
from scheduler.config import PolicySettings
from scheduler.http.explain.feasible import most_workers
from scheduler.http.explain.room import away, closed_slots
from scheduler.http.explain.words import job_name, named
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.node import Node, NodeHealth, NodeIntent
from scheduler.model.queue_tree import REPLACE_IT, unreadable_of
from scheduler.model.slot import SlotClosure
from scheduler.model.words import counted
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import View
from scheduler.policy.explain.counterfactuals import Rise, Trials
from scheduler.policy.explain.growth_limits import Growth, GrowthLimits, Limit
from scheduler.policy.explain.held_slots import Look
from scheduler.policy.explain.shortage import Lack, vacancies_of
from scheduler.policy.overlay.booking_view import hold_from

_PRIORITY_MAX = int(bounds.PRIORITY.high)


def remedies(
    job: Job, world: World, settings: PolicySettings, now: float, look: Look | None, trials: Trials | None
) -> list[str]:
    """Remedies for a job; empty if nothing would help, or there is nothing to change.

    `look`: the planner's look at the world. `trials`: asks the planner more about a waiting job.
    """
    match job.state:
        case JobState.QUEUED:
            return _to_start(job, job.wait_reason or WaitReason.SUBMITTED, world, settings, now, trials)
        case JobState.RUNNING | JobState.RESIZING:
            return _to_grow(job, GrowthLimits(world, now, settings, look).of(job), world, now)
        case JobState.SUSPENDED if job.stop_reason is StopReason.NO_ACCOUNT:
            return [f'Correct what the reason names, then resume it: "sched resume {job.id}".']
        case JobState.SUSPENDED:
            return [f'Resume it: "sched resume {job.id}".']
        case JobState.HELD:
            return [f'Let decisions look at it again: "sched resume {job.id}"; or end it: "sched cancel {job.id}".']
        case JobState.FAILED if job.stop_reason is StopReason.RETRIES_EXHAUSTED:
            return [f'See its output for the failure: "sched logs {job.id}".']
        case JobState.FAILED if job.stop_reason is StopReason.CANNOT_START:
            return ["Correct what the reason names, and submit the job again."]
        case _:
            return []


def _to_start(
    job: Job, reason: WaitReason, world: World, settings: PolicySettings, now: float, trials: Trials | None
) -> list[str]:
    suitable = [node for node in world.nodes.values() if node.suits(job.shape)]
    match reason:
        case WaitReason.SUBMITTED:
            return []
        case WaitReason.INSUFFICIENT_SLOTS:
            return _tried(job, world, now, trials) if trials is not None else []
        case WaitReason.WAITING_FOR_VICTIMS:
            return _when_they_are_gone(job, world, now)
        case WaitReason.BEHIND_RESERVATION:
            ahead = job_name(job.wait_for, world) if job.wait_for is not None else "the job ahead of it"
            tried = _tried(job, world, now, trials) if trials is not None else []
            return [f"The start of {ahead}, if enough slots remain.", *tried]
        case WaitReason.BACKOFF:
            return [f'The end of the pause; see its output for the failure: "sched logs {job.id}".']
        case WaitReason.NO_MATCHING_NODE:
            return ["A node that meets its requirements." if world.nodes else "A node."]
        case WaitReason.EXCEEDS_CLUSTER:
            return _larger_cluster(job, suitable)
        case WaitReason.NODES_UNAVAILABLE:
            return [*_nodes_back(suitable, now), *_slots_back(job, world)]
        case WaitReason.BOOKED_LATER:
            return [f'The start of its booking ("sched bookings"), or "sched unbook {job.spec.booking}".']
        case WaitReason.BOOKING_FULL:
            return [f"The end of another job of its booking {job.spec.booking}."]
        case WaitReason.BEHIND_BOOKING:
            booking = trials.booking_that_keeps_it() if trials is not None else None
            held = booking is not None and now >= hold_from(world.bookings[booking], world, settings)
            if trials is not None and held:  # no time limit helps there
                return _tried(job, world, now, trials)
            named = f"booking {booking}" if booking is not None else "the booking"
            return [f"The end of {named}, or a shorter time limit (submit the job again)."]
        case WaitReason.BEHIND_FOREIGN:
            tried = _tried(job, world, now, trials) if trials is not None else []
            return ["The workloads outside this scheduler start, or are withdrawn.", *tried]
        case WaitReason.POLICY_WITHOUT_FIXED:
            return ["A policy that supports fixed groups: set policy.name to elastic in the settings of the daemon."]
        case WaitReason.QUEUE_LIMIT:
            return ["The end of another job of its queue, or a higher limit of the queue."]
        case WaitReason.BUDGET_SPENT:
            return ["The next month (UTC), or a larger budget of its queue or of the spent one around it."]
        case WaitReason.QUEUE_UNREADABLE:
            unread = unreadable_of(world.queues, job.spec.queue) or job.spec.queue
            return [f"A queue {unread} that can be read: {REPLACE_IT.format(unread)}."]
        case WaitReason.USER_LIMIT:
            return ["The end of another job of its user, or a higher limit of its queue for each user."]
        case WaitReason.NOT_GUARANTEED:
            return ["A larger guarantee of its queue, or a preemptible job (submit it again)."]
        case _:
            assert_never(reason)


def _larger_cluster(job: Job, suitable: list[Node]) -> list[str]:
    workers = most_workers(job.spec, suitable)
    if not workers:
        return ["A node large enough for one worker, or smaller workers (submit the job again)."]
    return ["More suitable nodes.", *_less(job, workers, "on the existing nodes")]


def _less(job: Job, workers: int, where: str) -> list[str]:
    if not 0 < workers < job.min_workers:
        return []
    return [
        f'A smaller minimum: {counted(workers, "worker")} would fit {where} ("sched scale {job.id} --min {workers}").'
    ]


def _tried(job: Job, world: World, now: float, trials: Trials) -> list[str]:
    """Remedies that would let it start, by the planner's trials."""
    rise = trials.rise(_PRIORITY_MAX)
    fit = vacancies_of(world).fit(job.shape, View.OPEN)
    ways = _less(job, fit, "in the free slots") if 0 < fit < job.min_workers and trials.starts_with(fit) else []
    if trials.starts_with_nodes(down=False):
        ways += _nodes_back([node for node in away(job, world) if node.health is NodeHealth.UP], now)
    elif trials.starts_with_nodes(down=True):
        ways += _nodes_back(away(job, world), now)
    if trials.starts_with_closed_slots():
        ways += _slots_back(job, world)
    return [*ways, _higher(job, rise, world)] if rise is not None else [*ways, *_ends(trials, world)]


def _higher(job: Job, rise: Rise, world: World) -> str:
    """Text: a priority and its effect."""
    ahead = world.job(job.wait_for) if job.wait_for is not None else None
    to = "go ahead of other jobs"
    if rise.victims:
        more = f" and {len(rise.victims) - 1} more" if len(rise.victims) > 1 else ""
        to = f"take slots from {job_name(rise.victims[0], world)}{more}"
    elif ahead is not None and ahead.priority < rise.priority:
        to = f"go ahead of {job_name(ahead.id, world)}"
    asked = f'"sched priority {job.id} {rise.priority} --dry-run" shows the effect'
    return f"A priority of at least {rise.priority}, to {to}: {asked}."


def _ends(trials: Trials, world: World) -> list[str]:
    """The jobs that have to end if no priority helps."""
    booking = trials.booking_that_keeps_it()
    if booking is not None:
        return [_end_of_booking(booking)]
    end = trials.end_that_serves(_PRIORITY_MAX)
    if end is None:
        return []
    besides = f", together with a priority of at least {end.priority}" if end.priority is not None else ""
    return [f"The end of {job_name(end.job_id, world)}{besides}."]


def _end_of_booking(name: str) -> str:
    return f'The end of booking {name} ("sched bookings"), or "sched unbook {name}".'


def _when_they_are_gone(job: Job, world: World, now: float) -> list[str]:
    leaving = [w for other in world.active.values() for w in other.all_leaving if w.leave_for == job.id]
    deadlines = [worker.stop_deadline for worker in leaving if worker.stop_deadline is not None]
    if not deadlines:
        return []
    count = f"{counted(len(leaving), 'worker')} {'leaves' if len(leaving) == 1 else 'leave'}"
    return [f"No action needed: {count} for it within {max(0.0, max(deadlines) - now):.0f} s."]


def _nodes_back(suitable: list[Node], now: float) -> list[str]:
    ways = []
    held_back = sorted(n.name for n in suitable if n.intent is not NodeIntent.ACTIVE and n.health is NodeHealth.UP)
    if held_back:
        ways.append(f'Open the nodes to workers again: "sched uncordon {" ".join(held_back[:5])}".')
    ends = [node.quarantined_until for node in suitable if node.intent is NodeIntent.QUARANTINED]
    known = [end for end in ends if end is not None]
    if known:
        ways.append(f"The end of a quarantine, in {max(0.0, min(known) - now):.0f} s.")
    if any(node.health is not NodeHealth.UP for node in suitable):
        ways.append("The return of a node that is down.")
    return ways


def _slots_back(job: Job, world: World) -> list[str]:
    """Actions that open the closed slots that it could use."""
    slots: dict[SlotClosure, list[str]] = {}
    nodes: dict[SlotClosure, list[str]] = {}
    for node, each in closed_slots(job.shape, world):
        slots.setdefault(each.closure, []).append(f"{each.slot} of {node.name}")
        nodes.setdefault(each.closure, []).append(node.name)
    ways = []
    if SlotClosure.FOREIGN in slots:
        ways.append(f"The end of processes outside this scheduler on slot {named(slots[SlotClosure.FOREIGN])}.")
    if SlotClosure.UNHEALTHY in slots:
        names = " ".join(dict.fromkeys(nodes[SlotClosure.UNHEALTHY]))
        repaired = named(slots[SlotClosure.UNHEALTHY])
        ways.append(f'A reset or repair of slot {repaired}, then "sched uncordon {names}" where it stays closed.')
    if SlotClosure.UNREADABLE in slots:
        ways.append(f"A GPU driver that answers, for slot {named(slots[SlotClosure.UNREADABLE])}.")
    return ways


def _to_grow(job: Job, growth: Growth, world: World, now: float) -> list[str]:
    giving_to = {worker.leave_for for worker in job.leaving if worker.leave_for is not None}
    if giving_to:
        return [f"The end of {job_name(each, world)}." for each in sorted(giving_to) if world.job(each) is not None]
    match growth.limit:
        case Limit.MAXIMUM if job.elastic:
            return [f'A larger maximum: "sched scale {job.id} --max {len(job.wanted_workers) + 1}" or more.']
        case Limit.NO_ROOM:
            slots = "Shared slots" if any(worker.shared for worker in job.workers) else "Slots"
            freed = f"{slots} that become free; the most important job that can use them gets them."
            if growth.lack is not Lack.SLOTS:
                freed = "Room for a whole worker; the most important job that can use it gets it."
            return [*_nodes_back(away(job, world), now), *_slots_back(job, world), freed]
        case Limit.RESERVED if growth.holder is not None:
            return [f"The start of {job_name(growth.holder, world)}, if enough slots remain."]
        case Limit.KEPT if growth.keeper is not None and growth.keeper.booking is not None:
            return [_end_of_booking(growth.keeper.booking)]
        case Limit.KEPT if growth.keeper is not None and growth.keeper.for_job is not None:
            return [f"The start of {job_name(growth.keeper.for_job, world)}, if enough slots remain."]
        case _:
            return []
