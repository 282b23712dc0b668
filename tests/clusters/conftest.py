"""Clusters for tests: a local one per test, a Kubernetes one per session; both must leave nothing behind."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clusters.kubernetes_desk import TestCluster, cluster_of
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


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[TestCluster]:
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig:
        pytest.skip("KUBECONFIG names no cluster")
    with cluster_of(Path(kubeconfig)) as cluster:
        yield cluster
