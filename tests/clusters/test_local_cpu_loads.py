"""How busy CPU slots are: read from the processes of real workers."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.clock import SystemClock
from scheduler.clusters.local.cpu_loads import CpuLoads
from scheduler.config import LocalSettings
from tests.clusters.local_world import LocalWorld

BURN = (
    "import sys, time\n"
    "while time.process_time() < 0.5: pass\n"  # what Python needs to start counts, too
    "open(sys.argv[1], 'w').close(); time.sleep(60)"
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(tmp_path / "state", LocalSettings(slots=3))
    yield world
    world.tear_down()


def test_slots_are_as_busy_as_the_processes_of_their_workers(world: LocalWorld, tmp_path: Path) -> None:
    burnt = tmp_path / "burnt"
    os.mkfifo(burnt)
    loads, clock = CpuLoads(world.state_dir.resolve(), 3), SystemClock()
    began = clock.monotonic()
    assert [load.utilization for load in loads.read([], began)] == [0.0, 0.0, 0.0]
    assert not world.apply([world.action("1-1", sys.executable, "-c", BURN, str(burnt), slot_ids=(0,))])
    assert not world.apply([world.action("2-1", "sleep", "60", slot_ids=(1,))])
    burnt.read_bytes()  # it has burnt half a second
    ended = clock.monotonic()
    busy, asleep, free = (load.utilization for load in loads.read(world.cluster.observe().workers.values(), ended))
    assert busy == pytest.approx(min(0.5 / (ended - began), 1.0), rel=0.5)
    assert asleep is not None
    assert asleep < 0.1
    assert free == 0.0
