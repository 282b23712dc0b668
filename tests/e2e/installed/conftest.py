"""A cluster that has the images of the manual, and nothing of the scheduler."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.e2e.installed.installation import SYSTEM, TRAINING_IMAGE, Installation

IMAGES = ("elastic-gpu-scheduler", TRAINING_IMAGE)
NAME = re.compile(r"(?:docker\.io/library/|localhost/)?([\w-]+)(?=[:@]|$)")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Installation]:
    """Nothing is installed there yet; whoever installs also removes."""
    if not os.environ.get("SCHED_TEST_INSTALLED"):
        pytest.skip("SCHED_TEST_INSTALLED is not set: installing takes minutes, and images of the manual's names")
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig or shutil.which("kubectl") is None:
        pytest.skip("KUBECONFIG names no cluster, or there is no kubectl")
    cluster = Installation(Path(kubeconfig))
    try:
        if reason := why_not(cluster):
            pytest.skip(reason)
        yield cluster
    finally:
        cluster.close()


def why_not(cluster: Installation) -> str | None:
    try:
        nodes = cluster.core.list_node(_request_timeout=60).items
        namespaces = cluster.core.list_namespace().items
    except (urllib3.exceptions.HTTPError, ApiException) as error:
        return f"the cluster of KUBECONFIG does not answer: {error}"
    if len(nodes) < 2:
        return "the cluster of KUBECONFIG has fewer than two nodes"
    if SYSTEM in {namespace.metadata.name for namespace in namespaces}:
        return f"the cluster of KUBECONFIG has a namespace {SYSTEM} already"
    if missing := set(IMAGES) - set.intersection(*(images_of(node) for node in nodes)):
        return f"the nodes of the cluster of KUBECONFIG have no image {', '.join(sorted(missing))}"
    return None


def images_of(node: client.V1Node) -> set[str]:
    """Names of Docker Hub's library and of this machine, without their tags."""
    names = (name for image in node.status.images or () for name in image.names or ())
    return {match[1] for name in names if (match := NAME.match(name))}
