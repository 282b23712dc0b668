"""One node on the simulated cluster: what it is, whether it can be reached, and the processes on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.clusters.simulated.job import SimulatedJob
from scheduler.clusters.simulated.process import Process
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.observation import NodeObservation, Phase, SlotLoad, WorkerObservation


@dataclass(slots=True)
class SimulatedNode:
    """A machine and its processes."""

    facts: NodeObservation
    reachable: bool = True
    #: Whether it is listed, as one that is down, while it is out of reach.
    listed: bool = True
    #: Whether its workers are listed as they were seen last while it is out of reach.
    remembered: bool = False
    #: Delay until ends become visible.
    lag_seconds: float = 0.0
    processes: dict[WorkerId, Process] = field(default_factory=dict)
    #: Its workers as they were seen last, if all of them run; None: there may be more to see.
    _steady: Mapping[WorkerId, WorkerObservation] | None = None

    def observe(self, now: float) -> Mapping[WorkerId, WorkerObservation]:
        """Its workers as they are seen."""
        if self._steady is not None:
            return self._steady
        seen = {worker_id: process.observe(now, self.lag_seconds) for worker_id, process in self.processes.items()}
        if all(process.phase is Phase.RUNNING for process in self.processes.values()):
            self._steady = seen
        return seen

    def stir(self) -> None:
        """Call when a process comes or goes, or leaves its phase."""
        self._steady = None

    @property
    def oversold(self) -> bool:
        return self.facts.oversell > 1

    def worker_on(self, slot: int) -> WorkerId | None:
        """A worker that has this slot, its own or shared; None: no worker has."""
        for worker_id, process in self.processes.items():
            if process.alive and slot in process.start.slot_ids:
                return worker_id
        return None

    def loads(self, jobs: Mapping[JobId, SimulatedJob]) -> tuple[SlotLoad, ...]:
        """Load of all its running processes, which are of these jobs, on its slots."""
        memory, utilization = [0.0] * self.facts.slots, [0.0] * self.facts.slots
        for process in self.processes.values():
            load = jobs[process.start.job_id].behaviour.load
            for slot in process.start.slot_ids if process.phase is Phase.RUNNING else ():
                if slot < self.facts.slots:
                    memory[slot] += load.memory or 0.0
                    utilization[slot] += load.utilization or 0.0
        return tuple(SlotLoad(min(m, 1.0), min(u, 1.0)) for m, u in zip(memory, utilization, strict=True))
