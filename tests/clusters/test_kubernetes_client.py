"""The oldest and the newest version of the Kubernetes client that the project allows: both are installed and used."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.clusters.control_plane import ControlPlane
from tests.daemon import ROOT

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

#: Lists, starts, refuses, reads back, deletes, and does it with what two daemons know.
PROGRAM = """
import math, random, sys
from pathlib import Path
import kubernetes
from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.cluster import KubernetesCluster
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import ForgetWorker, StopWorker
from scheduler.model.ids import NodeName, WorkerId
from tests.clusters.desk import start_of

assert kubernetes.__version__.startswith(sys.argv[1]), kubernetes.__version__
settings = KubernetesSettings(namespace=sys.argv[2], kubeconfig=Path(sys.argv[3]), image="image:1")
clusters = [KubernetesCluster(settings, SystemClock(), random.Random(1), Path(sys.argv[4]), b"s") for _ in range(2)]
first, second = clusters
node = NodeName("a")
assert node in first.observe().nodes
good = start_of("7-1", node, (0,), ("train",))
bad = start_of("8-1", node, (1,), ("train",), '{"spec":{"dnsPolicy":"Bogus"}}')
assert not first.apply([good, bad], math.inf)
assert not second.apply([good], math.inf)
seen = first.observe().workers
assert seen[WorkerId("7-1")].alive
assert "Bogus" in seen[WorkerId("8-1")].detail, seen
assert not first.apply([StopWorker(WorkerId("7-1"), node, 0.0), ForgetWorker(WorkerId("8-1"), node)], math.inf)
first.logs.read(WorkerId("7-1"))
for cluster in clusters:
    cluster.close()
print("works")
"""


def allowed() -> tuple[str, str]:
    """The oldest major version that is allowed, and the first that is not."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (client,) = [each for each in dependencies if each.startswith("kubernetes")]
    found = re.fullmatch(r"kubernetes>=(\d+),<(\d+)", client)
    assert found is not None, client
    return found[1], found[2]


@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_pods_are_made_and_refused_with_the_oldest_and_the_newest_client(
    plane: ControlPlane, tmp_path: Path, which: str
) -> None:
    oldest, beyond = allowed()
    major = oldest if which == "oldest" else str(int(beyond) - 1)
    target = tmp_path / "client"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), "urllib3>=2.3"]
    wanted = f"kubernetes=={oldest}.*" if which == "oldest" else f"kubernetes<{beyond}"
    installed = subprocess.run([*command, wanted], check=False, capture_output=True, text=True)
    if installed.returncode != 0:
        pytest.skip(f"{wanted} cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
    plane.add_node("a")
    try:
        settings = plane.settings()
        arguments = (major, settings.namespace, str(settings.kubeconfig), str(tmp_path))
        environment = {**os.environ, "PYTHONPATH": f"{target}{os.pathsep}{ROOT}"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments],
            env=environment,
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.stdout.endswith("works\n"), done.stdout + done.stderr
    finally:
        plane.core.delete_node("a")
