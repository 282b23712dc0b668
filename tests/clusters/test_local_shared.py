"""Replicas on one machine: the workers obey who observed last."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.clock import SystemClock
from scheduler.clusters.local.shared import SharedLocalCluster
from scheduler.config import LocalSettings
from scheduler.engine.ports import StopWorker
from scheduler.errors import ClusterError
from scheduler.model.ids import WorkerId
from scheduler.model.observation import Phase
from tests.clusters.local_world import NODE, SECONDS_MAX, LocalWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(tmp_path / "workers")
    yield world
    world.tear_down()


def _replica(world: LocalWorld) -> SharedLocalCluster:
    return SharedLocalCluster(world.state_dir, LocalSettings(slots=4), SystemClock())


def until_running(cluster: SharedLocalCluster, worker: str) -> None:
    changed = threading.Event()
    cluster.on_change(changed.set)
    while cluster.observe().workers[WorkerId(worker)].phase is not Phase.RUNNING:
        assert changed.wait(SECONDS_MAX), f"{worker} does not run"
        changed.clear()


def test_a_replica_that_follows_leaves_the_workers_to_the_leader(world: LocalWorld) -> None:
    world.start("1-1", "sleep", "60")
    standby = _replica(world)
    with pytest.raises(ClusterError, match="not been observed"):
        standby.apply([])
    assert world.running("1-1").alive
    standby.close()


def test_who_observes_takes_over_and_a_former_leader_is_not_obeyed(world: LocalWorld) -> None:
    former, leader = _replica(world), _replica(world)
    assert former.observe().workers == {}
    assert not former.apply([world.action("1-1", "sleep", "60")])
    assert leader.observe().workers.keys() == {WorkerId("1-1")}
    former.apply([StopWorker(WorkerId("1-1"), NODE, 0.0)])  # into a closed line, whether it is known already or not
    assert not leader.apply([world.action("2-1", "sleep", "60")])
    until_running(leader, "2-1")
    assert leader.observe().workers[WorkerId("1-1")].alive
    assert former.observe().workers.keys() == {WorkerId("1-1"), WorkerId("2-1")}, "it may lead again"
    for cluster in (former, leader):
        cluster.close()
