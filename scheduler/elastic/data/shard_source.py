"""Where shards come from: the scheduler, or this process itself where there is none. Standard library only."""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from scheduler.elastic.environment import Environment, rank_and_size
from scheduler.elastic.errors import Refused, UsageError
from scheduler.elastic.membership.client import Client, Standing
from scheduler.elastic.training.arguments import whole

#: Most shards of a data set, each counted once per epoch. The scheduler takes no more of a job either.
SHARDS_MAX = 10**9
RETRY_SECONDS_MIN = 0.1
RETRY_SECONDS_MAX = 2.0


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard in one epoch, both counted from 0; what it holds is the script's to say."""

    #: Counts through all epochs.
    position: int
    epoch: int
    number: int
    #: How many shards an epoch has.
    of: int

    def part_of(self, records: int) -> range:
        """Its range of `records` records, where shards are equal, consecutive parts of them."""
        return range(self.number * records // self.of, (self.number + 1) * records // self.of)


@dataclass(frozen=True, slots=True)
class Call:
    """What a reader says: positions that are over, and how many shards it wants to hold."""

    want: int
    done: Sequence[int] = ()
    failed: Sequence[int] = ()
    returned: Sequence[int] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What it is told."""

    given: tuple[Shard, ...] = ()
    #: All that it holds.
    held: frozenset[int] = frozenset()
    #: Reported as done, but another reader has these.
    refused: frozenset[int] = frozenset()
    end: bool = False
    leave: bool = False
    #: The worker was given up by the scheduler: nothing that it does may last.
    fenced: bool = False
    #: How long a reader may be silent before it loses the shards it holds.
    lease_seconds: float = 60.0


class ShardSource(Protocol):
    """Gives shards and takes reports."""

    def exchange(self, call: Call, goes_on: Callable[[], bool]) -> Answer | None:
        """Repeat the call until it is answered; None if it was not while `goes_on` held.

        Raises `UsageError` where the job has no shards to give, `Refused` where the call is not taken.
        """
        ...

    def close(self) -> None:
        """Let go of what it uses."""
        ...


class Scheduler:
    """The scheduler's side; one thread uses it."""

    def __init__(self, environment: Environment) -> None:
        self._client = Client(environment)
        self._reader = uuid.uuid4().hex
        self._sequence = 0

    def exchange(self, call: Call, goes_on: Callable[[], bool]) -> Answer | None:
        """See `ShardSource`."""
        self._sequence += 1
        body = {
            "reader": self._reader,
            "sequence": self._sequence,
            "want": call.want,
            "done": _spans(call.done),
            "failed": _spans(call.failed),
            "returned": _spans(call.returned),
            "detail": _line(call.detail),
        }
        pause_seconds = RETRY_SECONDS_MIN
        while True:
            exchanged = self._client.exchange_shards(body)
            standing = exchanged.standing
            if standing is Standing.OK and (answer := _answer(exchanged.answer)) is not None:
                return answer
            if standing is Standing.FENCED:
                return Answer(fenced=True)
            if standing is Standing.ENDED:
                raise UsageError(f"{exchanged.refusal}: declare `data` with its number of `shards` in the job")
            if standing is Standing.REFUSED:
                raise Refused(f"the scheduler rejected the report of this shard reader: {exchanged.refusal}")
            if not goes_on():
                return None
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, RETRY_SECONDS_MAX)

    def close(self) -> None:
        """See `ShardSource`."""
        self._client.close()


@dataclass(slots=True)
class Own:
    """All shards from this process itself, or this rank's part of them where torchrun started several."""

    shards: int
    epochs: int
    rank: int = 0
    world_size: int = 1
    _next: int = field(init=False)
    _held: set[int] = field(init=False, default_factory=set)
    _back: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        whole("shards", self.shards, 1)
        whole("epochs", self.epochs, 1)
        whole("shards times epochs", self.shards * self.epochs, 1, SHARDS_MAX)
        self._next = self.rank

    @classmethod
    def read(cls, shards: int | None, epochs: int, variables: Mapping[str, str]) -> "Own":
        """As torchrun's variables say."""
        if shards is None:
            raise UsageError("without a scheduler the number of shards is required: ShardQueue(shards=...)")
        return cls(shards, epochs, *rank_and_size(variables))

    def exchange(self, call: Call, goes_on: Callable[[], bool]) -> Answer | None:
        """See `ShardSource`. What failed is not tried again."""
        self._held.difference_update(call.done, call.failed, call.returned)
        self._back += call.returned
        given = []
        while len(self._held) < call.want and (position := self._take()) is not None:
            self._held.add(position)
            given.append(Shard(position, *divmod(position, self.shards), self.shards))
        end = not self._held and not self._back and self._next >= self.shards * self.epochs
        return Answer(tuple(given), frozenset(self._held), end=end)

    def close(self) -> None:
        """Nothing is used."""

    def _take(self) -> int | None:
        if self._back:
            return self._back.pop(0)
        position = self._next
        if position >= self.shards * self.epochs:
            return None
        self._next += self.world_size
        return position


def _answer(body: Mapping[str, Any]) -> Answer | None:
    """None where it is no answer of the scheduler: another has answered in its place, which is as if it were away."""
    try:
        of = int(body["shards"])
        return Answer(
            tuple(Shard(int(position), int(epoch), int(number), of) for position, epoch, number in body["given"]),
            _numbers(body["held"]),
            _numbers(body["refused"]),
            bool(body["end"]),
            bool(body["leave"]),
            lease_seconds=float(body["lease_seconds"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _spans(positions: Iterable[int]) -> list[list[int]]:
    """As [first, end) each."""
    spans: list[list[int]] = []
    for position in sorted(positions):
        if spans and spans[-1][1] == position:
            spans[-1][1] += 1
        else:
            spans.append([position, position + 1])
    return spans


def _numbers(spans: Iterable[Sequence[int]]) -> frozenset[int]:
    return frozenset(position for first, end in spans for position in range(first, end))


def _line(text: str) -> str:
    """As the scheduler takes it: one line, not too long."""
    return "".join(c if c.isprintable() else " " for c in text)[:500]
