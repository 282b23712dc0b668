"""What a queue may hold above a limit, and what not."""

import pytest

from tests.invariants.broken import Broken
from tests.invariants.limited import LimitsHold
from tests.policy.worlds import Cluster


def cluster(workers: int, gpu_type: str | None = "h100") -> Cluster:
    """A job of a queue that may have two slots of one GPU type, on a node of this type."""
    c = Cluster().node("a", 8, gpu_type=gpu_type).queue("lab", limit={"h100": 2})
    return c.running(1, {"a": workers}, workers=(1, 8), queue="lab")


def stays_within(*looks: Cluster, commits: int = 1) -> bool:
    """Whether the check lets pass that one of these follows the other, after this number of commits."""
    limits = LimitsHold()
    try:
        for number, c in enumerate(looks, 1):
            limits.after_tick(c.world(), c.settings, c.now, number * commits)
    except Broken:
        return False
    return True


def test_no_queue_grows_above_its_limit() -> None:
    assert stays_within(cluster(1), cluster(2))
    assert not stays_within(cluster(2), cluster(3))


def test_what_came_of_a_commit_that_nobody_saw_is_not_judged() -> None:
    assert stays_within(cluster(2), cluster(3), commits=2)


def test_what_a_queue_had_above_its_limit_may_stay() -> None:
    assert stays_within(cluster(4), cluster(4), cluster(3))
    assert not stays_within(cluster(4), cluster(3), cluster(4))


@pytest.mark.parametrize(("after", "right"), [(4, True), (5, False)])
def test_what_was_held_on_a_node_that_comes_to_be_of_a_limited_type_may_stay(after: int, right: bool) -> None:
    assert stays_within(cluster(4, gpu_type=None), cluster(after)) is right
