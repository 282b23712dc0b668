"""Invariants I1 to I10 as a test world sees them: from inside (world, store) and from outside (processes)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.engine.tick import TickReport
from scheduler.model.event import EventKind
from scheduler.model.hosts import host_list
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job, StopReason
from scheduler.model.node import Node
from scheduler.model.world import World as Snapshot
from scheduler.policy.invariants import check_world
from scheduler.policy.order import Order

if TYPE_CHECKING:
    from tests.world import World

#: Ticks and stops take their time: an inversion is one only when it outlasts the longest grace by this much.
INVERSION_SLACK_SECONDS = 30.0


class InvariantChecker:
    """Checks everything after each tick, and remembers what only time shows."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._inverted_since: dict[JobId, float] = {}
        self._retries: dict[JobId, int] = {}
        self._failures_seen: dict[JobId, int] = {}

    def after_tick(self, report: TickReport) -> None:
        """Raise `AssertionError` naming the invariant that does not hold."""
        assert not report.violations, report.violations
        snapshot = self._world.engine.world
        if snapshot is None:
            return
        now = self._world.clock.now()
        assert not (found := check_world(snapshot, now)), found
        self._processes_fit()
        self._no_process_of_ended_jobs(snapshot)
        self._memory_equals_store(snapshot)
        self._published_is_allocation(snapshot)
        self._retries_are_failures(report, snapshot)
        self._no_lasting_inversion(snapshot, now)
        self._no_job_is_lost()

    def _processes_fit(self) -> None:
        """I1, I3, I4 from outside: no two processes hold one slot as their own, none was started twice."""
        cluster = self._world.cluster
        held: dict[tuple[str, int], WorkerId] = {}
        for node, start in cluster.alive():
            for slot in () if start.shared else start.slot_ids:
                other = held.setdefault((node, slot), start.worker_id)
                assert other == start.worker_id, f"I3: slot {slot} of {node} is held by {other} and {start.worker_id}"
        assert len(set(cluster.started)) == len(cluster.started), "I4: a worker was started twice"

    def _no_process_of_ended_jobs(self, snapshot: Snapshot) -> None:
        """I4: a process belongs to a live worker, or to nobody and is being stopped, or its node is out of reach."""
        live = {w.id for job in snapshot.active.values() for w in job.workers}
        for node, start in self._world.cluster.alive():
            reachable = (known := snapshot.nodes.get(node)) is not None and known.health == "UP"
            stray = start.worker_id in snapshot.strays
            assert start.worker_id in live or stray or not reachable, f"I4: {start.worker_id} runs for nobody"

    def _memory_equals_store(self, snapshot: Snapshot) -> None:
        """I7: the world in memory is what a fresh load gives."""
        stored = self._world.store.load_world()
        fresh = Snapshot.of(stored.jobs, stored.nodes, stored.bookings)
        for mine, loaded, what in (
            (snapshot.queued, fresh.queued, "queued"),
            (snapshot.suspended, fresh.suspended, "suspended"),
            (snapshot.active, fresh.active, "active"),
            (snapshot.nodes, fresh.nodes, "nodes"),
            (snapshot.usage, fresh.usage, "usage"),
            (snapshot.bookings, fresh.bookings, "bookings"),
        ):
            differing = {
                key: (mine.get(key), loaded.get(key)) for key in {*mine, *loaded} if mine.get(key) != loaded.get(key)
            }  # type: ignore[call-overload]
            assert not differing, f"I7: {what} in memory differs from the store: {differing}"

    def _published_is_allocation(self, snapshot: Snapshot) -> None:
        """I9: what discover_hosts answers is the membership of the published generation."""
        for job in snapshot.active.values():
            posting = self._world.board.posting(job.id)
            assert posting is not None, f"I9: job {job.id} has no posting"
            hosts = host_list(job)
            assert posting.text == (hosts.text().encode() if hosts else b""), f"I9: job {job.id}"
            if hosts is not None:
                assert len(hosts.members) >= job.min_workers or job.generation > 1, f"I9: job {job.id} below min"

    def _retries_are_failures(self, report: TickReport, snapshot: Snapshot) -> None:
        """I8: a job's retries never grow by more than its workers' own failures."""
        for event in report.events:
            if event.kind is EventKind.WORKER_ENDED and event.cause in ("FAILED", "HUNG", "LAUNCH_FAILED"):
                assert event.job_id is not None
                self._failures_seen[event.job_id] = self._failures_seen.get(event.job_id, 0) + 1
        for job in snapshot.all_jobs():
            grown = job.retries_used - self._retries.get(job.id, 0)
            assert grown <= self._failures_seen.get(job.id, 0), f"I8: job {job.id} lost a retry without a failure"
            self._retries[job.id] = job.retries_used
            if grown > 0:
                self._failures_seen[job.id] = 0

    def _no_lasting_inversion(self, snapshot: Snapshot, now: float) -> None:
        """I5: nobody waits long at zero while less important jobs hold what would let it start."""
        order = Order(now, self._world.settings.policy)
        for job in snapshot.queued.values():
            if now >= job.not_before and _could_start(job, snapshot, order):
                since = self._inverted_since.setdefault(job.id, now)
                graces = [j.spec.grace_seconds for j in snapshot.active.values()]
                limit = max(graces, default=0.0) + INVERSION_SLACK_SECONDS
                assert now - since <= limit, f"I5: job {job.id} waits below less important ones for {now - since} s"
            else:
                self._inverted_since.pop(job.id, None)
        for job_id in list(self._inverted_since):
            if job_id not in snapshot.queued:
                del self._inverted_since[job_id]

    def _no_job_is_lost(self) -> None:
        """I6: every accepted job has ended, is in the world, or is still in the inbox."""
        world = self._world
        snapshot = world.engine.world
        assert snapshot is not None
        waiting = {job.id for job in world.store.take_inbox(100_000).jobs}
        for job_id in world.submitted:
            if snapshot.job(job_id) is None and job_id not in waiting:
                assert world.get(job_id).state.terminal, f"I6: job {job_id} is lost"


def _could_start(job: Job, snapshot: Snapshot, order: Order) -> bool:
    """Whether free slots plus what strictly less important preemptible jobs hold would do, counted per node.

    Counted against everything that is reserved or leaving as not available, so that it errs towards False.
    """
    room = 0
    for node in snapshot.nodes.values():
        if node.schedulable and node.suits(job.shape) and not (job.shape.cpus or job.shape.memory_mib):
            room += _usable(node, job, snapshot, order) // job.shape.slots
    return room >= job.min_workers


def _usable(node: Node, job: Job, snapshot: Snapshot, order: Order) -> int:
    used = snapshot.used(node.name).slots
    held = sum(
        count * other.shape.slots
        for other in snapshot.queued.values()
        if other.id != job.id
        for name, count in other.reservation
        if name == node.name
    )
    takeable = sum(
        len(worker.slot_ids)
        for other in snapshot.active.values()
        if other.spec.preemptible
        and not other.finishing
        and other.stop_reason is not StopReason.CANCELLED
        and order.more_important(job, other)
        for worker in other.workers
        if worker.node == node.name
    )
    return node.slots - used - held + takeable
