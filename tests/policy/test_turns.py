"""Whose turn it is among queues, and that queues which are passed by would have got nothing."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.plan import Action, Plan, Reserve, Shrink, Start
from scheduler.model.shape import WorkerShape
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.queues.entitlement import Entitlement
from scheduler.policy.queues.shares import Shares, Standing
from scheduler.policy.queues.tree import TOP, Lane, Tree
from scheduler.policy.queues.turns import FIRST, Turn, Turns
from scheduler.policy.start.hopes import Hopes, always
from scheduler.policy.start.parked import Parked
from tests.policy.drawn_queues import queued_clusters
from tests.policy.worlds import Cluster

PATHS = (("a", "a/a", "a/a/a"), ("a", "a/a", "a/a/b"), ("a", "a/b"), ("b", "b@ann"), ("b", "b@bob"), ("c",))
LANES = tuple(Lane(path, path) for path in PATHS)
ACCOUNTS = tuple(dict.fromkeys(account for path in PATHS for account in path))
SLOT = ((0, (1, 0, 0)),)
PART = st.integers(0, 4).map(float)


@st.composite
def shares_of(draw: st.DrawFn) -> Shares:
    """Shares of one kind of slots in which some hold something; ties are frequent."""
    entitled = {
        name: (Entitlement(min(parts), max(parts)),) for name in ACCOUNTS if (parts := draw(st.tuples(PART, PART)))
    }
    used = {name: draw(PART) for name in ACCOUNTS}
    oldest = {path[-1]: draw(st.integers(0, 3)) for path in PATHS}
    return Shares(Standing(Tree(), (0,), entitled, used=used, oldest=oldest))


def turn_of(shares: Shares, lane: Lane) -> Turn:
    return (tuple(shares.place(name, (1,)) for name in lane.path), shares.oldest(lane.own))


@given(shares_of(), st.lists(st.tuples(st.sampled_from(("add", "remove", "take", "give")), st.sampled_from(LANES))))
def test_the_queue_that_is_first_is_the_first_of_all_as_slots_and_jobs_come_and_go(
    shares: Shares, steps: list[tuple[str, Lane]]
) -> None:
    turns, there = Turns(shares), set[Lane]()
    for what, lane in steps:
        if what == "add":
            turns.put(lane, (1,))
            there.add(lane)
        elif what == "remove" and lane in there:
            turns.remove(lane.own)
            there.remove(lane)
        elif what == "take":
            shares.put(lane, SLOT, 1, pinned=False)
        elif what == "give" and shares.held(lane.own)[0]:
            shares.put(lane, SLOT, -1, pinned=False)
        first = turns.first()
        assert (first is None) == (not there)
        if first is not None:
            assert first[0] == min(turn_of(shares, lane) for lane in there)
            assert first[0] in [turn_of(shares, lane) for lane in there if lane.own == first[1]]


@given(shares_of(), st.lists(st.sampled_from(LANES), min_size=9, max_size=20))
def test_with_each_slot_that_is_given_out_turns_are_those_of_what_queues_hold_now(
    shares: Shares, takers: list[Lane]
) -> None:
    turns = Turns(shares)
    for lane in LANES:
        turns.put(lane, (1,))
    for taker in takers:
        shares.put(taker, SLOT, 1, pinned=False)
        first = turns.first()
        assert first is not None
        assert first[0] == min(turn_of(shares, lane) for lane in LANES)


@given(shares_of(), st.permutations(LANES))
def test_each_queue_has_a_turn_and_jobs_above_all_queues_have_the_first(shares: Shares, lanes: list[Lane]) -> None:
    turns, served = Turns(shares), list[str]()
    for lane in (*lanes, TOP):
        turns.put(lane, (1,))
    assert turns.first() == (FIRST, TOP.own)
    while (first := turns.first()) is not None:
        served.append(first[1])
        turns.remove(first[1])
    assert served[0] == TOP.own
    assert sorted(served) == sorted(lane.own for lane in (*LANES, TOP))


def test_without_queues_all_jobs_have_one_turn() -> None:
    turns = Turns(None)
    assert turns.first() is None
    turns.put(TOP, ())
    assert turns.first() == (FIRST, TOP.own)


@given(queued_clusters())
def test_queues_without_hope_are_passed_by_and_nothing_of_the_plan_changes(c: Cluster) -> None:
    world = c.world()
    made = c.plan()
    with patch.object(Hopes, "judge", lambda *_: always), patch.object(Parked, "with_hope", all_parked):
        assert decisions(c.plan()) == decisions(made), world


def test_a_queue_takes_what_another_came_to_hold_beyond_its_part_in_the_same_plan() -> None:
    c = Cluster().node("n", 4).node("m", 7, gpu_type="x").node("o", 8, gpu_type="x").queue("a").queue("b")
    c.running(1, {"m": 2, "o": 1}, workers=(1, 4), slots_per_worker=3).running(2, {"n": 3}, workers=3)
    c.running(3, {"m": 1}, gpu_type="x", queue="a").waiting(4, workers=4, priority=1)
    c.waiting(5, workers=(3, 4), queue="b").waiting(6, workers=(3, 4), queue="b")
    made = c.plan().actions
    assert [(each.job_id, each.for_job) for each in made if isinstance(each, Shrink)] == [(1, 4), (1, 6)]


@pytest.mark.parametrize("above", ["a pod of others", "a job in an open booking"])
def test_what_waits_above_all_queues_takes_nothing_of_those_that_come_to_hold_more(above: str) -> None:
    c = Cluster().node("n", 8).node("m", 4, labels={"room": "m"}).queue("a").queue("b")
    c.running(9, {"m": 4}, workers=4, preemptible=False, queue="b").running(1, {"n": 5}, workers=(1, 8), queue="a")
    c.waiting(2, workers=5, priority=1, queue="a").waiting(3, workers=2, queue="b")
    if above == "a pod of others":
        c.demand("pod", 4, nodes=["m"])
    else:
        c.booked("course", 4, -10, 3600, WorkerShape(node_selector=(("room", "m"),)))
        c.waiting(4, workers=2, selector={"room": "m"}, booking="course", queue="a")
    made = c.plan().actions
    assert [each.job_id for each in made if isinstance(each, Shrink)] == [1]
    assert [each.job_id for each in made if isinstance(each, Start)] == [3]


@given(queued_clusters())
def test_victims_of_a_queue_that_cannot_be_enough_are_not_looked_for_and_nothing_of_the_plan_changes(
    c: Cluster,
) -> None:
    world = c.world()
    made = c.plan()
    with patch.object(Victims, "reach_in_queue", lambda *_, **__: 10**9):
        assert decisions(c.plan()) == decisions(made), world


def all_parked(parked: Parked) -> list[object]:
    """All that are parked, whatever opened."""
    found = [each for classes in parked._by_lane.values() for each in classes]
    parked._by_lane.clear()
    return list(found)


def decisions(made: Plan) -> list[Action]:
    """The actions; in which order slots are held says nothing."""
    return sorted(made.actions, key=lambda action: (isinstance(action, Reserve), str(action)))
