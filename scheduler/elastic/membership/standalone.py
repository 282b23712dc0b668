"""Stands in for the scheduler's line where there is none: one process, or a fixed group under torchrun.

Standard library only.
"""

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from scheduler.elastic.environment import rank_and_size
from scheduler.elastic.membership.agent import Order
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.sigterm import Sigterm


class Alone:
    """The membership never changes and nothing is reported; SIGTERM stops the run with a checkpoint."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """Raises `UsageError` for a rank that cannot be."""
        mine, size = rank_and_size(variables)
        self.worker = f"worker-{mine}"
        self._membership = Membership(1, tuple(f"worker-{rank}" for rank in range(size)), None)
        self._terminated = False
        self._sigterm = Sigterm(self._terminate)

    def start(self) -> None:
        """Takes over SIGTERM, in the main thread."""
        self._sigterm.take()

    def membership(self) -> Membership:
        """The only list there is."""
        return self._membership

    def order(self, generation: int) -> Order:
        """Stop after SIGTERM."""
        return Order.STOP if self._terminated else Order.CONTINUE

    def asked_to_leave(self) -> bool:
        """Whether SIGTERM came."""
        return self._terminated

    def wait(self, seconds: float) -> None:
        """Nothing changes: there is nothing to wait for."""

    def update(self, fields: Mapping[str, Any], at_once: bool = False) -> None:
        """Nobody to tell."""

    def confirm(self, generation: int, *, last: bool) -> bool:
        """Nobody else can be running this job."""
        return True

    def watch(self, membership: Membership, on_void: Callable[[], None], any_change: bool) -> None:
        """No member is ever replaced."""

    def unwatch(self) -> None:
        """Ends `watch`."""

    def refresh(self) -> None:
        """Nobody to ask."""

    def flush(self) -> None:
        """Nobody to tell."""

    def close(self) -> None:
        """Gives SIGTERM back."""
        self._sigterm.give_back()

    def _terminate(self, _signal: int, _frame: FrameType | None) -> None:
        self._terminated = True
