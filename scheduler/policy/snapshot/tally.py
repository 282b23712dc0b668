"""What one active job holds and wants, by kind of slots."""

from typing import NamedTuple

from scheduler.policy.queues.shares import Counts
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.usage import JobUsage


class Tally(NamedTuple):
    """Slots of one active job. They follow from its usage and its place among its peers."""

    usage: JobUsage
    #: Its place among its peers, as an object that changes where the place does.
    peer: object
    lane: Lane
    #: Slots of its workers that stay, of those that are leaving, and of those that nobody may take.
    held: Counts
    leaving: Counts
    pinned: Counts
    #: Slots that it would have if all were free.
    wanted: Counts
