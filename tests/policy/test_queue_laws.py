"""Laws of what queues get, in clusters and trees of queues that nobody thought of.

Every plan on the way is checked by `scheduler.policy.checks` as well: limits, takings, guarantees.
"""

from hypothesis import given, settings

from tests.policy.drawn_queues import queued_clusters
from tests.policy.worlds import Cluster

#: Rounds of a minute each, in which everything comes to rest.
ROUNDS = 40


@settings(max_examples=60)
@given(queued_clusters())
def test_everything_comes_to_rest(c: Cluster) -> None:
    c.settle(ROUNDS)
    assert c.plan().actions == ()
