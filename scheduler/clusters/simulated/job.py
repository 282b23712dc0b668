"""One job on the simulated cluster: its processes, the group that they form, and the work that they do."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.clusters.simulated.process import HARMLESS_EXITS, Behaviour, Process
from scheduler.clusters.simulated.work import JobProgress
from scheduler.model.ids import WorkerId
from scheduler.model.job import Job


@dataclass(slots=True)
class SimulatedJob:
    """The processes, knowledge and progress of the workers of one job."""

    behaviour: Behaviour = Behaviour()
    #: How far its work has got; None: it runs for ever.
    job_progress: JobProgress | None = None
    processes: dict[WorkerId, Process] = field(default_factory=dict)
    #: The newest generation that its workers have read, and its members.
    generation: int = 0
    members: frozenset[WorkerId] = frozenset()
    #: When it wrote a checkpoint last.
    checkpoint_at: float | None = None

    def behave(self, behaviour: Behaviour, now: float) -> None:
        """Set the behaviour of workers that start from now on; finished work stays done."""
        self.behaviour = behaviour
        work = behaviour.whole_work
        if work is not None and self.job_progress is None:
            self.job_progress = JobProgress(work, now)

    def read(self, job: Job) -> bool:
        """Take over the published membership; return whether it is a new one."""
        if not job.published_size or job.generation <= self.generation:
            return False
        self.generation = job.generation
        self.members = frozenset(worker.id for worker in job.workers if worker.member)
        return True

    def form(self) -> Sequence[Process]:
        """Make the members a group; return those that joined."""
        able = [each for each in self._present() if each.elastic and each.ready and not each.hung]
        for process in able:
            process.generation = self.generation
        return able

    def write_checkpoint(self, now: float) -> None:
        """Write a checkpoint if one is due; members call this with each report."""
        before = self.checkpoint_at
        if before is None or now >= before + self.behaviour.checkpoint_seconds:
            self.checkpoint_at = now

    def working(self) -> list[Process]:
        """Processes that work now."""
        if self.behaviour.pause_to_form and not self._has_formed():
            return []
        return [process for process in self.processes.values() if process.working]

    def left(self, process: Process, now: float) -> None:
        """Handle the end of a worker: work is committed if it was asked to leave, and lost if it was the last."""
        if self.job_progress is None or not self.behaviour.loses_work:
            return
        others = any(each.alive and each.generation > 0 for each in self.processes.values())
        if process.asked_at is not None:
            self.job_progress.keep(now)
        elif process.exit_code not in HARMLESS_EXITS and not others:
            self.job_progress.lose(now)

    def share_work(self, now: float) -> None:
        """Call when the workers may have changed: count the work done so far, and go on at the new pace."""
        if self.job_progress is not None:
            working = self.working()
            members = tuple(Counter(process.node for process in working).values())
            self.job_progress.set_members(members, self._speed_of_each(working), now)

    def _speed_of_each(self, working: Sequence[Process]) -> float:
        """Mean speed of these processes relative to workers that have their slots to themselves."""
        shared = sum(1 for process in working if process.start.shared)
        return 1.0 + shared * (self.behaviour.shared_speed - 1.0) / len(working) if shared else 1.0

    def _present(self) -> list[Process]:
        return [each for each in self.processes.values() if each.alive and each.start.worker_id in self.members]

    def _has_formed(self) -> bool:
        """Whether all members are there and in the group."""
        present = self._present()
        return len(present) == len(self.members) and all(each.generation == self.generation for each in present)
