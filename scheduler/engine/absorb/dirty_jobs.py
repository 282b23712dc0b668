"""Which jobs a tick has to look at, so that thousands of jobs in which nothing happened cost next to nothing.

A job is settled when only an observation, a report or a deadline can change it: it runs, and all its workers are ready
members of a formed group, and none is watched by heartbeats that its job asks for. Knowledge of a job is kept per `Job`
value: values are immutable, so the same object means that nothing changed, except when its workers were last heard,
which puts off the deadline of their silence.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.config import EngineSettings
from scheduler.engine.absorb.workers import progress_is_due
from scheduler.engine.state.deadlines import job_deadline
from scheduler.engine.state.reports import Liveness
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.observation import Observation, WorkerObservation, WorkerReport
from scheduler.model.worker import WorkerState
from scheduler.model.world import World


@dataclass(frozen=True, slots=True)
class _Known:
    job: Job
    settled: bool
    deadline: float | None


@dataclass(frozen=True, slots=True)
class Focus:
    """Jobs and workers that one tick has to look at."""

    #: Active jobs that may change.
    jobs: list[Job]
    #: Workers that were observed to change; only they can be new strays.
    moved: list[WorkerObservation]


class DirtyJobs:
    """Remembers what was absorbed last. After `reset`, everything is looked at."""

    def __init__(self, settings: EngineSettings, liveness: Liveness) -> None:
        self._settings = settings
        self._liveness = liveness
        self._known: dict[JobId, _Known] = {}
        self._seen: Observation | None = None
        #: Workers whose end was observed.
        self._ended: set[WorkerId] = set()

    def reset(self) -> None:
        """Forget everything: nothing that was observed counts as absorbed."""
        self._known.clear()
        self._seen = None

    def absorbed(self, observation: Observation) -> None:
        """Record that the effects of this observation were committed."""
        self._seen = observation

    def focus(self, world: World, observation: Observation, now: float) -> Focus:
        """Jobs and workers that the observation, reports or time may change."""
        before = self._seen
        if before is None or before.nodes != observation.nodes:
            return self._focus(list(world.active.values()), list(observation.workers.values()))
        moved = _moved(before.workers, observation.workers)
        touched = {seen.job_id for seen in moved}
        touched.update(seen.job_id for seen in _gone(before.workers, observation.workers, moved))
        touched.update(
            report.job_id
            for report in observation.reports.values()
            if (job := world.active.get(report.job_id)) is not None and self._is_news(job, report, now)
        )
        due = [job for job in world.active.values() if job.id in touched or self._is_due(job, now)]
        return self._focus(due, moved)

    def ended(self, observation: Observation) -> list[WorkerObservation]:
        """Workers whose end was observed and that the cluster still lists."""
        listed = [seen for worker_id in self._ended if (seen := observation.workers.get(worker_id)) is not None]
        self._ended = {seen.id for seen in listed}
        return listed

    def unsettled(self, world: World) -> list[Job]:
        """Active jobs for which the cluster may have something to do."""
        return [job for job in world.active.values() if not self._look(job).settled]

    def next_deadline(self, world: World, now: float) -> float | None:
        """The earliest moment at which time alone changes something; None if it never does."""
        deadlines: list[float] = []
        for job in world.active.values():
            known = self._look(job)
            deadline = known.deadline if known.settled else job_deadline(job, self._liveness, now, self._settings)
            if deadline is not None:
                deadlines.append(deadline)
        deadlines.extend(at for b in world.bookings.values() for at in (b.start_at, b.end_at))
        deadlines.extend(n.quarantined_until for n in world.nodes.values() if n.quarantined_until is not None)
        if len(self._known) > 2 * len(world.active) + 100:
            self._known = {job_id: known for job_id, known in self._known.items() if job_id in world.active}
        return min((d for d in deadlines if d > now), default=None)

    def _focus(self, jobs: list[Job], moved: list[WorkerObservation]) -> Focus:
        self._ended.update(seen.id for seen in moved if not seen.alive)
        return Focus(jobs, moved)

    def _is_news(self, job: Job, report: WorkerReport, now: float) -> bool:
        """Whether the report changes a settled job: by missing members, or by its progress, kept at intervals."""
        if report.missed is not None:
            return True
        first = next((w for w in job.workers if w.rank == 0), None)  # mostly the oldest one
        if first is None or first.id != report.worker_id:
            return False
        return progress_is_due(job, report, now, self._settings.progress_interval_seconds)

    def _is_due(self, job: Job, now: float) -> bool:
        """Whether time alone may change the job. Reports of its workers may have put off a deadline that was known."""
        known = self._look(job)
        if known.settled and _is_over(known, now):
            known = self._judge(job)
        return not known.settled or _is_over(known, now)

    def _look(self, job: Job) -> _Known:
        known = self._known.get(job.id)
        return known if known is not None and known.job is job else self._judge(job)

    def _judge(self, job: Job) -> _Known:
        deadline = job_deadline(job, self._liveness, 0.0, self._settings)
        known = self._known[job.id] = _Known(job, is_settled(job), deadline)
        return known


def _is_over(known: _Known, now: float) -> bool:
    return known.deadline is not None and known.deadline <= now


def is_settled(job: Job) -> bool:
    """Whether the job stays as it is unless something is observed, reported, asked or due."""
    return (
        job.state is JobState.RUNNING
        and not job.spec.heartbeat_seconds
        and all(
            w.wanted
            and not w.condemned
            and w.member
            and w.state is WorkerState.READY
            and w.reported_generation >= job.generation
            for w in job.workers
        )
        and all(w.wanted and w.state is WorkerState.READY for w in job.fixed_workers)
    )


def _moved(
    before: Mapping[WorkerId, WorkerObservation], after: Mapping[WorkerId, WorkerObservation]
) -> list[WorkerObservation]:
    """Workers that appeared or changed."""
    return [seen for worker_id, seen in after.items() if (old := before.get(worker_id)) is not seen and old != seen]


def _gone(
    before: Mapping[WorkerId, WorkerObservation],
    after: Mapping[WorkerId, WorkerObservation],
    moved: list[WorkerObservation],
) -> list[WorkerObservation]:
    """Workers that the cluster does not list any more, given those that appeared or changed."""
    appeared = sum(1 for seen in moved if seen.id not in before)
    if len(before) + appeared == len(after):
        return []
    return [seen for worker_id, seen in before.items() if worker_id not in after]
