"""Absorb users' intents: each is carried out, or refused with an event that says why."""

from collections.abc import Callable

from scheduler.engine.absorb.closed_slots import accept_faults, tell_of_slots
from scheduler.engine.absorb.held import absorb_held_intent
from scheduler.engine.changeset import Changeset
from scheduler.engine.ports import Inbox
from scheduler.engine.state.bookings import promise, unbook
from scheduler.engine.state.lifecycle import begin_stop, by_user, cancel_waiting
from scheduler.model.event import EventKind
from scheduler.model.evolve import evolve
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job
from scheduler.model.job_state import STOP_TARGETS, JobState, StopReason, WaitReason
from scheduler.model.node import NODE_TRANSITIONS, Node, NodeIntent

#: Clocks of daemons differ by less, but for one that has just started and has not heard of the leader yet.
AHEAD_SECONDS_MAX = 5.0


def absorb_inbox(changeset: Changeset, inbox: Inbox) -> None:
    """Admit new jobs to the queue and carry out intents, in the order of arrival."""
    changeset.see_unreadable(inbox.unreadable)
    if inbox.queues is not None:
        changeset.see_queues(inbox.queues)
    arrived = {job.id: job for job in inbox.jobs}
    asked = {booking.name: booking for booking in inbox.bookings}
    for intent in inbox.intents:
        changeset.intents_done.append(intent.id)
        if intent.kind is IntentKind.SUBMIT:
            job = arrived.get(intent.job_id) if intent.job_id is not None else None
            if job is not None:
                _admit(changeset, job)
            elif intent.job_id is not None:
                changeset.unread.append(intent.job_id)
        elif intent.job_id is not None:
            _absorb_job_intent(changeset, intent)
        elif intent.node is not None:
            _absorb_node_intent(changeset, intent)
        elif intent.booking is not None and intent.kind is IntentKind.BOOK:
            if intent.booking in asked:
                promise(changeset, asked[intent.booking])
            else:
                why = f"booking {intent.booking}: it cannot be read, or is gone"
                changeset.event(EventKind.REQUEST_REFUSED, cause=intent.kind, detail=why)
        elif intent.booking is not None:
            unbook(changeset, intent.booking)


def _admit(changeset: Changeset, job: Job) -> None:
    if job.state is JobState.HELD:
        changeset.put_held(job)
    elif changeset.job(job.id) is None:
        now = changeset.now
        is_ahead = job.submitted_at > now + AHEAD_SECONDS_MAX
        changeset.put(evolve(job, submitted_at=now, queued_at=now) if is_ahead else job)


def _absorb_job_intent(changeset: Changeset, intent: Intent) -> None:
    assert intent.job_id is not None
    held = changeset.held_job(intent.job_id)
    job = changeset.job(intent.job_id) if held is None else held
    if job is None or job.state.terminal:
        unread = changeset.base.unread(intent.job_id)
        why = "the job has already ended" if unread is None else f"the job cannot be read: {unread}"
        changeset.event(EventKind.REQUEST_REFUSED, job_id=intent.job_id, cause=intent.kind, detail=why)
        return
    absorb = _JOB_INTENTS[intent.kind] if held is None else absorb_held_intent
    refusal = absorb(changeset, job, intent)
    if refusal:
        changeset.event(EventKind.REQUEST_REFUSED, job_id=job.id, cause=intent.kind, detail=refusal)


def _cancel(changeset: Changeset, job: Job, intent: Intent) -> str:
    if job.state in (JobState.QUEUED, JobState.SUSPENDED):
        cancel_waiting(changeset, job)
    elif job.state is not JobState.STOPPING:
        begin_stop(changeset, job.id, StopReason.CANCELLED)
    elif job.stop_reason is not None and STOP_TARGETS[job.stop_reason] is not JobState.FAILED:
        changeset.put(by_user(job, StopReason.CANCELLED))
    return ""


def _suspend(changeset: Changeset, job: Job, intent: Intent) -> str:
    if job.state is JobState.SUSPENDED:
        return "it is already suspended"
    if job.state is JobState.QUEUED:
        moved = changeset.move(by_user(job, StopReason.SUSPENDED), JobState.SUSPENDED)
        changeset.put(evolve(moved.unreserved(), wait_reason=None, wait_for=None, queued_at=changeset.now))
        changeset.event(EventKind.JOB_SUSPENDED, job_id=job.id, cause=StopReason.SUSPENDED)
    elif job.state is not JobState.STOPPING:
        begin_stop(changeset, job.id, StopReason.SUSPENDED)
    elif job.stop_reason is not None and STOP_TARGETS[job.stop_reason] is JobState.QUEUED:
        changeset.put(by_user(job, StopReason.SUSPENDED))
    else:
        return f"it is being stopped ({job.stop_reason})"
    return ""


def _resume(changeset: Changeset, job: Job, intent: Intent) -> str:
    if job.state is JobState.SUSPENDED:
        moved = changeset.move(job, JobState.QUEUED)
        waiting = evolve(moved, queued_at=changeset.now, waited_seconds=0.0, wait_reason=WaitReason.SUBMITTED)
        changeset.put(evolve(waiting, stop_reason=None))
    elif job.state is JobState.STOPPING and job.stop_reason is StopReason.SUSPENDED:
        changeset.put(evolve(job, stop_reason=StopReason.RESUMED))
    else:
        return "it is not suspended"
    changeset.event(EventKind.JOB_RESUMED, job_id=job.id, cause=intent.kind)
    return ""


def _set_priority(changeset: Changeset, job: Job, intent: Intent) -> str:
    if intent.priority is None:
        return "no priority given"
    changeset.put(evolve(job, priority=intent.priority))
    changeset.event(
        EventKind.JOB_CHANGED,
        job_id=job.id,
        cause=intent.kind,
        detail=f"priority {job.priority} -> {intent.priority}",
    )
    return ""


def _scale(changeset: Changeset, job: Job, intent: Intent) -> str:
    low = job.min_workers if intent.min_workers is None else intent.min_workers
    high = job.max_workers if intent.max_workers is None else intent.max_workers
    if not 1 <= low <= high:
        return f"the minimum {low} must be at least 1 and at most the maximum {high}"
    changeset.put(evolve(job, min_workers=low, max_workers=high))
    changeset.event(
        EventKind.JOB_CHANGED,
        job_id=job.id,
        cause=intent.kind,
        detail=f"{job.min_workers}..{job.max_workers} -> {low}..{high} workers",
    )
    return ""


_JOB_INTENTS: dict[IntentKind, Callable[[Changeset, Job, Intent], str]] = {
    IntentKind.CANCEL: _cancel,
    IntentKind.SUSPEND: _suspend,
    IntentKind.RESUME: _resume,
    IntentKind.PRIORITY: _set_priority,
    IntentKind.SCALE: _scale,
}

_NODE_INTENTS: dict[IntentKind, tuple[NodeIntent, EventKind]] = {
    IntentKind.CORDON: (NodeIntent.CORDONED, EventKind.NODE_CORDONED),
    IntentKind.UNCORDON: (NodeIntent.ACTIVE, EventKind.NODE_UNCORDONED),
    IntentKind.DRAIN: (NodeIntent.DRAINING, EventKind.NODE_DRAINING),
}


def _absorb_node_intent(changeset: Changeset, intent: Intent) -> None:
    assert intent.node is not None
    node = changeset.node(intent.node)
    if node is None:
        changeset.event(EventKind.REQUEST_REFUSED, node=intent.node, cause=intent.kind, detail="node not found")
        return
    target, kind = _NODE_INTENTS[intent.kind]
    if target is NodeIntent.ACTIVE:
        node = _accept_faults(changeset, node)
    if node.intent is target:
        return
    if target not in NODE_TRANSITIONS[node.intent]:
        detail = f"the node is {node.intent}"
        changeset.event(EventKind.REQUEST_REFUSED, node=node.name, cause=intent.kind, detail=detail)
        return
    fresh = target is NodeIntent.ACTIVE
    changeset.put_node(
        evolve(
            node,
            intent=target,
            quarantined_until=None,
            failures=() if fresh else node.failures,
            quarantines=0 if fresh else node.quarantines,
        )
    )
    changeset.event(kind, node=node.name, cause=intent.kind)


def _accept_faults(changeset: Changeset, node: Node) -> Node:
    """Accept all faults reported so far: a user who uncordons a node says that its slots may be used."""
    accepted = accept_faults(node)
    if accepted != node:
        changeset.put_node(accepted)
        tell_of_slots(changeset, node.name, node.closed_slots, accepted.closed_slots)
    return accepted
