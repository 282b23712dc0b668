"""What the training state asks of the session that it runs in. Standard library only."""

from collections.abc import Callable
from typing import Any, Protocol


class Boundary(Protocol):
    """What a running session does at a step boundary."""

    def agree(self, voted: bool | None, tell: Callable[[], tuple[float, ...]]) -> tuple[int, tuple[float, ...]]:
        """All ranks decide what comes after this step, and add up what each tells; the decision, and the sums.

        Args:
            voted: what gradient averaging brought, None where unused. Where it is False nothing is added up.
            tell: called when the device has done its work; as many numbers on all ranks.
        """

    def proceed(self, decision: int) -> None:
        """Acts on the decision; may unwind the training function."""

    def wants_change(self) -> bool:
        """Whether this rank alone would have something else happen than going on."""

    def tell(self, fields: dict[str, Any]) -> None:
        """Adds to what is reported to the scheduler."""
