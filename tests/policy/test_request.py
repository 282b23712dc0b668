"""Requests of jobs with a fixed group: what fits on a node, and where both parts are placed."""

import numpy as np
import pytest

from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.ledger import View
from scheduler.policy.draft import Draft
from scheduler.policy.snapshot.snapshot import Snapshot
from tests.policy.worlds import Cluster


def draft_of(cluster: Cluster) -> Draft:
    return Draft(Snapshot(cluster.world(), cluster.now, cluster.settings))


@pytest.mark.parametrize(("need", "fixed", "replicas"), [(3, 4, 1), (2, 3, 2), (1, 0, 2)])
def test_a_nodes_fit_grows_with_each_mixture_of_workers_and_fixed_workers(need: int, fixed: int, replicas: int) -> None:
    c = (
        Cluster()
        .node("a", 16)
        .waiting(1, slots_per_worker=need, fixed=FixedGroup(replicas, ("serve",), shape=WorkerShape(slots=fixed)))
    )
    draft = draft_of(c)
    request = draft.request(draft.world.queued[JobId(1)])
    for slots in range(17):
        mixtures = [(r, w) for r in range(replicas + 1) for w in range(17) if r * fixed + w * need <= slots]
        fit = request.fit(np.array([0]), np.array([(slots, 0, 0)]))
        assert fit.tolist() == [len(mixtures)]


def test_a_placement_of_both_parts_holds_where_it_was_made_until_something_is_taken() -> None:
    c = Cluster().node("a", 4).node("b", 2)
    c.waiting(1, workers=(1, 1), slots_per_worker=4, fixed=FixedGroup(2, ("serve",), shape=WorkerShape(slots=1)))
    draft = draft_of(c)
    request = draft.request(draft.world.queued[JobId(1)])
    chosen = request.place(View.OPEN)
    assert chosen == ({0: 1}, {1: 2})
    assert request.still(chosen, View.OPEN)
    draft.ledger.take(1, WorkerShape(slots=1), 1)
    assert not request.still(chosen, View.OPEN)
    assert not request.fits(View.OPEN)
