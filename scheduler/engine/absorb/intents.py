"""Take users' intents: each is done, or refused with an event that says why."""

from collections.abc import Callable
from dataclasses import replace

from scheduler.engine.absorb.closed_slots import accept_faults, tell_of_slots
from scheduler.engine.absorb.held import absorb_held_intent
from scheduler.engine.changeset import Draft
from scheduler.engine.ports import Inbox
from scheduler.engine.state.bookings import promise, unbook
from scheduler.engine.state.lifecycle import begin_stop, by_user, cancel_waiting
from scheduler.model.event import EventKind
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import STOP_TARGETS, Job, JobState, StopReason, WaitReason
from scheduler.model.node import NODE_TRANSITIONS, Node, NodeIntent


def absorb_inbox(draft: Draft, inbox: Inbox) -> None:
    """Let new jobs into the queue and do what users asked, in the order of arrival."""
    draft.see_unreadable(inbox.unreadable)
    arrived = {job.id: job for job in inbox.jobs}
    asked = {booking.name: booking for booking in inbox.bookings}
    for intent in inbox.intents:
        draft.intents_done.append(intent.id)
        if intent.kind is IntentKind.SUBMIT:
            job = arrived.get(intent.job_id) if intent.job_id is not None else None
            if job is not None:
                _admit(draft, job)
        elif intent.job_id is not None:
            _absorb_job_intent(draft, intent)
        elif intent.node is not None:
            _absorb_node_intent(draft, intent)
        elif intent.booking is not None and intent.kind is IntentKind.BOOK:
            if intent.booking in asked:
                promise(draft, asked[intent.booking])
            else:
                why = f"booking {intent.booking}: it cannot be read, or is gone"
                draft.event(EventKind.REQUEST_REFUSED, cause=intent.kind, detail=why)
        elif intent.booking is not None:
            unbook(draft, intent.booking)


def _admit(draft: Draft, job: Job) -> None:
    if job.state is JobState.HELD:
        draft.put_held(job)
    elif draft.job(job.id) is None:
        draft.put(job)


def _absorb_job_intent(draft: Draft, intent: Intent) -> None:
    assert intent.job_id is not None
    held = draft.held_job(intent.job_id)
    job = draft.job(intent.job_id) if held is None else held
    if job is None or job.state.terminal:
        unread = draft.base.unread(intent.job_id)
        why = "the job has already ended" if unread is None else f"the job cannot be read: {unread}"
        draft.event(EventKind.REQUEST_REFUSED, job_id=intent.job_id, cause=intent.kind, detail=why)
        return
    absorb = _JOB_INTENTS[intent.kind] if held is None else absorb_held_intent
    refusal = absorb(draft, job, intent)
    if refusal:
        draft.event(EventKind.REQUEST_REFUSED, job_id=job.id, cause=intent.kind, detail=refusal)


def _cancel(draft: Draft, job: Job, intent: Intent) -> str:
    if job.state in (JobState.QUEUED, JobState.SUSPENDED):
        cancel_waiting(draft, job)
    elif job.state is not JobState.STOPPING:
        begin_stop(draft, job.id, StopReason.CANCELLED)
    elif job.stop_reason is not None and STOP_TARGETS[job.stop_reason] is not JobState.FAILED:
        draft.put(by_user(job, StopReason.CANCELLED))
    return ""


def _suspend(draft: Draft, job: Job, intent: Intent) -> str:
    if job.state is JobState.SUSPENDED:
        return "it is already suspended"
    if job.state is JobState.QUEUED:
        moved = draft.move(by_user(job, StopReason.SUSPENDED), JobState.SUSPENDED)
        draft.put(replace(moved.unreserved(), wait_reason=None, wait_for=None, queued_at=draft.now))
        draft.event(EventKind.JOB_SUSPENDED, job_id=job.id, cause=StopReason.SUSPENDED)
    elif job.state is not JobState.STOPPING:
        begin_stop(draft, job.id, StopReason.SUSPENDED)
    elif job.stop_reason is not None and STOP_TARGETS[job.stop_reason] is JobState.QUEUED:
        draft.put(by_user(job, StopReason.SUSPENDED))
    else:
        return f"it is being stopped ({job.stop_reason})"
    return ""


def _resume(draft: Draft, job: Job, intent: Intent) -> str:
    if job.state is JobState.SUSPENDED:
        moved = draft.move(job, JobState.QUEUED)
        waiting = replace(moved, queued_at=draft.now, waited_seconds=0.0, wait_reason=WaitReason.SUBMITTED)
        draft.put(replace(waiting, stop_reason=None))
    elif job.state is JobState.STOPPING and job.stop_reason is StopReason.SUSPENDED:
        draft.put(replace(job, stop_reason=StopReason.RESUMED))
    else:
        return "it is not suspended"
    draft.event(EventKind.JOB_RESUMED, job_id=job.id, cause=intent.kind)
    return ""


def _set_priority(draft: Draft, job: Job, intent: Intent) -> str:
    if intent.priority is None:
        return "no priority given"
    draft.put(replace(job, priority=intent.priority))
    draft.event(
        EventKind.JOB_CHANGED,
        job_id=job.id,
        cause=intent.kind,
        detail=f"priority {job.priority} -> {intent.priority}",
    )
    return ""


def _scale(draft: Draft, job: Job, intent: Intent) -> str:
    low = job.min_workers if intent.min_workers is None else intent.min_workers
    high = job.max_workers if intent.max_workers is None else intent.max_workers
    if not 1 <= low <= high:
        return f"the minimum {low} must be at least 1 and at most the maximum {high}"
    draft.put(replace(job, min_workers=low, max_workers=high))
    draft.event(
        EventKind.JOB_CHANGED,
        job_id=job.id,
        cause=intent.kind,
        detail=f"{job.min_workers}..{job.max_workers} -> {low}..{high} workers",
    )
    return ""


_JOB_INTENTS: dict[IntentKind, Callable[[Draft, Job, Intent], str]] = {
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


def _absorb_node_intent(draft: Draft, intent: Intent) -> None:
    assert intent.node is not None
    node = draft.node(intent.node)
    if node is None:
        draft.event(EventKind.REQUEST_REFUSED, node=intent.node, cause=intent.kind, detail="node not found")
        return
    target, kind = _NODE_INTENTS[intent.kind]
    if target is NodeIntent.ACTIVE:
        node = _accept_faults(draft, node)
    if node.intent is target:
        return
    if target not in NODE_TRANSITIONS[node.intent]:
        detail = f"the node is {node.intent}"
        draft.event(EventKind.REQUEST_REFUSED, node=node.name, cause=intent.kind, detail=detail)
        return
    fresh = target is NodeIntent.ACTIVE
    draft.put_node(
        replace(
            node,
            intent=target,
            quarantined_until=None,
            failures=() if fresh else node.failures,
            quarantines=0 if fresh else node.quarantines,
        )
    )
    draft.event(kind, node=node.name, cause=intent.kind)


def _accept_faults(draft: Draft, node: Node) -> Node:
    """Whoever uncordons a node says that its slots may be used, whatever has been reported of them until now."""
    accepted = accept_faults(node)
    if accepted != node:
        draft.put_node(accepted)
        tell_of_slots(draft, node.name, node.closed_slots, accepted.closed_slots)
    return accepted
