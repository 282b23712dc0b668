"""Whoever others leave for gets what they left, whatever is booked, and so all come to rest."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.policy.worlds import Cluster

HOUR = 3600.0
SURPLUS: dict[str, Any] = {"preemptible": False, "surplus_preemptible": True}


def test_who_gives_workers_to_an_equal_does_not_grow_into_the_room_that_a_booking_leaves_it() -> None:
    c = Cluster().node("a", 8).booked("b", 2, HOUR, 2 * HOUR)
    c.running(1, {"a": 4}, workers=(2, 4), priority=1, **SURPLUS).running(3, {"a": 2}, workers=(2, 7), **SURPLUS)
    c.waiting(2, workers=(2, 2), priority=1, preemptible=False).settle(seconds=20.0)
    assert [c.size(number) for number in (1, 2, 3)] == [2, 2, 2]


def test_those_stopped_for_a_guarantee_do_not_come_back_into_the_room_that_a_booking_leaves() -> None:
    c = Cluster().node("a", 6).booked("b", 1, HOUR, 2 * HOUR).queue("mine", guarantee=4).queue("other")
    c.running(1, {"a": 1}, priority=1, queue="mine").running(2, {"a": 1}, workers=(1, 3), queue="other", **SURPLUS)
    c.running(3, {"a": 2}, workers=(2, 2), priority=1, queue="other")
    c.running(4, {"a": 2}, workers=(2, 7), queue="other").waiting(5, workers=(3, 3), queue="mine")
    c.settle(seconds=20.0)
    assert [c.size(number) for number in (1, 2, 5)] == [1, 1, 3]


@st.composite
def booked_clusters(draw: st.DrawFn) -> Cluster:
    """One or two nodes with a booking, perhaps two queues, and a few jobs."""
    c = Cluster()
    for name in "ab"[: draw(st.integers(1, 2))]:
        c.node(name, draw(st.integers(2, 6)), oversell=draw(st.sampled_from((1.0, 2.0))))
    slots = sum(node.slots for node in c.nodes.values())
    c.booked("b", draw(st.integers(1, slots)), 5 * HOUR, 6 * HOUR)
    queues = [""]
    if draw(st.booleans()):
        c.queue("p", guarantee=draw(st.integers(0, slots))).queue("q")
        queues = ["p", "q"]
    for number in range(1, draw(st.integers(3, 6))):
        fields = {**draw(_jobs), "queue": draw(st.sampled_from(queues))}
        used, (low, high) = c.slots_used(), fields["workers"]
        free = {node.name: node.slots - used[node.name].bit_count() for node in c.nodes.values()}
        name = max(free, key=lambda name: free[name])
        if low <= free[name] and draw(st.booleans()):
            c.running(number, {name: draw(st.integers(low, min(free[name], high)))}, **fields)
        else:
            c.waiting(number, **fields)
    return c


_jobs = st.fixed_dictionaries(
    {
        "workers": st.tuples(st.integers(1, 3), st.sampled_from((0, 0, 2, 5))).map(lambda pair: (pair[0], sum(pair))),
        "priority": st.sampled_from((0, 0, 1)),
        "time_limit_seconds": st.sampled_from((None, None, 4.99 * HOUR, 6 * HOUR)),
    },
    optional={"preemptible": st.just(False), "surplus_preemptible": st.just(True)},
)


@given(booked_clusters())
def test_whatever_is_booked_all_come_to_rest(c: Cluster) -> None:
    c.settle(seconds=20.0)
