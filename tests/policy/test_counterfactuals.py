"""What would let a waiting job start: only what the planner confirms."""

from scheduler.model.ids import JobId
from scheduler.policy.explain.counterfactuals import End, Rise, Trials
from scheduler.policy.planner import plan
from tests.policy.worlds import CORDONED, DOWN, Cluster


def trials(c: Cluster, number: int, looks: int = 100) -> Trials:
    """Trials for a job, with time for `looks` looks."""
    left = iter(range(looks))
    return Trials(
        c.world(),
        c.jobs[JobId(number)],
        lambda world: plan(world, c.now, c.settings),
        lambda: next(left, None) is not None,
    )


def test_the_lowest_priority_that_serves_is_found_with_its_victims() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 2}, priority=1, workers=(1, 2))
    c.running(2, {"a": 2}, priority=5, workers=(2, 2)).waiting(3, workers=(2, 2))
    assert trials(c, 3).rise(1000) == Rise(2, (JobId(1),))


def test_a_priority_that_frees_too_little_is_not_told() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 2}, priority=5, workers=(2, 2), preemptible=False)
    c.running(2, {"a": 2}, priority=1, workers=(1, 4)).waiting(3, workers=(4, 4))
    assert trials(c, 3).rise(1000) is None
    assert trials(c, 3).end_that_serves(1000) == End(JobId(1), 2)


def test_without_time_the_answer_is_no() -> None:
    c = Cluster().node("a", 2).running(1, {"a": 2}, priority=1, workers=(2, 2)).waiting(2, workers=(2, 2))
    assert trials(c, 2).rise(1000) == Rise(2, (JobId(1),))
    assert trials(c, 2, looks=0).rise(1000) is None
    assert trials(c, 2, looks=0).end_that_serves(1000) is None


def test_no_priority_takes_from_a_booking_but_its_end_helps() -> None:
    c = Cluster().node("a", 4).booked("exam", 3, -10.0, 600.0)
    c.running(1, {"a": 1}, booking="exam").waiting(2, workers=(2, 2))
    assert trials(c, 2).rise(1000) is None
    assert trials(c, 2).booking_that_keeps_it() == "exam"


def test_nodes_that_come_back_and_a_smaller_minimum_are_tried() -> None:
    c = Cluster().node("a", 2).node("b", 4, intent=CORDONED).running(1, {"a": 1})
    c.waiting(2, workers=(2, 4), priority=-1)
    assert trials(c, 2).starts_with_nodes(down=False)
    assert trials(c, 2).starts_with(1)
    c.node("b", 4, health=DOWN)
    assert not trials(c, 2).starts_with_nodes(down=False)
    assert trials(c, 2).starts_with_nodes(down=True)
