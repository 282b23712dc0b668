"""Where the policy does not do yet what queues promise: each with a smallest world. These tests need not pass."""

import pytest

from tests.policy.test_queues import running
from tests.policy.worlds import Cluster


def test_a_limit_of_a_gpu_type_holds_for_jobs_that_ask_for_no_type() -> None:
    """`Starts` counts what a job asks for, not where it is placed; `check_plan` refuses that plan each time."""
    c = Cluster().node("h", 8, gpu_type="H100").queue("left", limit={"H100": 4}).waiting(1, workers=6, queue="left")
    c.settle()
    assert running(c) == {}


@pytest.mark.parametrize("path", ["lab", "lab/one"])
def test_jobs_that_are_not_preemptible_start_inside_the_guarantee_of_a_queue_around_theirs(path: str) -> None:
    """`Shares.pins` wants the accounts of users, and of queues without a guarantee of their own, to have one."""
    c = Cluster().node("a", 8).queue("lab", guarantee=4, share_users=path == "lab")
    if path != "lab":
        c.queue(path)
    c.waiting(1, workers=4, queue=path, user="ann", preemptible=False)
    c.settle()
    assert running(c) == {1: 4}


def test_a_guarantee_of_a_gpu_type_covers_jobs_that_are_not_preemptible() -> None:
    """`Shares.pins` looks at guarantees of any type only."""
    c = Cluster().node("h", 8, gpu_type="H100").queue("left", guarantee={"H100": 4})
    c.waiting(1, workers=4, queue="left", gpu_type="H100", preemptible=False)
    c.settle()
    assert running(c) == {1: 4}


def test_what_a_limit_for_each_user_keeps_a_queue_from_using_goes_to_others() -> None:
    """`user_limit` does not bound demand: 3 of the slots count as those of `small`, which can have 1."""
    c = Cluster().node("a", 9).queue("small", user_limit=1).queue("left").queue("right")
    c.running(1, on={"a": 1}, workers=(1, 9), queue="small", user="ann")
    c.running(2, on={"a": 8}, workers=(1, 9), queue="left").waiting(3, workers=(1, 9), queue="right")
    c.settle()
    assert running(c) == {1: 1, 2: 4, 3: 4}


def test_rests_of_slots_keep_no_queue_far_above_its_share() -> None:
    """1.6 slots each: none of four queues may take a second one, for it would come above its own."""
    c = Cluster().node("a", 8).queue("q0").running(1, on={"a": 4}, workers=(1, 8), queue="q0")
    for number in range(2, 6):
        c.queue(f"q{number}").running(number, on={"a": 1}, workers=(1, 8), queue=f"q{number}")
    c.settle()
    assert running(c)[1] == 2


def test_who_is_stopped_for_a_guarantee_of_a_type_starts_again_on_another_type() -> None:
    """Both lack some of a guarantee, and job 2 has none of it: it starts first, on the wrong type, again and again.

    Growth reserves nothing, and placement does not know which types are guaranteed to others.
    """
    c = Cluster().node("a", 2, gpu_type="A100").node("h", 2, gpu_type="H100")
    c.queue("left", guarantee={"*": 8, "H100": 5}).queue("right", guarantee={"*": 5, "A100": 8})
    c.waiting(2, queue="left").running(1, on={"a": 1}, workers=(1, 4), queue="right", gpu_type="A100")
    c.settle()
    assert running(c) == {1: 2, 2: 1}
