"""The one undo of the planner: whatever a draft changes in structures that outlive it is noted here."""

from collections.abc import Callable
from typing import TypeVarTuple

Ts = TypeVarTuple("Ts")


class Journal:
    """How to undo each change since `begin`, in the order of the changes."""

    def __init__(self) -> None:
        self._undo: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    def note(self, undo: Callable[[*Ts], None], *values: *Ts) -> None:
        """Record that `undo` with these values reverts the change that is about to be made; it notes nothing itself."""
        self._undo.append((undo, values))

    def begin(self) -> None:
        """Keep the changes made so far."""
        self._undo.clear()

    def rollback(self) -> None:
        """Undo the changes since `begin`, the latest first."""
        while self._undo:
            undo, values = self._undo.pop()
            undo(*values)
