"""Attempts of jobs with a fixed group, as the pass over the queue knows them."""

from dataclasses import dataclass
from typing import Protocol

from scheduler.model.job import Job, Placement
from scheduler.model.job_state import WaitReason
from scheduler.policy.capacity.placement import NodeCounts
from scheduler.policy.capacity.resources import Headroom


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """Bounds of a job behind the blocked one, and the headrooms from which its fixed group is taken."""

    bounds: Headroom
    accounts: tuple[Headroom, ...]


@dataclass(frozen=True, slots=True)
class Got:
    """The result of an attempt."""

    #: Placement of the other workers.
    node_counts: NodeCounts
    #: Placements held for the job and its fixed group; None: it starts.
    held: tuple[Placement, Placement] | None = None
    #: Whether it takes from others.
    takes: bool = False


class GroupStarts(Protocol):
    """Attempts of jobs with a fixed group; see `fixed_starts`."""

    def impossible(self, job: Job) -> WaitReason | None:
        """Why no plan can start the job; None if one could."""

    def attempt(
        self, job: Job, own: tuple[Placement, Placement], limit: GroupLimit | None, *, may_take: bool
    ) -> Got | None:
        """Start it or hold something for it; `own` is what was held until now. None: neither can be."""
