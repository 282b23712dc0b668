"""What the last steps to a world touched, so that two worlds of one descent are compared without looking at all."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.model.ids import JobId, NodeName

#: Steps that a world remembers; beyond them two worlds have to be compared.
TRAIL_MAX = 64


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """Jobs and nodes of which one world may differ from another."""

    jobs: frozenset[JobId]
    #: Those of the jobs that may differ in more than their progress and their version.
    altered: frozenset[JobId]
    nodes: frozenset[NodeName]


def touched_between(trail: Sequence[Touched], other: Sequence[Touched]) -> Touched | None:
    """What may differ between two worlds with these trails, of one descent; None: it is not known."""
    mine = {id(step): k for k, step in enumerate(trail)}
    for k in range(len(other) - 1, -1, -1):
        common = mine.get(id(other[k]))
        if common is not None:
            steps = (*other[k + 1 :], *trail[common + 1 :])
            jobs: frozenset[JobId] = frozenset().union(*(step.jobs for step in steps))
            altered: frozenset[JobId] = frozenset().union(*(step.altered for step in steps))
            nodes: frozenset[NodeName] = frozenset().union(*(step.nodes for step in steps))
            return Touched(jobs, altered, nodes)
    return None
