"""The published list of a job's workers, as discover_hosts answers it. Standard library only."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.elastic.membership.quorum import Chain, Electorate

#: No job has as many lists; ranks agree on a number with the generation in it.
GENERATION_MAX = 2**40


@dataclass(frozen=True, slots=True)
class Membership:
    """Who is in the group, in rank order, and where they meet: one published generation, or a sub-generation of it."""

    generation: int
    workers: tuple[str, ...]
    #: host:port of the store that rank 0 serves; None while the scheduler does not know it
    rendezvous: str | None
    #: workers asked to leave that may still be running
    leaving: frozenset[str] = frozenset()
    #: how often its workers have agreed to go on without lost ones; 0 of the scheduler's own list
    sub: int = 0
    #: host:port of each worker's own store, as far as known
    endpoints: Mapping[str, str] = field(default_factory=dict)
    #: host:port where each worker answers the others, as far as known
    peers: Mapping[str, str] = field(default_factory=dict)
    #: the job's minimum
    least: int = 1

    @classmethod
    def parse(cls, body: bytes) -> "Membership":
        """Reads the JSON text of discover_hosts. ValueError if it is not a list of workers."""
        return cls.decode(json.loads(body))

    @classmethod
    def decode(cls, answer: Any) -> "Membership":
        """Reads the parsed JSON of discover_hosts. ValueError if it is not a list of workers."""
        try:
            workers = sorted(answer["workers"], key=lambda worker: int(worker["rank"]))
            generation = int(answer["generation"])
            if not 0 <= generation <= GENERATION_MAX:
                raise ValueError(f"generation: must be from 0 to {GENERATION_MAX}, not {generation}")
            return cls(
                generation=generation,
                workers=tuple(str(worker["id"]) for worker in workers),
                rendezvous=answer.get("rendezvous"),
                leaving=frozenset(str(worker["id"]) for worker in answer.get("leaving", ())),
                sub=int(answer.get("sub", 0)),
                endpoints=_known(workers, "endpoint"),
                peers=_known(workers, "peer"),
                least=int(answer.get("min", 1)),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"not a list of workers: {str(answer)[:200]!r}") from error

    def encode(self) -> bytes:
        """The inverse of `parse`, for handing the list to peers."""
        return json.dumps(self.to_data()).encode()

    def to_data(self) -> dict[str, Any]:
        """The inverse of `decode`."""
        return {
            "generation": self.generation,
            "sub": self.sub,
            "workers": [
                {"id": worker, "rank": rank, "endpoint": self.endpoints.get(worker), "peer": self.peers.get(worker)}
                for rank, worker in enumerate(self.workers)
            ],
            "rendezvous": self.rendezvous,
            "leaving": [{"id": worker} for worker in sorted(self.leaving)],
            "min": self.least,
        }

    @property
    def version(self) -> tuple[int, int]:
        """Grows with each membership of the job, whoever made it."""
        return self.generation, self.sub

    @property
    def name(self) -> str:
        """For people: `7`, or `7.1` of a sub-generation."""
        return f"{self.generation}.{self.sub}" if self.sub else str(self.generation)

    @property
    def size(self) -> int:
        """The world size."""
        return len(self.workers)

    @property
    def electorate(self) -> Electorate:
        """Who decides about sub-generations; of the scheduler's own list."""
        return Electorate(self.generation, self.workers, self.least)

    def rank_of(self, worker: str) -> int | None:
        """The worker's rank, or None where it is no member."""
        return self.workers.index(worker) if worker in self.workers else None

    def lost_since(self, earlier: "Membership") -> bool:
        """Whether a member of the earlier list is gone without having been asked to leave: it will answer nobody."""
        return any(worker not in self.workers and worker not in self.leaving for worker in earlier.workers)

    def after(self, chain: Chain) -> "Membership":
        """The newest sub-generation of this list: they meet at the store of the first that is left."""
        workers = self.electorate.current(chain)
        rendezvous = self.endpoints.get(workers[0])
        return replace(self, workers=workers, rendezvous=rendezvous, sub=len(chain))


def _known(workers: list[Any], key: str) -> dict[str, str]:
    return {str(worker["id"]): str(worker[key]) for worker in workers if worker.get(key)}
