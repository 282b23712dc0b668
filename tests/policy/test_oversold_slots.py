"""Overselling: who may share slots beyond the physical count, where, and who leaves first."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.fixed import FixedGroup
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Action, Grow, Reserve, Shrink, Start, StopJob
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.policy.checks.invariants import check_plan, check_world
from scheduler.policy.planner import Planner, plan
from tests.policy.worlds import ACTIVE, CORDONED, NOW, Cluster, enact


def oversold(slots: int = 4, factor: float = 2.0, **fields: Any) -> Cluster:
    return Cluster().node("a", slots, oversell=factor, **fields)


def full(c: Cluster, priority: int = 5) -> Cluster:
    """All own slots are held by job 1."""
    slots = c.nodes["a"].slots  # type: ignore[index]
    return c.running(1, {"a": slots}, workers=(slots, slots), priority=priority)


def leave(job: int, *ordinals: int) -> Shrink:
    return Shrink(job, tuple(f"{job}-{k}" for k in ordinals), LeaveReason.OVERSOLD)  # type: ignore[arg-type]


# Where they go


def test_only_who_accepts_it_gets_shared_slots() -> None:
    c = full(oversold()).waiting(2, workers=(2, 2)).waiting(3, workers=(2, 2), oversell=True)
    assert c.actions() == [Start(3, (("a", 2),), shared=True)]  # type: ignore[arg-type]
    assert c.plan().waiting[2].reason is WaitReason.INSUFFICIENT_SLOTS  # type: ignore[index]


def test_slots_of_its_own_come_first() -> None:
    c = oversold().waiting(1, workers=(2, 2), oversell=True)
    assert c.actions() == [Start(1, (("a", 2),))]  # type: ignore[arg-type]


def test_a_job_is_wholly_on_slots_of_its_own_or_wholly_on_shared_ones() -> None:
    c = oversold().running(1, {"a": 2}, workers=(2, 2)).waiting(2, workers=(3, 3), oversell=True)
    assert c.actions() == [Start(2, (("a", 3),), shared=True)]  # type: ignore[arg-type]


def test_growth_stays_on_the_kind_of_slots_that_the_job_has() -> None:
    c = oversold().running(1, {"a": 1}, workers=(1, 9), oversell=True, shared=True)
    c.running(2, {"a": 1}, workers=(1, 9), oversell=True)
    assert sorted(c.actions(), key=lambda action: action.job_id) == [
        Grow(1, (("a", 3),), shared=True),  # type: ignore[arg-type]
        Grow(2, (("a", 3),)),  # type: ignore[arg-type]
    ]


def test_a_job_that_fits_only_on_shared_slots_is_not_too_large() -> None:
    c = oversold(2, 4.0).waiting(1, workers=(5, 5), oversell=True)
    assert c.actions() == [Start(1, (("a", 5),), shared=True)]  # type: ignore[arg-type]


def test_a_worker_shares_different_slots_so_it_needs_as_many_that_are_there() -> None:
    c = oversold(1, 4.0).waiting(1, slots_per_worker=2, oversell=True)
    assert c.actions() == []
    assert c.plan().waiting[1].reason is WaitReason.EXCEEDS_CLUSTER  # type: ignore[index]
    c = full(oversold(2, 3.0)).waiting(2, slots_per_worker=2, oversell=True)
    assert c.actions() == [Start(2, (("a", 1),), shared=True)]  # type: ignore[arg-type]
    assert c.crowd("a", 0).actions() == []


def test_a_job_that_crowded_slots_keep_off_does_not_exceed_the_cluster() -> None:
    c = full(oversold(2, 3.0)).waiting(2, slots_per_worker=2, oversell=True).crowd("a", 0)
    assert c.plan().waiting[2].reason is WaitReason.INSUFFICIENT_SLOTS  # type: ignore[index]
    c.node("a", 2, oversell=3.0, intent=CORDONED)
    assert c.plan().waiting[2].reason is WaitReason.NODES_UNAVAILABLE  # type: ignore[index]


def test_both_halves_draw_on_the_cpus_and_memory_of_the_node() -> None:
    c = oversold(cpus=4.0, memory_mib=10).running(1, {"a": 2}, workers=(2, 2), cpus=1.0, memory_mib=4)
    c.waiting(2, workers=(1, 4), cpus=1.0, memory_mib=1, oversell=True).waiting(3, workers=(1, 1), cpus=1.0)
    assert c.actions() == [
        Start(2, (("a", 1),)),  # type: ignore[arg-type]
        Start(3, (("a", 1),)),  # type: ignore[arg-type]
    ]


def test_what_a_more_important_sharer_is_freed_is_held_for_it() -> None:
    c = full(oversold(), priority=9).running(2, {"a": 4}, workers=(2, 4), oversell=True, shared=True)
    c.waiting(3, workers=(2, 2), priority=4, oversell=True)
    made = c.plan()
    assert Reserve(3, (("a", 2),), shared=True) in made.actions  # type: ignore[arg-type]
    assert [a.workers for a in made.actions if isinstance(a, Shrink)] == [("2-4", "2-3")]
    enact(c, made, slowly=True)
    c.waiting(4, workers=(1, 1), priority=0, oversell=True)
    assert c.actions() == []
    enact(c, c.plan())
    assert c.actions() == [Start(3, (("a", 2),), shared=True)]  # type: ignore[arg-type]


# Owners first


def test_sharers_do_not_count_against_owners() -> None:
    c = oversold().running(1, {"a": 4}, workers=(1, 4), oversell=True, shared=True, priority=9)
    c.waiting(2, workers=(4, 4))
    assert c.actions() == [Start(2, (("a", 4),))]  # type: ignore[arg-type]


@pytest.mark.parametrize(("priority", "reason"), [(0, LeaveReason.REBALANCED), (3, LeaveReason.PREEMPTED)])
def test_sharers_make_room_for_owners_who_need_cpus_beside_their_slots(priority: int, reason: LeaveReason) -> None:
    c = oversold(cpus=4.0).running(1, {"a": 1}, workers=(1, 1), cpus=1.0, priority=-1)
    c.running(2, {"a": 3}, workers=(1, 3), cpus=1.0, oversell=True, shared=True)
    c.waiting(3, workers=(2, 2), cpus=1.0, priority=priority)
    shrinks = [action for action in c.actions() if isinstance(action, Shrink | StopJob)]
    assert shrinks == [Shrink(2, ("2-3", "2-2"), reason, 3)]  # type: ignore[arg-type]
    c.settle()
    assert (c.size(1), c.size(2), c.size(3)) == (1, 1, 2)


def test_sharers_give_way_only_to_who_is_as_important() -> None:
    c = oversold(cpus=2.0).running(1, {"a": 2}, workers=(1, 2), cpus=1.0, oversell=True, shared=True, priority=4)
    assert c.waiting(2, cpus=1.0, priority=3).actions() == []


def test_an_equally_important_sharer_does_not_push_another_out() -> None:
    c = full(oversold(cpus=6.0)).running(2, {"a": 4}, workers=(4, 4), oversell=True, shared=True, cpus=1.5)
    assert c.waiting(3, oversell=True, cpus=1.0).actions() == []


def test_a_sharer_is_not_stopped_for_slots_that_its_fixed_group_has_for_itself() -> None:
    c = full(oversold()).node("z", 1, labels={"zone": "z"})
    server = FixedGroup(1, ("ps",), shape=WorkerShape(node_selector=(("zone", "z"),)))
    c.running(2, {"a": 2}, fixed_on={"z": 1}, workers=2, oversell=True, shared=True, fixed=server)
    assert c.waiting(3, workers=2, oversell=True, fixed=server).actions() == []


# What is promised


def promised(cpus: float, **fields: Any) -> Cluster:
    """Job 2 is promised what job 1 leaves in 100 s: both slots, two CPUs with each."""
    c = oversold(2, cpus=cpus).running(1, {"a": 1}, workers=(1, 1), cpus=2.0, time_limit_seconds=100.0, **fields)
    return c.waiting(2, workers=(2, 2), cpus=2.0, priority=5, preemptible=False)


@pytest.mark.parametrize(("cpus", "starts"), [(2.0, False), (0.0, True)])
def test_a_sharer_takes_no_cpus_that_are_promised_with_the_nodes_own_slots(cpus: float, starts: bool) -> None:
    c = promised(4.0, priority=9).waiting(3, workers=(1, 1), cpus=cpus, oversell=True, preemptible=False)
    assert c.actions() == [Start(3, (("a", 1),), shared=True)][:starts]  # type: ignore[arg-type]


def test_an_owner_takes_no_cpus_that_are_promised_with_shared_slots() -> None:
    c = oversold(3, cpus=6.0).running(1, {"a": 2}, workers=(2, 2), priority=9)
    c.running(4, {"a": 1}, cpus=2.0, oversell=True, shared=True, priority=9, time_limit_seconds=100.0)
    c.waiting(2, workers=(3, 3), cpus=2.0, oversell=True, priority=5, preemptible=False)
    assert c.waiting(3, workers=(1, 1), cpus=1.0, preemptible=False).actions() == []


def test_what_a_promise_leaves_of_cpus_is_given_once_to_both_halves() -> None:
    c = promised(6.0, priority=9)
    c.waiting(3, workers=(1, 1), cpus=2.0, oversell=True, preemptible=False)
    c.waiting(4, workers=(1, 1), cpus=2.0, oversell=True, preemptible=False)
    assert c.actions() == [Start(3, (("a", 1),), shared=True)]  # type: ignore[arg-type]


def test_a_promise_of_slots_alone_leaves_cpus_to_sharers() -> None:
    c = oversold(2, cpus=4.0).running(1, {"a": 1}, workers=(1, 1), priority=9)
    c.waiting(2, workers=(2, 2), priority=5, preemptible=False)
    c.waiting(3, workers=(1, 1), cpus=2.0, oversell=True, preemptible=False)
    assert c.actions() == [Start(3, (("a", 1),), shared=True)]  # type: ignore[arg-type]


# Crowded slots


def test_the_least_important_leave_a_crowded_slot_first_and_one_at_a_time() -> None:
    c = full(oversold(2, 4.0))
    c.running(2, {"a": 2}, workers=(1, 2), oversell=True, shared=True, priority=1)
    c.running(3, {"a": 2}, workers=(1, 2), oversell=True, shared=True, priority=0)
    c.crowd("a", 1)
    assert c.actions() == [leave(3, 2)]


def test_a_sharer_that_its_job_can_spare_leaves_before_one_whose_job_has_to_stop() -> None:
    c = full(oversold(1, 4.0)).running(2, {"a": 2}, workers=(1, 2), oversell=True, shared=True)
    c.running(3, {"a": 1}, oversell=True, shared=True)
    assert c.crowd("a", 0).actions() == [leave(2, 2)]
    enact(c, c.plan())
    assert c.actions() == [StopJob(3, StopReason.OVERSOLD)]


def test_a_slot_whose_relief_is_not_known_yet_is_looked_at_later() -> None:
    c = full(oversold(1)).running(2, {"a": 1}, oversell=True, shared=True).crowd("a", 0, leave_at=NOW + 7)
    assert (c.plan().actions, c.plan().next_look_at) == ((), NOW + 7)
    c.now += 7
    assert c.actions() == [StopJob(2, StopReason.OVERSOLD)]


def test_who_spans_two_crowded_slots_relieves_both() -> None:
    c = full(oversold(2, 3.0)).running(2, {"a": 1}, oversell=True, shared=True, slots_per_worker=2)
    c.running(3, {"a": 1}, oversell=True, shared=True, priority=1)
    assert c.crowd("a", 0).crowd("a", 1).actions() == [StopJob(2, StopReason.OVERSOLD)]


@pytest.mark.parametrize("reopen_at", [None, NOW + 60])
def test_a_slot_that_is_or_was_crowded_takes_nobody_new(reopen_at: float | None) -> None:
    c = full(oversold(2)).crowd("a", 1, reopen_at=reopen_at).waiting(2, workers=(1, 2), oversell=True)
    assert c.actions() == [Start(2, (("a", 1),), shared=True)]  # type: ignore[arg-type]


def test_owners_stay_on_a_crowded_slot() -> None:
    assert full(oversold(1)).crowd("a", 0).actions() == []


# A factor that was lowered


def test_as_many_leave_as_slots_are_not_oversold_any_more() -> None:
    c = full(oversold(4, 1.5)).running(2, {"a": 3}, workers=(1, 3), oversell=True, shared=True)
    c.running(3, {"a": 1}, oversell=True, shared=True, priority=1)
    assert actions(c) == [leave(2, 3, 2)]


def test_all_leave_a_node_that_is_not_oversold_any_more_though_it_takes_no_workers() -> None:
    c = oversold(4, 1.0, intent=CORDONED).running(2, {"a": 3}, workers=(1, 3), oversell=True, shared=True)
    assert actions(c) == [StopJob(2, StopReason.OVERSOLD)]


def actions(c: Cluster) -> list[Action]:
    """The plan of a world in which more is shared than there is."""
    assert {violation.invariant for violation in check_world(c.world(), NOW)} == {"I1"}
    made = plan(c.world(), NOW, c.settings)
    assert check_plan(c.world(), made, NOW, c.settings) == []
    return list(made.actions)


# On worlds that nobody thought of


@st.composite
def oversold_clusters(draw: st.DrawFn, *, cpus: bool = True, strangers_only: bool = False) -> Cluster:
    """Oversold nodes with owners and sharers, some crowded; `strangers_only`: only jobs that never share wait."""
    c = Cluster()
    for name in "abc"[: draw(st.integers(1, 3))]:
        slots = draw(st.integers(1, 4))
        c.node(name, slots, oversell=draw(st.sampled_from((1.0, 1.5, 2.0, 3.0))), cpus=float(slots + 2))
        if draw(st.booleans()):
            c.crowd(name, draw(st.integers(0, slots - 1)), reopen_at=draw(st.sampled_from((None, NOW + 60))))
    for number in range(1, draw(st.integers(1, 7))):
        shared = draw(st.booleans())
        fields = _wishes(draw, cpus) | ({"oversell": True} if shared else {})
        name = draw(st.sampled_from(sorted(c.nodes)))
        if fit := _fit(c, name, fields, shared):
            low, high = fields["workers"]
            size = draw(st.integers(min(low, fit), fit))
            fields["workers"] = (min(low, size), max(high, size))
            c.running(number, {name: size}, shared=shared, **fields)
    for number in range(20, 20 + draw(st.integers(0, 4))):
        c.waiting(number, **_wishes(draw, cpus) | ({"oversell": False} if strangers_only else {}))
    return c


def _wishes(draw: st.DrawFn, cpus: bool) -> dict[str, Any]:
    low = draw(st.integers(1, 3))
    return {
        "workers": (low, low + draw(st.sampled_from((0, 1, 3)))),
        "slots_per_worker": draw(st.sampled_from((1, 1, 2))),
        "cpus": draw(st.sampled_from((0.0, 0.5, 1.0))) if cpus else 0.0,
        "priority": draw(st.integers(0, 2)),
        "preemptible": draw(st.sampled_from((True, True, False))),
        "oversell": draw(st.booleans()),
    }


def _fit(c: Cluster, name: str, fields: dict[str, Any], shared: bool) -> int:
    """How many such workers still fit on the node."""
    node = c.nodes[name]  # type: ignore[index]
    used = c.world().used(node.name)
    open_slots = node.slots - len(c.crowded.get(node.name, ()))
    slots = node.extra_slots - used.slots_shared if shared else node.slots - used.slots
    if shared and fields["slots_per_worker"] > open_slots:
        return 0
    fit = slots // fields["slots_per_worker"]
    return int(min(fit, (node.cpus - used.cpus) // fields["cpus"]) if fields["cpus"] else fit)


@given(oversold_clusters())
def test_capacity_bounds_and_halves_hold_at_every_round(c: Cluster) -> None:
    for _ in range(6):
        enact(c, c.plan())
        assert check_world(c.world(), c.now) == []
        c.now += 60


@given(oversold_clusters(), st.data())
def test_what_a_planner_remembers_of_shared_slots_never_changes_a_plan(c: Cluster, data: st.DataObject) -> None:
    planner = Planner(c.settings)
    for _ in range(6):
        made = planner.plan(c.world(), c.now)
        assert made == plan(c.world(), c.now, c.settings)
        enact(c, made, slowly=data.draw(st.booleans()))
        node = data.draw(st.sampled_from(list(c.nodes.values())))
        match data.draw(st.sampled_from(("time", "factor", "cordon", "slots", "crowd", "calm"))):
            case "time":
                c.now += 60.0
            case "factor":
                c.nodes[node.name] = replace(node, oversell=data.draw(st.sampled_from((1.0, 2.0))))
            case "cordon":
                c.nodes[node.name] = replace(node, intent=ACTIVE if node.intent is CORDONED else CORDONED)
            case "slots":
                c.nodes[node.name] = replace(node, slots=data.draw(st.integers(1, 4)))
            case "crowd":
                c.crowd(node.name, data.draw(st.integers(0, node.slots - 1)))
            case _:
                c.crowded = {name: slots for name, slots in c.crowded.items() if name != node.name}


@given(oversold_clusters())
def test_an_oversold_world_settles(c: Cluster) -> None:
    c.settle(rounds=40)
    for _ in range(3):
        made = c.step(60.0)
        assert (made.actions, dict(made.waiting)) == ((), {})


@given(oversold_clusters(cpus=False, strangers_only=True))
def test_whoever_has_slots_of_its_own_is_treated_as_if_nobody_shared(c: Cluster) -> None:
    alone = Cluster()
    sharing = {job.id for job in c.jobs.values() if shares(job)}
    alone.jobs = {job.id: job for job in c.jobs.values() if job.id not in sharing}
    for node in c.nodes.values():
        alone.node(node.name, node.slots, cpus=node.cpus)
    mine = [action for action in c.actions() if action.job_id not in sharing]
    assert mine == alone.actions()


@given(oversold_clusters(strangers_only=True))
def test_no_owner_waits_for_cpus_that_sharers_of_its_importance_hold(c: Cluster) -> None:
    alone = Cluster()
    alone.nodes = c.nodes
    alone.jobs = {job.id: job for job in c.jobs.values() if not shares(job)}
    first = next((a.job_id for a in alone.actions() if isinstance(a, Start)), None)
    if first is None or any(
        shares(job) and (job.priority > c.jobs[first].priority or not job.spec.preemptible) for job in c.jobs.values()
    ):
        return
    served = {a.job_id for a in c.actions() if isinstance(a, Start | Reserve)}
    assert first in served


def shares(job: Job) -> bool:
    return job.state is JobState.RUNNING and any(worker.shared for worker in job.workers)
