"""What one seed stands for, as data: a cluster, a workload, and what goes wrong when."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import EngineSettings, PolicySettings
from scheduler.model.job import JobSpec
from scheduler.model.observation import NodeObservation
from tests.faults.kinds import Fault

if TYPE_CHECKING:
    from tests.faults.poison import Poisoning

#: Faults and arrivals happen in this time, in seconds.
CHAOS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that is submitted `at` seconds after the start."""

    at: float
    spec: JobSpec
    behaviour: Behaviour


@dataclass(frozen=True, slots=True)
class Scenario:
    """One seed. Times of arrivals and faults are seconds after the start, ascending."""

    seed: int
    policy: PolicySettings
    engine: EngineSettings
    nodes: tuple[NodeObservation, ...]
    arrivals: tuple[Arrival, ...]
    faults: tuple[tuple[float, Fault], ...]
    #: How many daemons there are: one leads, the others follow.
    replicas: int
    #: Whether nodes that operators took out of service come back when the faults stop.
    uncordon: bool
    #: Whether suspended jobs are resumed when the faults stop.
    resume: bool
    #: Whether others leave the nodes when the faults stop.
    others_leave: bool = True
    #: How far the unix time of each daemon's machine is ahead.
    ahead_seconds: tuple[float, ...] = ()
    #: The job that the scheduler fails at; None: there is none.
    poison: "Poisoning | None" = None
    #: How long nodes that are not listed are kept.
    nodes_seconds: float = 7 * 86400.0
    #: What was drawn into it; see `draw`.
    features: tuple[str, ...] = ()

    @property
    def work_seconds(self) -> float:
        """How long its jobs work at most where there is but one slot, one after another."""
        return sum(each.behaviour.work_seconds or 0.0 for each in self.arrivals)
