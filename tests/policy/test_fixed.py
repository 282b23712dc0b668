"""Jobs with a fixed group: both groups fit at once or nothing is placed, and a stop frees both.

The oracle counts capacity by itself and tries every way to place a fixed group.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Release, Reserve, Shrink, Start, StopJob
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.policy.snapshot.order import Order
from tests.policy.worlds import DRAINING, NOW, Cluster

#: Free slots and CPUs by node.
Room = dict[NodeName, tuple[int, float]]


def group(replicas: int = 1, slots: int = 0, cpus: float = 0.0, **shape: Any) -> FixedGroup:
    return FixedGroup(replicas, ("serve",), shape=WorkerShape(slots, cpus, **shape))


def test_both_groups_start_together_the_fixed_one_where_it_costs_the_others_least() -> None:
    c = Cluster().node("cpu", 0, cpus=4.0).node("gpu", 4, cpus=8.0)
    c.waiting(1, workers=(4, 4), cpus=1.0, fixed=group(2, cpus=2.0))
    assert c.actions() == [Start(JobId(1), (("gpu", 4),), fixed=(("cpu", 2),))]


def test_a_fixed_group_that_needs_slots_leaves_room_for_the_minimum() -> None:
    c = Cluster().node("a", 4).node("b", 2)
    c.waiting(1, workers=(1, 1), slots_per_worker=4, fixed=group(2, slots=1))
    assert c.actions() == [Start(JobId(1), (("a", 1),), fixed=(("b", 2),))]


def test_a_selector_of_the_fixed_group_is_its_own() -> None:
    c = Cluster().node("a", 4).node("b", 4, labels={"role": "cpu"})
    c.waiting(1, workers=(1, 1), fixed=group(node_selector=(("role", "cpu"),)))
    assert c.actions()[0] == Start(JobId(1), (("a", 1),), fixed=(("b", 1),))
    c = Cluster().node("a", 4)
    c.waiting(1, fixed=group(node_selector=(("role", "cpu"),)))
    c.step()
    assert c.reason(1) is WaitReason.NO_MATCHING_NODE


def test_nothing_is_placed_where_one_group_alone_would_fit() -> None:
    c = Cluster().node("a", 3).running(1, {"a": 1}, priority=5)
    c.waiting(2, workers=(2, 2), fixed=group(slots=1))
    made = c.step()
    assert made.actions == ()
    assert c.reason(2) is WaitReason.INSUFFICIENT_SLOTS


def test_what_no_empty_cluster_holds_is_said_so() -> None:
    c = Cluster().node("a", 3)
    c.waiting(1, workers=(3, 3), fixed=group(slots=1))
    c.step()
    assert c.reason(1) is WaitReason.EXCEEDS_CLUSTER
    c.node("b", 3, intent=DRAINING)
    c.step()
    assert c.reason(1) is WaitReason.NODES_UNAVAILABLE


def test_a_stop_gives_back_what_the_fixed_group_holds() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 2}, workers=(2, 2), fixed=group(2, slots=1), fixed_on={"a": 2})
    c.waiting(2, workers=(4, 4), priority=1)
    made = c.step()
    assert StopJob(JobId(1), StopReason.PREEMPTED, JobId(2)) in made.actions
    assert Reserve(JobId(2), (("a", 4),)) in made.actions
    c.settle()
    assert c.size(2) == 4


def test_no_fixed_worker_leaves_alone() -> None:
    c = Cluster().node("a", 3)
    c.running(1, {"a": 2}, workers=(1, 2), fixed=group(slots=1), fixed_on={"a": 1})
    c.waiting(2, workers=(1, 1), priority=1)
    (shrink,) = (action for action in c.actions() if isinstance(action, Shrink))
    assert shrink.workers == (c.jobs[JobId(1)].workers[-1].id,)
    c.jobs.pop(JobId(2))
    c.waiting(3, workers=(1, 1), priority=1, slots_per_worker=2)
    assert StopJob(JobId(1), StopReason.PREEMPTED, JobId(3)) in c.actions()


def test_less_important_jobs_shrink_for_both_groups() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(1, 4))
    c.waiting(2, workers=(2, 2), priority=1, fixed=group(slots=1))
    made = c.step()
    (shrink,) = (action for action in made.actions if isinstance(action, Shrink))
    assert (len(shrink.workers), shrink.reason, shrink.for_job) == (3, LeaveReason.PREEMPTED, 2)
    assert Reserve(JobId(2), (("a", 2),), fixed=(("a", 1),)) in made.actions
    c.settle()
    assert (c.size(1), c.size(2)) == (1, 2)


def test_less_important_jobs_shrink_on_one_node_where_their_youngest_workers_are_on_two() -> None:
    c = Cluster().node("a", 4).node("b", 4)
    c.running(1, {"a": 2, "b": 2}, workers=(2, 4)).running(2, {"b": 2, "a": 2}, workers=(2, 4))
    c.waiting(3, workers=(1, 1), slots_per_worker=3, priority=1, fixed=group(slots=1))
    actions = c.actions()
    assert [type(action) for action in actions] == [Shrink, Shrink, Reserve]
    c.settle()
    assert (c.size(1), c.size(2), c.size(3)) == (2, 2, 1)


def test_equals_make_room_for_the_minimum_by_shrinking_only() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(1, 4))
    c.waiting(2, workers=(1, 4), fixed=group(slots=1))
    c.settle()
    assert c.size(2) >= 1
    assert c.jobs[JobId(1)].state is JobState.RUNNING


def test_it_keeps_what_is_held_for_it_until_all_of_it_is_free() -> None:
    c = Cluster().node("a", 2).node("b", 2)
    c.running(1, {"a": 2}, workers=(2, 2), state=JobState.STOPPING).running(2, {"b": 1}, priority=9)
    c.waiting(3, workers=(2, 2), priority=1, fixed=group(slots=1))
    c.jobs[JobId(3)] = _with(c.jobs[JobId(3)], (("a", 2),), (("b", 1),))
    c.waiting(4, workers=(1, 1))
    assert c.actions() == []
    c.finish(1)
    assert c.actions()[0] == Start(JobId(3), (("a", 2),), fixed=(("b", 1),))


def test_those_behind_it_do_not_delay_it() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 2}, priority=5, workers=(2, 2), time_limit_seconds=2000.0)
    c.waiting(2, workers=(3, 3), priority=1, fixed=group(slots=1))
    c.waiting(3, workers=(2, 2), preemptible=False)
    c.waiting(4, workers=(2, 2), preemptible=False, time_limit_seconds=500.0)
    made = c.step()
    assert [action.job_id for action in made.actions] == [4]
    assert c.reason(3) is WaitReason.BEHIND_RESERVATION or c.reason(3) is WaitReason.INSUFFICIENT_SLOTS


def test_a_drained_node_takes_the_whole_job_with_it() -> None:
    c = Cluster().node("a", 2).node("b", 2, intent=DRAINING)
    c.running(1, {"a": 1}, workers=(1, 1), fixed=group(slots=1), fixed_on={"b": 1})
    made = c.step()
    assert made.actions == (StopJob(JobId(1), StopReason.DRAINED),)
    c.settle()
    assert {worker.node for worker in c.jobs[JobId(1)].all_workers} == {"a"}


def _with(job: Job, reservation: Any, fixed: Any) -> Job:
    return replace(job, reservation=reservation, fixed_reservation=fixed, wait_reason=WaitReason.WAITING_FOR_VICTIMS)


# Any world


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Up to three nodes with CPUs and slots, and jobs of which many have a fixed group; all of them wait."""
    c = Cluster()
    for name in "abc"[: draw(st.integers(1, 3))]:
        c.node(
            name, draw(st.integers(0, 4)), cpus=float(draw(st.integers(0, 6))), gpu_type=draw(st.sampled_from("xxy"))
        )
    for number in range(1, draw(st.integers(2, 7))):
        low = draw(st.integers(1, 3))
        fixed = None
        if draw(st.booleans()):
            needs = draw(st.sampled_from(((0, 1.0), (0, 0.0), (1, 0.0), (1, 1.0), (2, 0.0), (0, 2.0))))
            fixed = group(draw(st.integers(1, 3)), *needs)
        c.waiting(
            number,
            workers=(low, low + draw(st.sampled_from((0, 0, 2)))),
            slots_per_worker=draw(st.sampled_from((1, 1, 2))),
            cpus=draw(st.sampled_from((0.0, 1.0))),
            priority=draw(st.integers(0, 3)),
            preemptible=draw(st.sampled_from((True, True, False))),
            submitted_at=NOW - draw(st.integers(0, 9)),
            fixed=fixed,
        )
    return c


@given(clusters(), st.integers(1, 4))
def test_the_first_that_waits_could_not_start_whatever_were_taken_for_it(c: Cluster, waves: int) -> None:
    numbers = sorted(c.jobs)
    apart = {number: c.jobs.pop(number) for number in numbers}
    for wave in range(waves):
        for number in numbers[wave::waves]:
            c.jobs[number] = apart[number]
        c.settle(rounds=60)
    waiting = [job for job in c.jobs.values() if job.state is JobState.QUEUED]
    possible = [job for job in Order(c.now, c.settings).queue(waiting) if fits(c, job, empty(c))]
    if possible:
        first = possible[0]
        assert not fits(c, first, room(c, gone=takeable(c, first))), f"{first.id} could start: {c!r}"


@given(clusters())
def test_nobody_is_stopped_in_vain(c: Cluster) -> None:
    for _ in range(20):
        made = c.plan()
        for taker in (action for action in made.actions if isinstance(action, Reserve)):
            stops = [a.job_id for a in made.actions if isinstance(a, StopJob) and a.for_job == taker.job_id]
            shrunk = {w for a in made.actions if isinstance(a, Shrink) and a.for_job == taker.job_id for w in a.workers}
            others = {a.job_id for a in made.actions if isinstance(a, StopJob | Shrink) and a.for_job != taker.job_id}
            if others:
                continue
            for spared in stops:
                gone = [c.jobs[job_id] for job_id in stops if job_id != spared]
                left = room(c, gone=gone, leaving=shrunk)
                held = {job.id for job in c.jobs.values() if job.reservation} - {taker.job_id}
                assert held or not fits(c, c.jobs[taker.job_id], left), f"{spared} stops for nothing: {c!r}"
        before = dict(c.jobs)
        c.step(60.0)
        if c.jobs == before and not made.actions:
            break


def empty(c: Cluster) -> Room:
    return {node.name: (node.slots, node.cpus) for node in c.nodes.values() if node.schedulable}


def room(c: Cluster, gone: Iterable[Job], leaving: Iterable[str] = ()) -> Room:
    """What is left once these jobs and workers are gone."""
    away, left = {job.id for job in gone}, empty(c)
    for job in c.jobs.values():
        for worker in job.all_workers:
            if job.id not in away and worker.id not in leaving:
                slots, cpus = left[worker.node]
                left[worker.node] = (slots - len(worker.slot_ids), cpus - worker.cpus)
    return left


def takeable(c: Cluster, job: Job) -> list[Job]:
    order = Order(c.now, c.settings)
    return [other for other in c.jobs.values() if other.spec.preemptible and order.more_important(job, other)]


def fits(c: Cluster, job: Job, left: Room) -> bool:
    """Whether the job fits, wherever its fixed group is put."""
    return any(_workers_in(c, job, rest) >= job.min_workers for rest in _beside_fixed(job, left))


def _beside_fixed(job: Job, left: Room) -> Iterator[Room]:
    if job.spec.fixed is None:
        yield left
        return
    shape = job.spec.fixed.shape
    for names in combinations_with_replacement(sorted(left), job.spec.fixed.replicas):
        rest = dict(left)
        for name in names:
            slots, cpus = rest[name]
            rest[name] = (slots - shape.slots, cpus - shape.cpus)
        used = [rest[name] for name in names]
        if all((not shape.slots or slots >= 0) and (not shape.cpus or cpus >= 0) for slots, cpus in used):
            yield rest


def _workers_in(c: Cluster, job: Job, left: Room) -> int:
    totals: Counter[str | None] = Counter()
    for name, (slots, cpus) in left.items():
        fit = slots // job.shape.slots
        if job.shape.cpus:
            fit = min(fit, int(cpus // job.shape.cpus))
        totals[c.nodes[name].gpu_type] += max(fit, 0)
    return max(totals.values(), default=0)


def test_a_reservation_of_workers_and_a_fixed_group_on_one_node_is_not_taken_over_without_need() -> None:
    one = ((NodeName("n"), 1),)
    c = Cluster().node("n", 4).node("m", 4).node("k", 4).node("z", 1)
    c.running(7, {"k": 1, "m": 1}, workers=(1, 2), slots_per_worker=4, priority=1)
    c.running(8, {"z": 1, "n": 4}, workers=(1, 5), priority=9, leaving=4, leave_for=5)
    reserved = {"reservation": one, "fixed_reservation": one, "wait_reason": WaitReason.WAITING_FOR_VICTIMS}
    c.waiting(5, fixed=group(slots=1), **reserved).waiting(3, workers=3, slots_per_worker=2, priority=5)
    c.waiting(2, workers=2)
    assert not [action for action in c.actions() if isinstance(action, Release)]
