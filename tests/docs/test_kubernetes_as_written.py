"""The tutorial on Kubernetes from top to bottom as it stands, on a cluster that has the images that it names."""

import os
import re
import shutil

import pytest

from tests.docs.blocks import ROOT
from tests.docs.reader import reader
from tests.docs.test_as_written import follow, skip_where_the_port_is_taken

KUBERNETES = ROOT / "docs" / "tutorial-kubernetes.md"
#: What the tutorial has brought to the cluster when it starts the daemon and its jobs.
IMAGES = ("elastic-gpu-scheduler", "busybox", "elastic-training")
pytestmark = [pytest.mark.slow, pytest.mark.kubernetes, pytest.mark.torch, pytest.mark.timeout(3000)]


def test_the_tutorial_on_kubernetes_is_true_for_a_cluster_with_the_images() -> None:
    skip_where_the_port_is_taken()
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig or shutil.which("kubectl") is None:
        pytest.skip("KUBECONFIG names no cluster, or there is no kubectl")
    with reader(env={"KUBECONFIG": kubeconfig}) as someone:
        look = "kubectl get nodes -o jsonpath='{.items[*].status.images[*].names[*]}'"
        names = re.findall(r"(?:^|\s)(?:docker\.io/(?:library/)?)?([\w-]+)(?=[:@\s]|$)", someone.shell(look)[1])
        if missing := set(IMAGES) - set(names):
            pytest.skip(f"the cluster has no image {', '.join(sorted(missing))}")
        follow(KUBERNETES, someone)
