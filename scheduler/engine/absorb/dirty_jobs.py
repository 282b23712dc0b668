"""Which jobs a tick has to look at, so that thousands of jobs in which nothing happened cost next to nothing.

A job is settled when only an observation, a report or a deadline can change it: it runs, and all its workers are ready
members of a formed group, and none is watched by heartbeats that its job asks for. One that changed is looked at once
more, since what was observed before may mean something else for it now: after its minimum was lowered, say, it goes on
without a node that is out of reach. Knowledge of a job is kept per `Job` value: values are immutable, so the same
object means that nothing changed, except when its workers were last heard, which puts off when their silence is due.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from scheduler.config import EngineSettings
from scheduler.engine.absorb.nodes import is_as_seen
from scheduler.engine.absorb.workers import progress_is_due
from scheduler.engine.state.deadlines import job_deadline
from scheduler.engine.state.reports import Liveness
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.observation import Agreed, NodeObservation, Observation, WorkerObservation, WorkerReport
from scheduler.model.worker import WorkerState
from scheduler.model.world import World


@dataclass(frozen=True, slots=True)
class _Known:
    job: Job
    settled: bool
    deadline: float | None
    #: The worker that has rank 0.
    first: WorkerId | None


@dataclass(frozen=True, slots=True)
class Focus:
    """Nodes, jobs and workers that one tick has to look at."""

    #: Observed nodes that may have to be stored otherwise.
    nodes: Collection[NodeName]
    #: Active jobs that may change.
    jobs: list[Job]
    #: The report of those of them of which nothing but the progress may change.
    progress: Mapping[JobId, WorkerReport]
    #: Workers that were observed to change, or their nodes; only they can be new strays.
    moved: list[WorkerObservation]


class DirtyJobs:
    """Remembers what was absorbed last. After `reset`, everything is looked at."""

    def __init__(self, settings: EngineSettings, liveness: Liveness) -> None:
        self._settings = settings
        self._liveness = liveness
        self._known: dict[JobId, _Known] = {}
        #: The world of whose active jobs `_known` holds the values.
        self._world = World()
        self._unsettled: set[JobId] = set()
        #: Jobs that have changed in more than their progress since they were looked at.
        self._altered: set[JobId] = set()
        #: (when, job) of settled jobs, soonest first; what is not the job's deadline any more is dropped when it comes.
        self._deadlines: list[tuple[float, JobId]] = []
        self._seen: Observation | None = None
        #: Nodes as stored and as observed, and those that differ.
        self._compared: tuple[Mapping[NodeName, Node], Mapping[NodeName, NodeObservation], list[NodeName]] | None = None
        #: Workers whose end was observed.
        self._ended: set[WorkerId] = set()

    def reset(self) -> None:
        """Forget everything: nothing that was observed counts as absorbed."""
        self._known.clear()
        self._world = World()
        self._unsettled.clear()
        self._altered.clear()
        self._deadlines.clear()
        self._seen = self._compared = None

    def absorbed(self, observation: Observation) -> None:
        """Record that the effects of this observation were committed."""
        self._seen = observation
        self._altered.clear()

    def focus(self, world: World, observation: Observation, now: float) -> Focus:
        """Nodes, jobs and workers that the observation, reports or time may change."""
        before, active = self._seen, world.active
        self._follow(world)
        if before is None:
            # A node may be stored as it is seen, and lack slots of a job that could not be read until now.
            return self._focus(observation.nodes, list(active.values()), {}, list(observation.workers.values()))
        nodes = self._different(world.nodes, observation.nodes)
        moved = _moved(before.workers, observation.workers)
        touched = self._unsettled | self._altered | self._due(now)
        if changed := _changed(before.nodes, observation.nodes):
            moved += (seen for seen in observation.workers.values() if seen.node in changed)
            touched.update(job.id for job in active.values() if any(w.node in changed for w in job.all_workers))
        touched.update(seen.job_id for seen in moved)
        touched.update(seen.job_id for seen in _gone(before.workers, observation.workers, moved))
        progress, agreeing = self._progress(observation.reports, touched, now)
        touched.update(job_id for job_id in progress if job_id in agreeing or active[job_id].spec.data is not None)
        for job_id in touched & progress.keys():
            del progress[job_id]
        return self._focus(nodes, _among(active, touched | progress.keys()), progress, moved)

    def _progress(
        self, reports: Mapping[WorkerId, WorkerReport], touched: set[JobId], now: float
    ) -> tuple[dict[JobId, WorkerReport], set[JobId]]:
        """The reports of progress that are to be kept, and the jobs whose workers agreed on a group by themselves.

        Jobs whose workers report anything else that is new are added to `touched`.
        """
        progress, agreeing = {}, set()
        interval_seconds = self._settings.progress_interval_seconds
        for report in reports.values():
            known = self._known.get(report.job_id)
            if known is None:
                continue
            if report.agreed is not None:
                agreeing.add(report.job_id)
            if report.missed is not None or (report.agreed is not None and _is_news(report.agreed, known.job)):
                touched.add(report.job_id)
            elif known.first == report.worker_id and progress_is_due(known.job, report, now, interval_seconds):
                progress[report.job_id] = report
        return progress, agreeing

    def ended(self, observation: Observation) -> list[WorkerObservation]:
        """Workers whose end was observed and that the cluster still lists."""
        listed = [seen for worker_id in self._ended if (seen := observation.workers.get(worker_id)) is not None]
        self._ended = {seen.id for seen in listed}
        return listed

    def unsettled(self, world: World) -> list[Job]:
        """Active jobs for which the cluster may have something to do."""
        self._follow(world)
        return _among(world.active, self._unsettled)

    def next_deadline(self, world: World, unsettled: Iterable[Job], now: float) -> float | None:
        """The earliest moment at which time alone changes something; None if it never does."""
        found = [job_deadline(job, self._liveness, now, self._settings) for job in unsettled]
        deadlines = [self._next_of_settled(now), *found]
        deadlines.extend(at for b in world.bookings.values() for at in (b.start_at, b.end_at))
        deadlines.extend(node.quarantined_until for node in world.nodes_apart())
        return min((d for d in deadlines if d is not None and d > now), default=None)

    def _different(
        self, stored: Mapping[NodeName, Node], seen: Mapping[NodeName, NodeObservation]
    ) -> Collection[NodeName]:
        """The nodes that are not stored as they were observed."""
        if self._compared is None or self._compared[0] is not stored or self._compared[1] != seen:
            known = ((name, stored.get(name), observed) for name, observed in seen.items())
            different = [name for name, node, observed in known if node is None or not is_as_seen(node, observed)]
            self._compared = (stored, seen, different)
        return self._compared[2]

    def _focus(
        self,
        nodes: Collection[NodeName],
        jobs: list[Job],
        progress: Mapping[JobId, WorkerReport],
        moved: list[WorkerObservation],
    ) -> Focus:
        self._ended.update(seen.id for seen in moved if not seen.alive)
        return Focus(nodes, jobs, progress, moved)

    def _due(self, now: float) -> set[JobId]:
        """Settled jobs that time alone may change. Reports of their workers may have put off what was known."""
        passed = {}
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, job_id = heappop(self._deadlines)
            if self._holds(deadline, job_id):
                passed[job_id] = self._known[job_id].job
        return {job.id for job in passed.values() if _is_over(self._judge(job), now)}

    def _next_of_settled(self, now: float) -> float | None:
        """The first of their deadlines that is still to come; exact where it comes before the next tick would."""
        next_tick_at, passed = now + self._settings.tick_interval_seconds, []
        while self._deadlines and self._deadlines[0][0] < next_tick_at:
            deadline, job_id = heappop(self._deadlines)
            if not self._holds(deadline, job_id):
                continue
            if deadline <= now:
                passed.append((deadline, job_id))
            elif self._judge(self._known[job_id].job).deadline == deadline:  # no report has put it off
                break
        found = self._deadlines[0][0] if self._deadlines else None
        for each in passed:
            heappush(self._deadlines, each)
        return found

    def _holds(self, deadline: float, job_id: JobId) -> bool:
        """Whether that is the deadline of the settled job."""
        known = self._known.get(job_id)
        return known is not None and known.settled and known.deadline == deadline

    def _follow(self, world: World) -> None:
        """Judge the jobs that have other values than were judged last, and drop those that are not active any more."""
        before, self._world = self._world, world
        if world.active is before.active:
            return
        touched, known = world.touched_since(before), self._known
        altered = world.active.keys() | known.keys() if touched is None else touched.altered
        for job_id in altered if touched is None else touched.jobs:
            job, old = world.active.get(job_id), known.get(job_id)
            if job is None:
                self._drop(job_id)
            elif old is not None and (job_id not in altered or job.only_progressed(old.job)):  # its deadlines stay
                known[job_id] = _Known(job, old.settled, old.deadline, old.first)
            else:
                self._judge(job)
                self._altered.add(job_id)
        if len(self._deadlines) > 2 * len(known) + 100:
            settled = ((job_id, each.deadline) for job_id, each in known.items() if each.settled)
            self._deadlines = sorted((deadline, job_id) for job_id, deadline in settled if deadline is not None)

    def _drop(self, job_id: JobId) -> None:
        self._known.pop(job_id, None)
        self._unsettled.discard(job_id)
        self._altered.discard(job_id)

    def _judge(self, job: Job) -> _Known:
        deadline = job_deadline(job, self._liveness, 0.0, self._settings)
        first = next((worker.id for worker in job.workers if worker.rank == 0), None)
        known = self._known[job.id] = _Known(job, is_settled(job), deadline, first)
        if not known.settled:
            self._unsettled.add(job.id)
            return known
        self._unsettled.discard(job.id)
        if deadline is not None:
            heappush(self._deadlines, (deadline, job.id))
        return known


def _among(active: Mapping[JobId, Job], wanted: Collection[JobId]) -> list[Job]:
    """Those of the active jobs, in their order."""
    return [active[job_id] for job_id in filter(wanted.__contains__, active)] if wanted else []


def _is_news(agreed: Agreed, job: Job) -> bool:
    """Whether workers of the job have agreed on a group that it has not adopted."""
    return (agreed.generation, agreed.sub) > job.progress.adopted


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


def _changed(before: Mapping[NodeName, NodeObservation], after: Mapping[NodeName, NodeObservation]) -> set[NodeName]:
    """Nodes that are observed otherwise than before, came or went."""
    if before == after:
        return set()
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _moved(
    before: Mapping[WorkerId, WorkerObservation], after: Mapping[WorkerId, WorkerObservation]
) -> list[WorkerObservation]:
    """Workers that appeared or changed."""
    if before is after:
        return []
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
    return [before[worker_id] for worker_id in before.keys() - after.keys()]
