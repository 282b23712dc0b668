"""The published list as the driver needs it, and what of it horovodrun may know now. Standard library only."""

import json
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listed:
    """One worker of the list."""

    name: str
    #: Where it takes orders, `host:port`.
    endpoint: str
    #: Number of its processes.
    slots: int


@dataclass(frozen=True, slots=True)
class Roster:
    """One published generation."""

    generation: int
    workers: tuple[Listed, ...]
    #: The job's fewest workers.
    fewest: int

    @classmethod
    def parse(cls, body: bytes) -> "Roster":
        """Reads discover_hosts' JSON. ValueError where it is not that."""
        try:
            answer = json.loads(body)
            workers = sorted(answer["workers"], key=lambda worker: int(worker["rank"]))
            listed = (Listed(str(w["id"]), str(w["endpoint"]), max(int(w["slots"]), 1)) for w in workers)
            return cls(int(answer["generation"]), tuple(listed), int(answer["min"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a list of workers: {body[:200]!r}") from error

    @property
    def names(self) -> frozenset[str]:
        """Of all its workers."""
        return frozenset(worker.name for worker in self.workers)


def hand_out(roster: Roster, before: tuple[Listed, ...], running: Collection[str]) -> tuple[Listed, ...]:
    """The workers that horovodrun may know of now.

    It gives up when all that it knew are replaced at once, as nobody could hand on the state: one that leaves stays
    until a newcomer runs.

    Args:
        before: what it knew until now.
        running: names of workers on which a process runs.
    """
    if not running or any(worker.name in running for worker in roster.workers):
        return roster.workers
    kept = [worker for worker in before if worker.name in running]
    return (*kept[:1], *roster.workers)
