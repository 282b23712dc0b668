"""Absorb which slots of a node take no new workers, with one event for all changes that are alike."""

from collections.abc import Iterable
from dataclasses import replace

from scheduler.engine.changeset import Changeset
from scheduler.model.event import Cause, EventKind
from scheduler.model.ids import NodeName
from scheduler.model.node import Node
from scheduler.model.observation import NodeObservation
from scheduler.model.slot import ClosedSlot, SlotClosure

#: Consequences for workers on such slots, in words.
_THEN = {
    SlotClosure.FOREIGN: "",
    SlotClosure.UNHEALTHY: "; workers there are moved off",
    SlotClosure.UNREADABLE: "; workers there go on",
}


def closed_slots(before: Node | None, seen: NodeObservation) -> tuple[tuple[ClosedSlot, ...], tuple[ClosedSlot, ...]]:
    """Closed slots of the observed node, and faults that a user has accepted and that still exist."""
    if not seen.closed_slots:
        return (), ()
    accepted = tuple(each for each in before.accepted_faults if each in seen.closed_slots) if before is not None else ()
    return tuple(each for each in seen.closed_slots if each not in accepted), accepted


def tell_of_slots(
    changeset: Changeset, name: NodeName, before: tuple[ClosedSlot, ...], after: tuple[ClosedSlot, ...]
) -> None:
    """One event for all slots that close for the same reason, and one for all that open again."""
    if before == after:
        return
    old = {each.slot: each.closure for each in before}
    new = {each.slot: each.closure for each in after}
    opened = [each for each in before if each.slot not in new]
    closed = [each for each in after if old.get(each.slot) is not each.closure]
    for closure in SlotClosure:
        alike: dict[str, list[ClosedSlot]] = {}
        for each in closed:
            if each.closure is closure:
                alike.setdefault(each.detail, []).append(each)
        for detail, slots in alike.items():
            told = f"{named_slots(slots)}: {detail}{_THEN[closure]}"
            changeset.event(
                EventKind.NODE_SLOTS_CLOSED, node=name, cause=closure.value, detail=told, amount=float(len(slots))
            )
    if opened:
        causes = {each.closure for each in opened}
        cause = causes.pop().value if len(causes) == 1 else Cause.OBSERVED.value
        count = float(len(opened))
        changeset.event(EventKind.NODE_SLOTS_OPENED, node=name, cause=cause, detail=named_slots(opened), amount=count)


def accept_faults(node: Node) -> Node:
    """The node, with slots that take workers although reported as unhealthy, until something else is reported."""
    faults = tuple(each for each in node.closed_slots if each.closure is SlotClosure.UNHEALTHY)
    if not faults:
        return node
    left = tuple(each for each in node.closed_slots if each not in faults)
    accepted = sorted((*node.accepted_faults, *faults), key=lambda each: each.slot)
    return replace(node, closed_slots=left, accepted_faults=tuple(accepted))


def named_slots(slots: Iterable[ClosedSlot]) -> str:
    """The slots' numbers: `slot 3`, `slots 0, 2`."""
    numbers = [str(each.slot) for each in slots]
    return f"slot{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
