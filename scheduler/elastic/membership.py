"""The published list of a job's workers, as discover_hosts answers it. Standard library only."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Membership:
    """One published generation: who is in the group, in rank order, and where they meet."""

    generation: int
    workers: tuple[str, ...]
    #: host:port of the store that rank 0 serves; None while the scheduler does not know it
    rendezvous: str | None
    #: workers asked to leave that may still be running
    leaving: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, body: bytes) -> "Membership":
        """Reads discover_hosts' JSON. ValueError where it is not that."""
        try:
            answer = json.loads(body)
            workers = sorted(answer["workers"], key=lambda worker: int(worker["rank"]))
            return cls(
                generation=int(answer["generation"]),
                workers=tuple(str(worker["id"]) for worker in workers),
                rendezvous=answer.get("rendezvous"),
                leaving=frozenset(str(worker["id"]) for worker in answer.get("leaving", ())),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a list of workers: {body[:200]!r}") from error

    def encode(self) -> bytes:
        """The inverse of `parse`, for handing the list to peers."""
        return json.dumps(
            {
                "generation": self.generation,
                "workers": [{"id": worker, "rank": rank} for rank, worker in enumerate(self.workers)],
                "rendezvous": self.rendezvous,
                "leaving": [{"id": worker} for worker in sorted(self.leaving)],
            }
        ).encode()

    @property
    def size(self) -> int:
        """The world size."""
        return len(self.workers)

    def rank_of(self, worker: str) -> int | None:
        """The worker's rank, or None where it is no member."""
        return self.workers.index(worker) if worker in self.workers else None

    def lost_since(self, earlier: "Membership") -> bool:
        """Whether a member of the earlier list is gone without having been asked to leave: it will answer nobody."""
        return any(worker not in self.workers and worker not in self.leaving for worker in earlier.workers)
