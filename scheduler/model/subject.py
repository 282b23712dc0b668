"""What a tick deals with one by one, and can leave out: a job, a node, a pod of others, a booking."""

from dataclasses import dataclass
from enum import StrEnum


class SubjectKind(StrEnum):
    """In the order in which they are rather left out."""

    JOB = "job"
    #: A process of others that waits for room.
    POD = "pod"
    BOOKING = "booking"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Subject:
    """One of them; a job is named by its id."""

    kind: SubjectKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
