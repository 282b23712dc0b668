"""Forecast of a waiting job: when, at what size and where it would start, and which jobs would lose workers. Pure.

A copy of the world goes on with the real planner (see `lookahead`), from one moment at which something is known to
happen to the next, until the job starts or nothing more is known.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from scheduler.config import Settings
from scheduler.engine.whatif.job_ends import Ending
from scheduler.engine.whatif.lookahead import Rollout
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, JobSpec, Placement
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.plan import Plan, Shrink, Start, StopJob
from scheduler.model.world import Changes, World
from scheduler.policy.estimate.lost_work import shrink_cost, stop_cost
from scheduler.policy.estimate.work_left import EndBasis

#: Number of moments that are looked at.
ROUNDS_MAX = 2000
#: Number of plans at one moment.
PLANS_MAX = 4
#: How far ahead the search looks.
HORIZON_SECONDS = 30 * 86400.0

_IMPOSSIBLE = frozenset({WaitReason.NO_MATCHING_NODE, WaitReason.EXCEEDS_CLUSTER})


class Certainty(StrEnum):
    """How sure an estimated start is, if nothing unforeseen happens: failures, new jobs, changes by users."""

    #: It depends only on slots that are free or that leaving workers free within their grace.
    CERTAIN = "CERTAIN"
    #: It depends on time limits, so it may be earlier.
    UPPER_BOUND = "UPPER_BOUND"
    #: It depends on durations that were declared or derived from reported progress.
    ESTIMATE = "ESTIMATE"
    #: No start is known.
    UNKNOWN = "UNKNOWN"


class CutOff(StrEnum):
    """Why the search for a start ended without one."""

    #: The nodes that suit the job would not hold it even if they were empty.
    IMPOSSIBLE = "IMPOSSIBLE"
    #: No further end of a job is known.
    NOTHING_KNOWN = "NOTHING_KNOWN"
    #: The search reached 30 days ahead.
    HORIZON = "HORIZON"
    #: The search looked at its largest number of moments.
    ROUNDS = "ROUNDS"
    #: The time for the answer was used up.
    TIME = "TIME"


@dataclass(frozen=True, slots=True)
class Loss:
    """Workers that a job gives up for the forecast one; `after` 0: it is stopped."""

    job_id: JobId
    name: str
    before: int
    after: int
    #: Work that this costs the job at present, by `scheduler.policy.estimate.lost_work`.
    slot_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """The answer, as seen at one moment."""

    #: Unix seconds.
    at: float
    #: The job as it is after one look at the queue: started, or waiting for a reason.
    job: Job
    certainty: Certainty
    #: None: not known. It may be after `at` although certain: once other workers have left, at the latest.
    start_at: float | None
    #: How far the search looked ahead: the job does not start before.
    looked_until: float
    #: Workers at its start, and once only the end of a job would change that, as far as there was time to look.
    workers: int
    settled_workers: int
    placement: Placement
    #: Whether these are slots that it shares with others.
    shared: bool
    losses: tuple[Loss, ...]
    #: Ends of jobs on which the start depends, earliest first.
    rests_on: tuple[Ending, ...]
    #: Running jobs in its way whose ends are unknown; where no start is known.
    silent: tuple[Job, ...]
    cut_off: CutOff | None


def forecast_spec(world: World, spec: JobSpec, now: float, settings: Settings, in_time: Callable[[], bool]) -> Forecast:
    """The forecast of a job that would be submitted now."""
    job = Job(_free_id(world), spec, spec.priority, spec.min_workers, spec.max_workers, submitted_at=now, queued_at=now)
    return forecast(world, job, now, settings, in_time)


def _free_id(world: World) -> JobId:
    """Above those of all jobs of the world, also of those that no decision looks at."""
    known = chain((job.id for job in world.all_jobs()), world.held, (row.job_id or 0 for row in world.unreadable))
    return JobId(max(known, default=0) + 1)


def forecast(world: World, job: Job, now: float, settings: Settings, in_time: Callable[[], bool]) -> Forecast:
    """The forecast of a queued job. `in_time` is asked before each look ahead whether there is time for it."""
    rollout = Rollout(world.evolve(Changes(jobs=(job,))), now, settings)
    search = _Search(rollout, job.id)
    cut_off = search.run(in_time)
    return search.answer(now, cut_off, in_time)


@dataclass(frozen=True, slots=True)
class _Promise:
    """A promise: slots are held for the job."""

    #: When all of these slots are free, at the latest.
    due_at: float
    #: Number of jobs that had ended before.
    endings: int


class _Search:
    """Goes on from moment to moment until the job has started."""

    def __init__(self, rollout: Rollout, job_id: JobId) -> None:
        self._rollout = rollout
        self._job_id = job_id
        self._asked_at = rollout.now
        self._looked_until = rollout.now
        self._horizon = rollout.now + HORIZON_SECONDS
        self._losses = {loss.job_id: loss for loss in _losses_under_way(rollout.world, job_id, rollout.now)}
        self._endings: list[Ending] = []
        self._first: Job | None = None
        self._start: Start | None = None
        self._started_at = 0.0
        self._promise: _Promise | None = None

    def run(self, in_time: Callable[[], bool]) -> CutOff | None:
        """None once the job has started, else why its start is not known."""
        rollout = self._rollout
        for _ in range(ROUNDS_MAX):
            self._decide()
            if self._start is not None:
                return None
            if self._job().wait_reason in _IMPOSSIBLE:
                return CutOff.IMPOSSIBLE
            moments = [moment for moment in (rollout.next_change(), rollout.next_end()) if moment is not None]
            if not moments:
                return CutOff.NOTHING_KNOWN
            if min(moments) > self._horizon:
                return CutOff.HORIZON
            if not in_time():
                return CutOff.TIME
            self._endings += rollout.advance(min(moments))
        return CutOff.ROUNDS

    def answer(self, now: float, cut_off: CutOff | None, in_time: Callable[[], bool]) -> Forecast:
        """The forecast from what was found."""
        assert self._first is not None, "the queue was looked at once"
        start, world = self._start, self._rollout.world
        rests_on = _rests_on(self._endings[: self._ends_that_count()], start) if start is not None else ()
        waits_for_jobs = cut_off is CutOff.NOTHING_KNOWN and self._job().wait_reason is not WaitReason.NODES_UNAVAILABLE
        silent = _in_the_way(self._rollout.silent(), self._job(), world) if waits_for_jobs else ()
        return Forecast(
            at=now,
            job=self._first,
            certainty=_certainty(rests_on) if start is not None else Certainty.UNKNOWN,
            start_at=self._start_at() if start is not None else None,
            looked_until=self._looked_until,
            workers=sum(count for _, count in start.placement) if start is not None else 0,
            settled_workers=self._settle(in_time) if start is not None else 0,
            placement=start.placement if start is not None else (),
            shared=start is not None and start.shared,
            losses=tuple(self._losses.values()),
            rests_on=rests_on,
            silent=silent,
            cut_off=cut_off,
        )

    def _job(self) -> Job:
        job = self._rollout.world.job(self._job_id)
        assert job is not None, "a job that waits does not end"
        return job

    def _decide(self) -> None:
        """Plan until nothing more starts: another job may take from one that runs now."""
        for _ in range(PLANS_MAX):
            before = self._rollout.world
            made = self._rollout.decide()
            self._note_losses(made, before)
            starts = {action.job_id: action for action in made.actions if isinstance(action, Start)}
            if self._job_id in starts:
                self._start, self._started_at = starts[self._job_id], self._rollout.now
            if not starts or self._start is not None:
                break
        job = self._job()
        self._first = self._first or job
        self._looked_until = self._rollout.now
        if job.state is JobState.QUEUED:
            self._see_promise(job)

    def _see_promise(self, job: Job) -> None:
        """Note when slots are first held for the job: then its start depends only on leaving workers."""
        if not job.reservation:
            self._promise = None
        elif self._promise is None:
            nodes = {name for name, _ in (*job.reservation, *job.fixed_reservation)}
            self._promise = _Promise(self._rollout.gone_by(nodes), len(self._endings))

    def _ends_that_count(self) -> int:
        return self._promise.endings if self._promise is not None else len(self._endings)

    def _start_at(self) -> float:
        return max(self._started_at, self._promise.due_at) if self._promise is not None else self._started_at

    def _note_losses(self, made: Plan, before: World) -> None:
        for action in made.actions:
            if isinstance(action, Shrink | StopJob) and action.for_job == self._job_id:
                victim = before.active[action.job_id]
                if isinstance(action, Shrink):
                    gone, cost = len(action.workers), shrink_cost(victim)
                else:
                    gone, cost = len(victim.wanted_workers), stop_cost(victim)
                known = self._losses.get(victim.id)
                if known is None:
                    size = len(victim.wanted_workers)
                    known = Loss(victim.id, victim.spec.name, size, size)
                spent = known.slot_seconds + cost.at(self._asked_at)
                self._losses[victim.id] = replace(known, after=known.after - gone, slot_seconds=spent)

    def _settle(self, in_time: Callable[[], bool]) -> int:
        """The job's size once only the end of a job would change it, as far as there is time to look."""
        self._rollout.settle(in_time)
        job = self._rollout.world.job(self._job_id)
        return len(job.wanted_workers) if job is not None else 0


def _losses_under_way(world: World, job_id: JobId, now: float) -> Iterable[Loss]:
    """Losses of jobs that are already giving up workers for the job."""
    for victim in world.active.values():
        size = len(victim.wanted_workers)
        if victim.state is JobState.STOPPING:
            if victim.stop_for == job_id:
                yield Loss(victim.id, victim.spec.name, len(victim.workers), 0, stop_cost(victim).at(now))
        elif leaving := [worker for worker in victim.leaving if worker.leave_for == job_id]:
            yield Loss(victim.id, victim.spec.name, size + len(leaving), size, shrink_cost(victim).at(now))


def _rests_on(endings: Sequence[Ending], start: Start) -> tuple[Ending, ...]:
    """Ends that freed something on its nodes, or on nodes of later jobs; else the last ends."""
    found: list[Ending] = []
    nodes = frozenset[NodeName](name for name, _ in (*start.placement, *start.fixed))
    for ending in reversed(endings):
        if ending.nodes & nodes:
            found.append(ending)
            nodes |= ending.nodes
    if not found:
        found = [ending for ending in endings if ending.at == endings[-1].at]
    return tuple(sorted(found, key=lambda ending: (ending.at, ending.job_id)))


def _certainty(rests_on: Sequence[Ending]) -> Certainty:
    if not rests_on:
        return Certainty.CERTAIN
    if all(ending.basis is EndBasis.TIME_LIMIT for ending in rests_on):
        return Certainty.UPPER_BOUND
    return Certainty.ESTIMATE


def _in_the_way(silent: Iterable[Job], job: Job, world: World) -> tuple[Job, ...]:
    """Jobs that hold slots on nodes that suit the job, most important first."""
    shapes = [job.shape, *([job.spec.fixed.shape] if job.spec.fixed is not None else [])]
    suitable = {node.name for node in world.nodes.values() if any(map(node.suits, shapes))}
    held = [other for other in silent if any(worker.node in suitable for worker in other.all_workers)]
    return tuple(sorted(held, key=lambda other: (-other.priority, other.id)))
