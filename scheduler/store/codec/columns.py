"""What is made of single columns of text: tells which of them keeps a row from being read."""

from collections.abc import Callable
from typing import Any

from scheduler.model.booking import BookingState
from scheduler.model.event import EventKind
from scheduler.model.identity import Role
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.node import NodeHealth, NodeIntent
from scheduler.model.worker import Desired, ExitReason, LeaveReason, WorkerState
from scheduler.store.codec.json_text import (
    data_from_text,
    export_from_text,
    failures_from_text,
    hosts_from_text,
    labels_from_text,
    launch_from_text,
    levels_from_text,
    members_from_text,
    names_from_text,
    numbers_from_text,
    placement_from_text,
    ranges_from_text,
    slots_by_type_from_text,
    slots_from_text,
    spec_from_text,
    speedup_from_text,
    submitter_from_text,
)
from scheduler.store.codec.progress_text import progress_from_text

#: By name, or by table and name where tables differ.
PARSED: dict[str, Callable[[Any], object]] = {
    "launch": launch_from_text,
    "labels": labels_from_text,
    "node_selector": labels_from_text,
    "speedup": speedup_from_text,
    "data": data_from_text,
    "export": export_from_text,
    "reservation": placement_from_text,
    "fixed_reservation": placement_from_text,
    "fixed_hosts": hosts_from_text,
    "progress": progress_from_text,
    "slot_ids": numbers_from_text,
    "spec": spec_from_text,
    "generations.members": members_from_text,
    "queues.members": names_from_text,
    "guarantee": slots_by_type_from_text,
    "limit": slots_by_type_from_text,
    "held": ranges_from_text,
    "returned": ranges_from_text,
    "tried": ranges_from_text,
    "refused": ranges_from_text,
    "failed": ranges_from_text,
    "data_queues.failures": levels_from_text,
    "nodes.failures": failures_from_text,
    "closed_slots": slots_from_text,
    "accepted_faults": slots_from_text,
    "runtime": Runtime,
    "wait_reason": WaitReason,
    "stop_reason": StopReason,
    "desired": Desired,
    "leave_reason": LeaveReason,
    "exit_reason": ExitReason,
    "health": NodeHealth,
    "intent": NodeIntent,
    "jobs.state": JobState,
    "held_from": JobState,
    "workers.state": WorkerState,
    "bookings.state": BookingState,
    "events.kind": EventKind,
    "intents.kind": IntentKind,
    "tokens.role": Role,
    "submitter": submitter_from_text,
}
