"""What readers of shards say, and what they are told. A position stands for a shard in an epoch."""

from dataclasses import dataclass
from typing import NamedTuple

from scheduler.errors import InvalidInput
from scheduler.model.ranges import NOTHING, Ranges


class ReaderKey(NamedTuple):
    """Who holds shards: a worker, by its ordinal in the job, may read with several processes."""

    ordinal: int
    name: str


@dataclass(frozen=True, slots=True)
class ShardCall:
    """All that a reader says at once. Calls are numbered; the same number again is a repeat and changes nothing."""

    reader: ReaderKey
    sequence: int
    done: Ranges = NOTHING
    failed: Ranges = NOTHING
    #: Given back untouched.
    returned: Ranges = NOTHING
    #: How many it wants to hold.
    want: int = 0
    #: Why it failed, in a line.
    detail: str = ""

    def check_positions(self, total: int) -> None:
        """Raise `InvalidInput` for a position that does not exist in a job of `total` positions."""
        for field, named in (("done", self.done), ("failed", self.failed), ("returned", self.returned)):
            if named and named.spans[-1][1] > total:
                first, end = named.spans[-1]
                wrong = max(first, total)
                which = f"position {wrong} does" if wrong == end - 1 else f"positions {wrong} to {end - 1} do"
                raise InvalidInput(field, f"{which} not exist: the data of the job has positions 0 to {total - 1}")


class Moved(NamedTuple):
    """How many shards a call has moved; none where it is a repeat."""

    given: int = 0
    done: int = 0
    failed: int = 0
    returned: int = 0


@dataclass(frozen=True, slots=True)
class ShardAnswer:
    """What a call has led to."""

    given: Ranges
    held: Ranges
    #: Reported as done but not held any more: another reader does it, or has done it.
    refused: Ranges
    #: Nothing is left to do or to wait for.
    end: bool
    moved: Moved = Moved()
