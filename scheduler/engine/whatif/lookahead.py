"""A copy of the world that goes on by itself, with the engine's own planner, rules and transitions. Pure.

It differs from reality: newcomers are ready and groups have formed at once, leaving workers take all their grace, jobs
end when their known or declared end comes, and nothing fails.
"""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from scheduler.config import Settings
from scheduler.engine.absorb.nodes import end_quarantine
from scheduler.engine.absorb.worker_ends import expire
from scheduler.engine.apply.enact import enact
from scheduler.engine.changeset import Changeset
from scheduler.engine.state.bookings import open_and_end
from scheduler.engine.state.lifecycle import finish_if_empty
from scheduler.engine.state.membership import settle
from scheduler.engine.whatif.job_ends import Ending, JobEnds
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import NodeIntent
from scheduler.model.plan import Grow, Plan, Shrink, Start
from scheduler.model.worker import ExitReason, Worker, WorkerState
from scheduler.model.world import CrowdedSlot, World
from scheduler.policy.estimate.work_left import EndBasis
from scheduler.policy.planner import Planner

#: How far ahead the size at which jobs settle is looked for if no job ends before, and at how many moments.
SETTLE_SECONDS = 600.0
SETTLE_ROUNDS_MAX = 20


class Rollout:
    """Call `decide` and `advance` in turn, the latter with one of the moments at which something happens next."""

    def __init__(self, world: World, now: float, settings: Settings) -> None:
        self.world = world.with_crowded(_as_they_are(world))
        self.now = now
        self._settings = settings
        self._job_ends = JobEnds()
        self._planner = Planner(settings.policy)
        self._look_at: float | None = None
        changeset = Changeset(self.world, now)
        for job in world.active.values():
            self._job_ends.follow(job, now)
            if job.state is not JobState.RUNNING:
                self._come_up(changeset, job.id)
        self._take(changeset)

    def decide(self) -> Plan:
        """Plan at this moment, and enact the plan."""
        made = self._planner.plan(self.world, self.now)
        self._look_at = made.next_look_at
        changeset = Changeset(self.world, self.now)
        enact(changeset, made, self._settings.engine)
        for action in made.actions:
            if isinstance(action, Start | Grow | Shrink):
                self._come_up(changeset, action.job_id)
        self._take(changeset)
        return made

    def settle(self, in_time: Callable[[], bool]) -> bool:
        """Go on until only the end of a job would change anything, for a while; returns whether there was time for it.

        `in_time` is asked before each look ahead whether there is.
        """
        until = self.now + SETTLE_SECONDS
        for _ in range(SETTLE_ROUNDS_MAX):
            change, end = self.next_change(), self.next_end()
            if change is None or change > min(until, until if end is None else end):
                return True
            if not in_time():
                return False
            self.advance(change)
            self.decide()
        return True

    def advance(self, when: float) -> list[Ending]:
        """Let everything happen that is due by then; returns the jobs that ended."""
        self.now = max(when, self.now)
        going_on = {key: stray for key, stray in self.world.strays.items() if self.world.goes_on(stray)}
        changeset = Changeset(self.world.with_strays(going_on), self.now)
        for name, node in self.world.nodes.items():
            if node.intent is NodeIntent.QUARANTINED:
                end_quarantine(changeset, name)
        open_and_end(changeset)
        ended = [ending for ending in self._job_ends.endings.values() if ending.at <= self.now]
        for ending in ended:
            job = changeset.the_job(ending.job_id)
            if ending.basis is EndBasis.TIME_LIMIT:
                expire(changeset, job)
            elif job.state is not JobState.STOPPING:  # a booking that ended at the same moment may have stopped it
                _finish(changeset, job)
        for job in _with_leavers(self.world):
            self._let_go(changeset, job.id)
        self._take(changeset)
        return ended

    def next_change(self) -> float | None:
        """When something happens next, except the end of a job: a worker is gone, or a pause is over."""
        moments = [self.now] if any(self.world.ending_strays()) else []
        for job in _with_leavers(self.world):
            moments += (_gone_at(worker) for worker in job.all_leaving)
        moments += (job.not_before for job in self.world.queued.values() if job.not_before > self.now)
        moments += (
            node.quarantined_until
            for node in self.world.nodes.values()
            if node.intent is NodeIntent.QUARANTINED and node.quarantined_until is not None
        )
        moments += (at for each in self.world.bookings.values() for at in (each.start_at, each.end_at) if at > self.now)
        if self._look_at is not None:
            moments.append(self._look_at)
        return max(min(moments), self.now) if moments else None

    def next_end(self) -> float | None:
        """When a job ends next, as far as that is known."""
        ends = [ending.at for ending in self._job_ends.endings.values()]
        return max(min(ends), self.now) if ends else None

    def gone_by(self, nodes: Collection[NodeName]) -> float:
        """When all workers that leave these nodes are gone."""
        moments = [self.now]
        for job in _with_leavers(self.world):
            moments += (_gone_at(worker) for worker in job.all_leaving if worker.node in nodes)
            if job.state is JobState.STOPPING and any(w.wanted and w.node in nodes for w in job.fixed_workers):
                moments.append(max(map(_gone_at, job.all_leaving), default=self.now) + job.spec.grace_seconds)
        return max(moments)

    def silent(self) -> list[Job]:
        """Running jobs whose ends are unknown."""
        return [
            job
            for job in self.world.active.values()
            if job.state is not JobState.STOPPING and job.id not in self._job_ends.endings
        ]

    def _take(self, changeset: Changeset) -> None:
        changes = changeset.changes()
        self.world = changeset.world()
        for job in changes.jobs:
            self._job_ends.follow(job, self.now)

    def _let_go(self, changeset: Changeset, job_id: JobId) -> None:
        """Remove workers that have used up their grace."""
        for worker in changeset.the_job(job_id).all_leaving:
            if _gone_at(worker) <= self.now:
                changeset.end_worker(worker, WorkerState.EXITED, ExitReason.ASKED, None)
        finish_if_empty(changeset, job_id)
        self._come_up(changeset, job_id)

    def _come_up(self, changeset: Changeset, job_id: JobId) -> None:
        """Make every worker ready, and form the group."""
        job = changeset.the_job(job_id)
        if job.state not in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING) or job.finishing:
            return
        for worker in (*job.fixed_workers, *job.wanted_workers):
            if worker.state is not WorkerState.READY:
                changeset.move_worker(worker, WorkerState.READY)
        for _ in ("the generation that stands", "the one with the newcomers"):
            _form(changeset, job_id)
            settle(changeset, job_id, self._settings.engine)


def _as_they_are(world: World) -> dict[NodeName, dict[int, CrowdedSlot]]:
    """Crowded slots as they are, since no future load is known: they stay closed, and their sharers stay."""
    return {
        name: {slot: replace(crowd, reopen_at=math.inf) for slot, crowd in slots.items()}
        for name, slots in world.crowded.items()
    }


def _form(changeset: Changeset, job_id: JobId) -> None:
    """Have all members report the published generation."""
    job = changeset.the_job(job_id)
    for worker in job.workers:
        if worker.member and worker.reported_generation < job.generation:
            changeset.put_worker(replace(worker, reported_generation=job.generation))


def _finish(changeset: Changeset, job: Job) -> None:
    changeset.put(replace(job, finishing=True))
    for worker in job.all_workers:
        changeset.end_worker(worker, WorkerState.EXITED, ExitReason.DONE, 0)
    finish_if_empty(changeset, job.id)


def _gone_at(leaving: Worker) -> float:
    """When the worker is gone at the latest."""
    return leaving.stop_deadline or 0.0


def _with_leavers(world: World) -> Iterator[Job]:
    return (job for job in world.active.values() if job.all_leaving)
