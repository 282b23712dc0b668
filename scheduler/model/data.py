"""The data set of a job whose workers take it in shards: what is declared, and how far it is."""

from dataclasses import dataclass
from enum import IntEnum

from scheduler.model.shuffle import shuffled


@dataclass(frozen=True, slots=True)
class DataSet:
    """A number of shards, repeated for a number of epochs. What a shard is (a file, some records) is up to the script.

    The work is a row of positions, epoch after epoch; each stands for one shard in one epoch.
    """

    shards: int
    epochs: int = 1
    #: Whether each epoch has an order of its own, which follows from the seed.
    shuffle: bool = False
    seed: int = 0
    #: A reader that is silent for this time loses the shards that it holds.
    lease_seconds: float = 60.0
    #: A shard that failed so often in an epoch is set aside.
    max_attempts: int = 3

    @property
    def total(self) -> int:
        """Number of positions."""
        return self.shards * self.epochs

    def shard_at(self, position: int) -> tuple[int, int]:
        """Epoch and shard of a position, both from 0."""
        epoch, place = divmod(position, self.shards)
        return epoch, shuffled(place, self.shards, self.seed, epoch) if self.shuffle else place


@dataclass(frozen=True, slots=True)
class DataProgress:
    """How far a job is with its data; in shards, each counted once per epoch."""

    total: int
    done: int
    #: Workers have them now.
    held: int
    #: Failed too often.
    set_aside: int
    #: The epoch that is being given out, from 0.
    epoch: int

    @property
    def fraction(self) -> float:
        """Share of the work that is over, 0 to 1."""
        return (self.done + self.set_aside) / self.total


@dataclass(frozen=True, slots=True)
class ShardSetAside:
    """A shard that failed too often in this epoch."""

    position: int
    at: float
    detail: str


@dataclass(frozen=True, slots=True)
class ShardHolder:
    """A worker that has shards now."""

    ordinal: int
    held: int
    #: When the reader of it that has some and is silent for longest last called; unix seconds.
    heard_at: float


class Charge(IntEnum):
    """What the failure of a worker costs its job; of several at once the greatest counts."""

    #: Nothing: a shard that was suspected already was tried again. It counts against that one.
    SHARD = 0
    #: Nothing: it makes shards suspect, but others were done since the last such. The retries before are given back.
    FORGIVEN = 1
    #: A retry.
    RETRY = 2
