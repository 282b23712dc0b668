"""A planner says when to look again: until then an empty plan stays empty, if nothing but time passes."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.config import PolicySettings
from scheduler.model.job import Job, Runtime
from scheduler.model.plan import Action, Grow, Shrink
from scheduler.model.speed import SizeSpeed
from scheduler.model.worker import LeaveReason
from scheduler.policy.planner import Planner
from scheduler.policy.snapshot.order import end_of
from tests.policy.drawn_queues import queued_clusters, spots
from tests.policy.drawn_worlds import clusters
from tests.policy.worlds import LONG_AGO, NOW, Cluster

#: Seconds ahead that are looked at, besides the last moment before the next look.
AHEAD = (0.5, 3.0, 25.0, 90.0, 400.0, 2000.0, 7000.0, 40_000.0, 1e6)
ROUNDS = 3


@st.composite
def elastic_clusters(draw: st.DrawFn) -> Cluster:
    """One or two nodes with elastic jobs, most of which run and want more."""
    margin = draw(st.sampled_from((0.2, 2.0)))
    c = Cluster(PolicySettings(share=draw(st.sampled_from((True, True, False))), share_margin=margin))
    for name in "ab"[: draw(st.integers(1, 2))]:
        c.node(name, draw(st.sampled_from((2, 4, 8, 16, 32))))
    for number in range(1, draw(st.integers(1, 5)) + 1):
        low = draw(st.integers(1, 3))
        fields = {
            "workers": (low, low + draw(st.sampled_from((1, 4, 30)))),
            "slots_per_worker": draw(st.sampled_from((1, 1, 2))),
            "gpu_type": None,
            "priority": draw(st.sampled_from((0, 0, 1))),
            "preemptible": draw(st.sampled_from((True, True, False))),
            "runtime": draw(st.sampled_from((Runtime.ELASTIC, Runtime.COMMAND))),
            "expected_seconds": draw(st.sampled_from((None, None, 1e3, 1e5))),
        }
        on = spots(draw, c, fields)
        started_at = NOW - draw(st.sampled_from((5.0, 1000.0, 20_000.0)))
        if on and draw(st.sampled_from((True, True, True, False))):
            c.running(number, on, running_at=started_at, started_at=started_at, **fields)
        else:
            c.waiting(number, **fields)
    return c


@given(elastic_clusters(), st.data())
def test_a_plan_stays_empty_until_the_next_look(c: Cluster, data: st.DataObject) -> None:
    _stays_empty(c, data)


@given(clusters(drains=True), st.data())
def test_a_plan_of_any_jobs_stays_empty_until_the_next_look(c: Cluster, data: st.DataObject) -> None:
    _stays_empty(c, data)


@given(queued_clusters(), st.data())
def test_a_plan_of_queues_stays_empty_until_the_next_look(c: Cluster, data: st.DataObject) -> None:
    _stays_empty(c, data)


def test_growth_that_does_not_pay_yet_is_looked_at_when_the_job_is_taken_to_need_more() -> None:
    c = Cluster().node("a", 32)
    c.running(1, {"a": 16}, workers=(16, 32), resize_seconds=10.0, running_at=LONG_AGO)
    made = c.plan()
    assert made.actions == ()
    assert made.next_look_at == NOW + (c.settings.service_class_slot_seconds - 16 * (NOW - LONG_AGO)) / 16
    c.now = made.next_look_at
    assert c.actions() == [Grow(1, (("a", 16),))]  # type: ignore[arg-type]


def test_who_was_resized_a_moment_ago_takes_from_equals_once_it_has_cooled_down() -> None:
    steep, flat = ((1, 10.0), (8, 80.0)), ((1, 10.0), (8, 10.0))
    c = Cluster().node("a", 8).running(1, {"a": 4}, workers=(1, 8), throughput=flat)
    c.running(2, {"a": 4}, workers=(1, 8), throughput=steep, resize_seconds=5.0, last_resize_at=NOW - 1.0)
    made = c.plan()
    assert (made.actions, made.next_look_at) == ((), NOW + c.settings.share_interval_seconds)
    c.now = NOW + c.settings.share_interval_seconds
    assert [(type(action), action.job_id) for action in c.actions()] == [(Shrink, 1)]


def test_growth_at_the_cost_of_an_equal_is_looked_at_when_the_job_is_taken_to_need_so_much_that_it_pays() -> None:
    c, steep = Cluster().node("a", 3), ((1, 1.0), (2, 3.0))
    c.running(1, {"a": 1}, workers=(1, 2), throughput=steep, resize_seconds=60.0, running_at=LONG_AGO)
    c.running(2, {"a": 2}, workers=(1, 2), running_at=LONG_AGO)
    while not c.actions() and (look := c.plan().next_look_at) is not None:
        c.now = look
    assert [(type(action), action.job_id) for action in c.actions()] == [(Shrink, 2)]


def test_workers_are_given_back_once_the_job_is_taken_to_need_so_much_that_it_pays() -> None:
    c, slower = Cluster().node("a", 4), ((2, 20.0, 20), (4, 10.0, 20, 1))
    c.running(1, {"a": 4}, workers=(2, 4), throughput=slower, resize_seconds=100.0, running_at=LONG_AGO)
    made = c.plan()
    assert made.actions == ()
    assert made.next_look_at is not None
    c.now = made.next_look_at
    assert [action.reason for action in c.actions() if isinstance(action, Shrink)] == [LeaveReason.NO_GAIN]


def _stays_empty(c: Cluster, data: st.DataObject) -> None:
    for job_id, job in c.jobs.items():
        if job.workers:
            c.jobs[job_id] = _with_past(job, data)
    for _ in range(ROUNDS):
        c.step(data.draw(st.sampled_from((0.0, 1.0, 60.0))))
    made, world, planner = c.plan(), c.world(), Planner(c.settings)
    assume(not made.actions and not made.waiting)
    until = min([NOW + 1e9 if made.next_look_at is None else made.next_look_at, *_ends(c)])
    for when in [*(c.now + ahead for ahead in AHEAD), until - 1e-3]:
        if c.now < when < until:
            missed = planner.plan(world, when)
            others = [action for action in missed.actions if not _is_exchange(action)]
            assert (others, missed.waiting) == ([], {}), f"{when - c.now} s later; look at {made.next_look_at}"
            if missed.actions:  # exchanges among equals are looked at in intervals
                assert made.next_look_at is not None
                assert made.next_look_at <= c.now + c.settings.share_interval_seconds


def _is_exchange(action: Action) -> bool:
    return isinstance(action, Shrink) and action.reason is LeaveReason.REBALANCED


def _ends(c: Cluster) -> list[float]:
    """When time limits end jobs, at which the engine wakes up without being told."""
    ends = (end_of(job, job.started_at) for job in c.jobs.values() if job.workers)
    return [end for end in ends if end is not None]


def _with_past(job: Job, data: st.DataObject) -> Job:
    """The running job with speeds, resizes and work done as they might be by now."""
    draw = data.draw
    sizes = draw(st.sets(st.integers(1, 8), max_size=3))
    speeds = (SizeSpeed(size, draw(st.floats(1.0, 100.0)), losses=draw(st.integers(0, 1))) for size in sorted(sizes))
    progress = replace(
        job.progress,
        resize_seconds=draw(st.sampled_from((None, 0.5, 10.0, 60.0))),
        speeds=tuple(speeds),
        fraction=draw(st.sampled_from((None, None, 0.5))),
        whole_slot_seconds=draw(st.sampled_from((None, 1e5))),
        reported_at=draw(st.sampled_from((None, NOW - 5.0))),
    )
    return replace(job, progress=progress, last_resize_at=draw(st.sampled_from((None, NOW - 1.0, NOW - 600.0))))
