"""A caller that is nobody the daemon knows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stranger:
    """Why a caller is not known."""

    #: In one line.
    why: str
    #: Whose token it sends, which opens nothing any more; None: nobody's.
    user: str | None = None
    #: Whether its token could not be checked for now, so that it may try again.
    unchecked: bool = False
