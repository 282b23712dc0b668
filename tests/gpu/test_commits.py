"""A large model on the GPU is committed."""

from pathlib import Path

import pytest

from scheduler.clusters.local.gpus import Gpu
from tests.elastic.processes import environment, python

LARGE = str(Path(__file__).with_name("large.py"))


@pytest.mark.torch
def test_a_gigabyte_is_committed_and_comes_back_as_it_was(cuda: Gpu) -> None:
    with python([LARGE], env=[environment()]) as (alone,):
        output, _ = alone.communicate(timeout=120)
    print(output)
    assert "as committed: True" in output
