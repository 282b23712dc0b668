"""Errors of the worker-side library. Standard library only."""

from scheduler.elastic.membership.membership import Membership


class ElasticError(Exception):
    """Root of what this library raises."""


class UsageError(ElasticError):
    """The training script uses the library in a way that cannot work; the message says what would."""


class Refused(ElasticError):
    """The scheduler does not take what this worker says, and would not take it later; the message has its words."""


class Unreachable(ElasticError):
    """The scheduler's name does not resolve, or no network leads to it; the message has both."""


class GroupBroken(ElasticError):
    """A collective failed because a peer left or died; `run` rolls back to the last commit and forms a new group."""


class Superseded(ElasticError):
    """The group being formed is of no use any more: a newer list exists, or the worker has to go."""


class Interruption(BaseException):
    """Unwinds the training function at a step boundary; not an `Exception`, so that scripts do not swallow it."""


class Resized(Interruption):
    """All ranks agreed to move on to a newer list."""

    def __init__(self, membership: Membership) -> None:
        super().__init__(f"generation {membership.generation}")
        self.membership = membership


class Stopped(Interruption):
    """All ranks agreed that the job stops."""
