"""The gradient noise under DistributedDataParallel on the GPU, over NCCL and over gloo, and what gloo has forgotten."""

import pytest

from scheduler.clusters.local.gpus import Gpu
from tests.elastic.test_old_groups import frees_itself
from tests.elastic.test_parallel import MEASURED, measures_as_averaging, train_both


@pytest.mark.torch
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("size", "hosts", "used"), [(1, "one", "nccl"), (3, "one", "gloo"), (3, "several", "nccl")])
def test_ddp_measures_what_averaging_does(cuda: Gpu, size: int, hosts: str, used: str) -> None:
    ranks = train_both(size, *MEASURED, DEVICE="cuda", HOSTS=hosts)
    assert all(f"cuda:{used}" in found[kind]["backends"][0] for found in ranks for kind in MEASURED)
    measures_as_averaging(size, ranks)


@pytest.mark.torch
def test_a_backward_pass_that_waits_for_what_gloo_has_forgotten_ends_when_the_group_is_shut(cuda: Gpu) -> None:
    frees_itself(2, "cuda")
