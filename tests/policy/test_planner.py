"""A planner that remembers makes the plans of one that does not, whatever happened between them."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import PolicySettings
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.plan import StopJob
from scheduler.model.slot import ClosedSlot, SlotClosure
from scheduler.model.speed import after_report
from scheduler.policy import draft
from scheduler.policy.checks.plan import check_plan
from scheduler.policy.planner import Planner, plan
from tests.policy.drawn_queues import queued_clusters
from tests.policy.drawn_worlds import clusters, random_fields
from tests.policy.worlds import CORDONED, DOWN, DRAINING, UP, Cluster, enact

Happening = Callable[[st.DataObject, Cluster], None]


@given(
    clusters(drains=True, aging=(0.0, 0.0, 0.0, 1.0), shapes=(1, 1, 2, 3), queue_max=8),
    st.data(),
)
def test_what_a_planner_remembers_never_changes_a_plan(c: Cluster, data: st.DataObject) -> None:
    _remembers_nothing_wrong(c, data)


@given(queued_clusters(), st.data())
def test_what_a_planner_remembers_of_queues_never_changes_a_plan(c: Cluster, data: st.DataObject) -> None:
    _remembers_nothing_wrong(c, data)


def _remembers_nothing_wrong(c: Cluster, data: st.DataObject) -> None:
    planner = Planner(c.settings)
    for _ in range(8):
        world = c.world()
        made = planner.plan(world, c.now)
        assert made == plan(world, c.now, c.settings)
        assert planner.plan(world, c.now) == made, "the same world gives the same plan"
        if data.draw(st.sampled_from((True, True, True, False))):
            enact(c, made, slowly=data.draw(st.booleans()))
        for _ in range(data.draw(st.integers(0, 2))):
            data.draw(st.sampled_from(HAPPENINGS))(data, c)


def test_a_planner_may_be_shown_any_world_and_any_moment() -> None:
    settings = PolicySettings()
    planner = Planner(settings)
    first = Cluster().node("a", 4).running(1, {"a": 2}, workers=(1, 4)).waiting(2, workers=(3, 3), priority=1)
    other = Cluster().node("b", 2).waiting(1, workers=(2, 2)).waiting(2, not_before=first.now + 5)
    for c, now in ((first, first.now), (other, first.now + 9), (first, first.now + 1), (other, first.now)):
        assert planner.plan(c.world(), now) == plan(c.world(), now, settings)


def test_what_queues_want_follows_what_their_jobs_can_have() -> None:
    c = Cluster().queue("mine").queue("other").node("a", 4).node("b", 4, health=DOWN)
    c.running(1, {"a": 4}, workers=(1, 8), queue="other").waiting(2, workers=(6, 6), queue="mine")
    planner = Planner(c.settings)
    assert planner.plan(c.world(), c.now).shares == plan(c.world(), c.now, c.settings).shares
    for node in (replace(c.nodes[NodeName("b")], health=UP), replace(c.nodes[NodeName("b")], slots=1)):
        c.nodes[node.name] = node
        assert planner.plan(c.world(), c.now) == plan(c.world(), c.now, c.settings)


def _time_passes(data: st.DataObject, c: Cluster) -> None:
    c.now += data.draw(st.sampled_from((0.5, 3.0, 30.0, 60.0, 1800.0, 2000.0)))


def _a_job_arrives(data: st.DataObject, c: Cluster) -> None:
    number = max(c.jobs, default=0) + 1
    pause = data.draw(st.sampled_from((0.0, 0.0, 0.0, 30.0)))
    fields = random_fields(data.draw, (1, 1, 2, 3), (None, None, 1500.0))
    c.waiting(number, **fields, submitted_at=c.now, not_before=c.now + pause if pause else 0.0)


def _a_job_ends(data: st.DataObject, c: Cluster) -> None:
    job = _some_job(data, c)
    if job is not None:
        c.finish(job.id)


def _a_job_changes(data: st.DataObject, c: Cluster) -> None:
    job = _some_job(data, c)
    if job is None:
        return
    low = data.draw(st.integers(1, 4))
    high = max(low, job.max_workers - 1)
    change = data.draw(st.sampled_from(({"priority": low}, {"max_workers": high, "min_workers": min(low, high)})))
    c.jobs[job.id] = replace(job, **change)  # type: ignore[arg-type]


def _a_worker_is_lost(data: st.DataObject, c: Cluster) -> None:
    running = [job for job in c.jobs.values() if job.state is JobState.RUNNING and len(job.workers) > 1]
    if running:
        job = data.draw(st.sampled_from(running))
        c.jobs[job.id] = replace(job, workers=job.workers[:-1])


def _a_job_is_suspended_or_resumed(data: st.DataObject, c: Cluster) -> None:
    idle = [job for job in c.jobs.values() if job.state in (JobState.QUEUED, JobState.SUSPENDED)]
    if idle:
        job = data.draw(st.sampled_from(idle))
        other = JobState.SUSPENDED if job.state is JobState.QUEUED else JobState.QUEUED
        c.jobs[job.id] = replace(job, state=other)


def _a_job_is_about_to_end(data: st.DataObject, c: Cluster) -> None:
    job = _some_job(data, c)
    if job is not None and job.state is JobState.RUNNING:
        c.jobs[job.id] = replace(job, finishing=True)


def _a_job_reports(data: st.DataObject, c: Cluster) -> None:
    """Its speed at the size that it has, its resize cost, or how far it is."""
    running = [job for job in c.jobs.values() if job.state is JobState.RUNNING and job.workers]
    if not running:
        return
    job = data.draw(st.sampled_from(running))
    known, rate = (job.progress.speeds, job.progress.scatter), data.draw(st.sampled_from((5.0, 10.0, 15.0, 40.0)))
    speeds, scatter = after_report(known, len(job.wanted_workers), rate, job.generation)
    progress = replace(
        job.progress,
        reported_at=c.now,
        speeds=speeds,
        scatter=scatter,
        fraction=data.draw(st.sampled_from((None, None, 0.1, 0.9))),
        whole_slot_seconds=data.draw(st.sampled_from((1000.0, 100_000.0))),
        resize_seconds=data.draw(st.sampled_from((None, 0.5, 20.0))),
    )
    c.jobs[job.id] = replace(job, progress=progress)


def _a_job_has_had_more(data: st.DataObject, c: Cluster) -> None:
    job = _some_job(data, c)
    if job is not None:
        c.jobs[job.id] = replace(job, served_slot_seconds=data.draw(st.sampled_from((28_700.0, 115_000.0, 1e6))))


def _a_node_changes(data: st.DataObject, c: Cluster) -> None:
    node = data.draw(st.sampled_from(list(c.nodes.values())))
    fresh = Node(node.name, node.host, node.slots, gpu_type=node.gpu_type)
    slot = data.draw(st.integers(0, node.slots - 1))
    changes: list[Node] = [
        fresh,
        fresh,
        replace(node, intent=CORDONED),
        replace(node, intent=DRAINING),
        replace(node, health=DOWN),
        replace(node, closed="by the cluster"),
        replace(node, closed_slots=(ClosedSlot(slot, data.draw(st.sampled_from(SlotClosure))),)),
        replace(node, slots=data.draw(st.integers(1, 6)), closed_slots=()),
        replace(node, oversell=data.draw(st.sampled_from((1.0, 2.0)))),
        replace(node, gpu_type=data.draw(st.sampled_from(("x", "y")))),
        replace(node, labels=(("zone", "a"),)),
        replace(node, quarantines=node.quarantines + 1),
        Node(NodeName(f"new-{node.name}"), "host", 3, gpu_type=node.gpu_type),
    ]
    changed = data.draw(st.sampled_from(changes))
    c.nodes[changed.name] = changed


def _a_node_is_gone(data: st.DataObject, c: Cluster) -> None:
    used = {worker.node for job in c.jobs.values() for worker in job.all_workers} | {s.node for s in c.strays.values()}
    unused = [name for name in c.nodes if name not in used]
    if unused and len(c.nodes) > 1:
        del c.nodes[data.draw(st.sampled_from(unused))]


def _two_workers_hold_a_slot(data: st.DataObject, c: Cluster) -> None:
    """As where a row could not be read for a while."""
    here = [worker for job in c.jobs.values() for worker in job.workers]
    pairs = [(a, b) for a, b in itertools.permutations(here, 2) if a.node == b.node and a.job_id != b.job_id]
    if pairs:
        worker, other = data.draw(st.sampled_from(pairs))
        job, slot_ids = c.jobs[worker.job_id], other.slot_ids[: len(worker.slot_ids)]
        workers = (replace(w, slot_ids=slot_ids) if w.id == worker.id else w for w in job.workers)
        c.jobs[job.id] = replace(job, workers=tuple(workers))


def _a_stray_is_seen_or_gone(data: st.DataObject, c: Cluster) -> None:
    if c.strays:
        c.strays.clear()
    else:
        node = data.draw(st.sampled_from(list(c.nodes.values())))
        free = [slot for slot in range(node.slots) if not c.world().used(node.name).slot_mask >> slot & 1]
        c.stray(900, node.name, data.draw(st.sampled_from([free[:2] or [0], [0]])))


def _some_job(data: st.DataObject, c: Cluster) -> Job | None:
    return data.draw(st.sampled_from(list(c.jobs.values()))) if c.jobs else None


HAPPENINGS: tuple[Happening, ...] = (
    _time_passes,
    _a_job_arrives,
    _a_job_ends,
    _a_job_changes,
    _a_worker_is_lost,
    _a_job_is_suspended_or_resumed,
    _a_job_is_about_to_end,
    _a_job_reports,
    _a_job_reports,
    _a_job_has_had_more,
    _a_node_changes,
    _a_node_changes,
    _a_node_is_gone,
    _two_workers_hold_a_slot,
    _a_stray_is_seen_or_gone,
)


def test_a_wave_is_decided_whole_however_many_jobs_it_has() -> None:
    c = Cluster().node("a", 300)
    for number in range(1, 301):
        c.running(number, {"a": 1})
        c.waiting(1000 + number, priority=5)
    made = c.step()
    assert len([action for action in made.actions if isinstance(action, StopJob)]) == 300
    assert made.next_look_at is None


def test_a_plan_that_takes_long_takes_for_few_jobs_and_the_next_ones_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "TAKERS_MIN", 2)
    c = Cluster().node("a", 5)
    for number in range(1, 6):
        c.running(number, {"a": 1})
        c.waiting(10 + number, priority=5)
    planner = Planner(c.settings, always_late())
    made = planner.plan(c.world(), c.now)
    assert [action.job_id for action in made.actions if isinstance(action, StopJob)] == [4, 5]
    assert made.next_look_at == c.now + draft.GO_ON_SECONDS
    go_on(c, planner)
    assert [c.size(number) for number in range(11, 16)] == [1] * 5


def test_a_plan_that_takes_very_long_takes_for_one_job_and_the_next_ones_go_on() -> None:
    c = Cluster().node("a", 5)
    for number in range(1, 6):
        c.running(number, {"a": 1})
        c.waiting(10 + number, priority=5)
    planner = Planner(c.settings, always_late(draft.VERY_LATE_SECONDS))
    made = planner.plan(c.world(), c.now)
    assert [action.job_id for action in made.actions if isinstance(action, StopJob)] == [5]
    go_on(c, planner)
    assert [c.size(number) for number in range(11, 16)] == [1] * 5


@given(clusters(shapes=(1, 1, 2, 3), queue_max=8))
def test_plans_that_end_early_break_nothing_and_come_to_where_nothing_is_left_to_do(c: Cluster) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft, "TAKERS_MIN", 1)
        go_on(c, Planner(c.settings, always_late()))
    assert not plan(c.world(), c.now, c.settings).actions


def always_late(seconds: float = draft.LATE_SECONDS) -> Callable[[], float]:
    """A clock that goes on by this between any two looks."""
    return partial(next, itertools.count(0.0, seconds))


def go_on(c: Cluster, planner: Planner) -> None:
    """Plan and do what is planned until nothing is left to do."""
    for _ in range(50):
        before = dict(c.jobs)
        made = planner.plan(c.world(), c.now)
        assert list(check_plan(c.world(), made, c.now, c.settings)) == []
        enact(c, made)
        if not made.actions and c.jobs == before:
            return
        c.now += 60.0
    raise AssertionError(f"not settled: {made}")
