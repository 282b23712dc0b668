"""A local cluster per test, which must leave no process behind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clusters.local_world import LocalWorld, Signpost


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(tmp_path / "state")
    yield world
    world.tear_down()


@pytest.fixture
def signpost(tmp_path: Path) -> Iterator[Callable[[str], Signpost]]:
    made: list[Signpost] = []

    def make(name: str) -> Signpost:
        made.append(Signpost(tmp_path / name))
        return made[-1]

    yield make
    for post in made:
        post.close()
