"""Reading how busy slots are goes on after failures, and they are told."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.clusters.local.loads import LoadReader
from scheduler.clusters.local.machine import CpuMachine
from scheduler.config import LocalSettings
from scheduler.engine.timing.repeating import Repeating
from scheduler.model.observation import SlotLoad
from tests.clusters.local_world import LocalWorld
from tests.eventually import eventually


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(tmp_path / "state", LocalSettings(slots=2))
    yield world
    world.tear_down()


def test_loads_are_read_again_after_the_process_had_no_file_left(world: LocalWorld) -> None:
    """With a real worker, whose processes are looked up, and a process that may open no file."""
    assert not world.apply([world.action("1-1", "sleep", "60", slot_ids=(0,))])
    machine = world.cluster._machine
    assert isinstance(machine, CpuMachine)
    reader = LoadReader(machine.read_loads, 0.02)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        eventually(lambda: reader.loads[0].utilization is not None, "loads are not read")
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            trouble = eventually(lambda: reader.trouble, "nobody notices")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert os.strerror(errno.EMFILE) in (trouble or "")
        eventually(lambda: reader.trouble is None, "they are not read again")
        eventually(lambda: reader.loads[0].utilization is not None, "loads are not known again")
    finally:
        reader.close()


def test_only_cores_that_the_daemon_may_run_on_are_offered(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        world = LocalWorld(tmp_path / "state", LocalSettings())
    finally:
        os.sched_setaffinity(0, before)
    nodes = world.cluster.observe().nodes.values()
    assert sum(node.cpus for node in nodes) == 1.0
    assert all(node.has_gpus or node.slots == 1 for node in nodes)
    world.tear_down()


def test_nothing_is_known_of_slots_that_cannot_be_read() -> None:
    readings = iter([(SlotLoad(utilization=0.5),) * 2])

    def read() -> tuple[SlotLoad, ...]:
        for reading in readings:
            return reading
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    reader = LoadReader(read, 0.01)
    try:
        eventually(lambda: reader.trouble is not None, "nobody notices")
        assert reader.loads == (SlotLoad(), SlotLoad())
    finally:
        reader.close()


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), KeyError("x"), MemoryError()])
def test_a_pass_that_fails_is_told_until_one_succeeds(error: Exception) -> None:
    failing = [True]

    def act() -> None:
        if failing[0]:
            raise error

    repeating = Repeating("slot loads", act, 0.01)
    repeating.once()
    assert (repeating.trouble or "").startswith("slot loads: ")
    failing[0] = False
    repeating.once()
    assert repeating.trouble is None
