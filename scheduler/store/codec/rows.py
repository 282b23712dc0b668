"""Nodes, events, intents, bookings, queues and recurring jobs as rows, and back."""

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Row

from scheduler import bounds
from scheduler.model.audit import AuditRecord
from scheduler.model.booking import Booking, BookingState
from scheduler.model.event import Event, EventKind
from scheduler.model.identity import Role, UserToken
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.node import Node, NodeHealth, NodeIntent
from scheduler.model.queue import Queue
from scheduler.model.queue_tree import broken_path
from scheduler.model.shape import WorkerShape
from scheduler.store.codec.job_reader import check_spec
from scheduler.store.codec.job_rows import Values
from scheduler.store.codec.json_text import (
    failures_from_text,
    failures_to_text,
    labels_from_text,
    names_from_text,
    names_to_text,
    pairs_to_text,
    slots_by_type_from_text,
    slots_by_type_to_text,
    slots_from_text,
    slots_to_text,
    spec_from_text,
    submitter_from_text,
)
from scheduler.store.codec.reading import SetAside, check_row
from scheduler.store.codec.row_check import BrokenColumn, broken_text, raw_columns
from scheduler.store.records import Recurring
from scheduler.store.sql.engine_tables import events, nodes

#: A row of the table as it is stored.
NODE_COLUMNS = raw_columns(nodes)


def node_values(node: Node, version: int, revision: int) -> Values:
    return {
        "name": node.name,
        "host": node.host,
        "slots": node.slots,
        "cpus": node.cpus,
        "memory_mib": node.memory_mib,
        "labels": pairs_to_text(node.labels),
        "gpu_type": node.gpu_type,
        "has_gpus": node.has_gpus,
        "oversell": None if node.oversell == 1 else node.oversell,
        "closed": node.closed or None,
        "health": node.health.value,
        "intent": node.intent.value,
        "failures": failures_to_text(node.failures),
        "quarantines": node.quarantines,
        "quarantined_until": node.quarantined_until,
        "closed_slots": slots_to_text(node.closed_slots) if node.closed_slots else None,
        "accepted_faults": slots_to_text(node.accepted_faults) if node.accepted_faults else None,
        "unlisted_since": node.unlisted_since,
        "version": version,
        "revision": revision,
    }


def read_nodes(rows: Iterable[Row[Any]], aside: SetAside) -> list[Node]:
    """All nodes by name. One whose row cannot be read is there, too: what it has the cluster tells at the next tick.

    What users intended with it may be lost, so that it takes no workers unless that can be read.
    """
    found = []
    for row in rows:
        try:
            check_row(nodes, row)
            found.append(node_from_row(row))
        except Exception as error:
            aside.add(nodes, row, error)
            if isinstance(row.name, str) and broken_text(row.name) is None:
                intent = NodeIntent(row.intent) if row.intent in _KEPT_INTENTS else NodeIntent.CORDONED
                found.append(Node(NodeName(row.name), row.name, 0, health=NodeHealth.DOWN, intent=intent))
    return sorted(found, key=lambda node: node.name)


#: What a user asked for; a quarantine needs more than its name.
_KEPT_INTENTS = (NodeIntent.ACTIVE.value, NodeIntent.CORDONED.value, NodeIntent.DRAINING.value)


def node_from_row(row: Row[Any]) -> Node:
    if row.intent == NodeIntent.QUARANTINED and row.quarantined_until is None:
        raise BrokenColumn("quarantined_until: must not be NULL for a node that is QUARANTINED")
    return Node(
        name=NodeName(row.name),
        host=row.host,
        slots=row.slots,
        cpus=row.cpus,
        memory_mib=row.memory_mib,
        labels=labels_from_text(row.labels),
        gpu_type=row.gpu_type,
        has_gpus=bool(row.has_gpus),
        oversell=1.0 if row.oversell is None else bounds.OVERSELL.nearest(row.oversell),
        closed=row.closed or "",
        health=NodeHealth(row.health),
        intent=NodeIntent(row.intent),
        failures=failures_from_text(row.failures),
        quarantines=row.quarantines,
        quarantined_until=row.quarantined_until,
        closed_slots=slots_from_text(row.closed_slots) if row.closed_slots is not None else (),
        accepted_faults=slots_from_text(row.accepted_faults) if row.accepted_faults is not None else (),
        unlisted_since=row.unlisted_since,
        version=row.version,
    )


def event_values(event_id: int, event: Event) -> Values:
    return {
        "id": event_id,
        "at": event.at,
        "kind": event.kind.value,
        "job_id": event.job_id,
        "worker_id": event.worker_id,
        "node": event.node,
        "cause": event.cause,
        "for_job": event.for_job,
        "detail": event.detail,
        "amount": event.amount,
    }


def event_from_row(row: Row[Any]) -> Event:
    return Event(
        at=row.at,
        kind=EventKind(row.kind),
        job_id=None if row.job_id is None else JobId(row.job_id),
        worker_id=None if row.worker_id is None else WorkerId(row.worker_id),
        node=None if row.node is None else NodeName(row.node),
        cause=row.cause,
        for_job=None if row.for_job is None else JobId(row.for_job),
        detail=row.detail,
        amount=row.amount,
    )


def events_from_rows(rows: Iterable[Row[Any]], aside: SetAside) -> Iterator[tuple[int, Event]]:
    """Events with their ids. One that cannot be read is told as such, so that no page of the history lacks a line."""
    for row in rows:
        found = list(aside.read(events, [row], event_from_row))
        yield row.id, found[0] if found else _unreadable_event(row, aside.rows[-1].reason)


def _unreadable_event(row: Row[Any], reason: str) -> Event:
    at = row.at if isinstance(row.at, float) and bounds.MOMENT.admits(row.at) else 0.0
    job_id = JobId(row.job_id) if type(row.job_id) is int else None
    return Event(at, EventKind.UNREADABLE, job_id, detail=reason)


def intent_values(intent: Intent) -> Values:
    return {
        "id": intent.id,
        "kind": intent.kind.value,
        "created_at": intent.created_at,
        "job_id": intent.job_id,
        "node": intent.node,
        "priority": intent.priority,
        "min_workers": intent.min_workers,
        "max_workers": intent.max_workers,
        "booking": intent.booking,
        "queue": intent.queue,
    }


def intent_from_row(row: Row[Any]) -> Intent:
    kind = IntentKind(row.kind)
    expected = {kind.about} | ({"priority"} if kind is IntentKind.PRIORITY else set())
    for column in ("job_id", "node", "booking", "queue", "priority"):
        if (getattr(row, column) is not None) != (column in expected):
            raise BrokenColumn(f"{column}: does not go with an intent of kind {kind}")
    if (row.min_workers is not None or row.max_workers is not None) != (kind is IntentKind.SCALE):
        raise BrokenColumn(f"min_workers, max_workers: do not go with an intent of kind {kind}")
    return Intent(
        id=row.id,
        kind=kind,
        created_at=row.created_at,
        job_id=None if row.job_id is None else JobId(row.job_id),
        node=None if row.node is None else NodeName(row.node),
        priority=row.priority,
        min_workers=row.min_workers,
        max_workers=row.max_workers,
        booking=row.booking,
        queue=row.queue,
    )


def booking_values(booking: Booking) -> Values:
    shape = booking.shape
    return {
        "name": booking.name,
        "start_at": booking.start_at,
        "end_at": booking.end_at,
        "workers": booking.workers,
        "slots_per_worker": shape.slots,
        "cpus_per_worker": shape.cpus,
        "memory_mib_per_worker": shape.memory_mib,
        "node_selector": pairs_to_text(shape.node_selector),
        "gpu_type": shape.gpu_type,
        "created_at": booking.created_at,
        "user_name": booking.user,
        "priority_min": booking.priority_min,
        "state": booking.state.value,
    }


def booking_from_row(row: Row[Any]) -> Booking:
    if row.start_at >= row.end_at:
        raise BrokenColumn("end_at: must be after start_at")
    return Booking(
        name=row.name,
        start_at=row.start_at,
        end_at=row.end_at,
        workers=row.workers,
        shape=WorkerShape(
            slots=row.slots_per_worker,
            cpus=bounds.CPUS.nearest(row.cpus_per_worker),
            memory_mib=row.memory_mib_per_worker,
            node_selector=labels_from_text(row.node_selector),
            gpu_type=row.gpu_type,
        ),
        created_at=row.created_at,
        user=row.user_name,
        priority_min=row.priority_min,
        state=BookingState(row.state),
    )


def queue_values(queue: Queue) -> Values:
    return {
        "path": queue.path,
        "created_at": queue.created_at,
        "guarantee": slots_by_type_to_text(queue.guarantee),
        "limit": slots_by_type_to_text(queue.limit),
        "weight": queue.weight,
        "share_users": queue.share_users,
        "user_limit": queue.user_limit,
        "priority_max": queue.priority_max,
        "max_jobs": queue.max_jobs,
        "members": names_to_text(queue.members),
        "budget": queue.budget,
    }


def queue_from_row(row: Row[Any]) -> Queue:
    if (rule := broken_path(row.path)) is not None:
        raise BrokenColumn(f"path: {rule}")
    return Queue(
        path=row.path,
        created_at=row.created_at,
        guarantee=slots_by_type_from_text(row.guarantee),
        limit=slots_by_type_from_text(row.limit),
        weight=row.weight,
        share_users=bool(row.share_users),
        user_limit=row.user_limit,
        priority_max=row.priority_max,
        max_jobs=row.max_jobs,
        members=names_from_text(row.members),
        budget=row.budget,
    )


def token_from_row(row: Row[Any]) -> UserToken:
    return UserToken(
        id=row.id,
        user=row.user_name,
        role=Role(row.role),
        name=row.name,
        digest=row.digest,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        made_from=row.made_from,
        queue=row.queue,
    )


def audit_from_row(row: Row[Any]) -> AuditRecord:
    return AuditRecord(
        at=row.at,
        user=row.user_name,
        known_by=row.known_by,
        address=row.address,
        method=row.method,
        route=row.route,
        object=row.object,
        status=row.status,
        times=row.times,
    )


def recurring_from_row(row: Row[Any]) -> Recurring:
    """Raises `BrokenColumn` for one whose jobs could not be read."""
    spec = spec_from_text(row.spec)
    check_spec(spec)
    return Recurring(
        id=row.id,
        cron=row.cron,
        timezone=row.timezone,
        spec=spec,
        created_at=row.created_at,
        last_run_at=row.last_run_at,
        submitter=None if row.submitter is None else submitter_from_text(row.submitter),
        refusal=row.refusal,
    )
