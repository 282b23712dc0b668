"""What a change of a queue is, in one line for people."""

from dataclasses import fields
from typing import Any

from scheduler.model.queue import ANY_GPU, Queue, SlotsByType
from scheduler.model.queue_tree import listed

_NOT_TOLD = ("path", "created_at", "readable")


def difference(before: Queue | None, after: Queue) -> str:
    """What is new about the queue: `weight 1 -> 2, limit none -> 16`; of a new one, all that is not the default."""
    base = Queue(after.path, after.created_at) if before is None else before
    names = (each.name for each in fields(Queue) if each.name not in _NOT_TOLD)
    pairs = [(name, getattr(base, name), getattr(after, name)) for name in names]
    told = [_told(name, old, new, new_queue=before is None) for name, old, new in pairs if old != new]
    return ", ".join(["created"] * (before is None) + told) or "unchanged"


def _told(name: str, old: Any, new: Any, *, new_queue: bool) -> str:
    if name == "members":
        return _members(old, new)
    return f"{name} {_shown(new)}" if new_queue else f"{name} {_shown(old)} -> {_shown(new)}"


def _members(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    added, removed = set(new) - set(old), set(old) - set(new)
    parts = [f"with {listed(added)}"] * bool(added) + [f"without {listed(removed)}"] * bool(removed)
    return f"members {len(new)} ({', '.join(parts) or 'in another order'})"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return slots_shown(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def slots_shown(slots: SlotsByType) -> str:
    """Slots by GPU type: `16 H100=4`."""
    return " ".join(str(count) if kind == ANY_GPU else f"{kind}={count}" for kind, count in slots) or "none"
