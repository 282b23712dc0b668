"""What the training state asks of the session that it runs in. Standard library only."""

from typing import Any, Protocol


class Boundary(Protocol):
    """What a running session does at a step boundary."""

    def agree(self, voted: bool | None) -> int:
        """All ranks decide what comes after this step; `voted`: what gradient averaging brought, None where unused."""

    def proceed(self, decision: int) -> None:
        """Acts on the decision; may unwind the training function."""

    def wants_change(self) -> bool:
        """Whether this rank alone would have something else happen than going on."""

    def tell(self, fields: dict[str, Any]) -> None:
        """Adds to what is reported to the scheduler."""
