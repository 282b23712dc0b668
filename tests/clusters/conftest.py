"""Clusters for tests: a local one per test, a Kubernetes one per session; both must leave nothing behind."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clusters.control_plane import ControlPlane
from tests.clusters.control_plane_cluster import Site
from tests.clusters.gpus import A, B, C
from tests.clusters.kubernetes_desk import TestCluster, cluster_of
from tests.clusters.local_world import LocalWorld, Signpost
from tests.eventually import eventually
from tests.nvml.machine import FakeMachine, MachineProcess


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


@pytest.fixture
def site(plane: ControlPlane) -> Iterator[Site]:
    """The cluster of a daemon on a control plane."""
    site = Site(plane)
    yield site
    site.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory."""
    path = tmp_path / "state"
    path.mkdir()
    return path


@pytest.fixture
def machine(gpu_machine: Callable[..., FakeMachine]) -> FakeMachine:
    """A machine with three GPUs."""
    return gpu_machine(A, B, C)


@pytest.fixture
def process(machine: FakeMachine) -> Iterator[MachineProcess]:
    """A process on it."""
    with machine.process() as made:
        yield made


@pytest.fixture
def run() -> Iterator[Callable[..., int]]:
    """Starts a process that lives as long as the test, with these variables; its pid."""
    started: list[subprocess.Popen[bytes]] = []

    def start(**environment: str) -> int:
        started.append(subprocess.Popen(["sleep", "600"], env={**os.environ, **environment}, start_new_session=True))
        own = Path(f"/proc/{started[-1].pid}/environ")
        eventually(own.read_bytes, "the process has its environment")
        return started[-1].pid

    yield start
    for each in started:
        each.kill()
        each.wait()
