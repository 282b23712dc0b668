"""An oversold local node: what it says of itself, who shares, and how busy its GPUs are."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.clusters.local.loads import LoadReader
from scheduler.config import LocalSettings, load_settings
from scheduler.errors import ConfigError
from scheduler.model.observation import SlotLoad
from tests.clusters.local_world import SECONDS_MAX, LocalWorld


@pytest.fixture
def oversold(tmp_path: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(tmp_path / "state", LocalSettings(slots=2, oversell=1.5))
    yield world
    world.tear_down()


def test_the_node_tells_its_factor(oversold: LocalWorld) -> None:
    (node,) = oversold.cluster.observe().nodes.values()
    assert node.oversell == 1.5


def test_who_shares_is_known_from_the_start_and_to_whoever_comes_later(oversold: LocalWorld) -> None:
    own = oversold.action("1-1", "sleep", "60")
    sharing = oversold.action("2-1", "sleep", "60", shared=True)
    assert not oversold.apply([own, sharing])
    assert shared(oversold) == {"1-1": False, "2-1": True}
    oversold.running("1-1")
    oversold.running("2-1")
    oversold.kill_supervisor()
    oversold.open()
    assert shared(oversold) == {"1-1": False, "2-1": True}


def shared(world: LocalWorld) -> dict[str, bool]:
    return {str(seen.id): seen.shared for seen in world.cluster.observe().workers.values()}


@pytest.mark.parametrize("factor", ["0.5", "inf", "nan", "65", "many"])
def test_a_factor_that_cannot_be_is_refused(factor: str) -> None:
    with pytest.raises(ConfigError, match=r"^setting local\.oversell: "):
        load_settings(overrides={"local": {"oversell": factor}})


def test_loads_are_read_again_and_again_until_it_is_closed() -> None:
    readings = iter([0.25, 0.5])
    read_twice = threading.Event()

    def read() -> tuple[SlotLoad, ...]:
        memory = next(readings, None)
        if memory is None:
            read_twice.set()
        return (SlotLoad(memory),)

    reader = LoadReader(read, interval_seconds=0.001)
    assert read_twice.wait(SECONDS_MAX)
    reader.close()
    assert reader.loads == (SlotLoad(None),)
