"""What a commit of a model on the GPU costs."""

import re
from pathlib import Path

import pytest

from scheduler.clusters.local.gpus import Gpu
from tests.elastic.processes import environment, python

LARGE = str(Path(__file__).with_name("large.py"))


@pytest.mark.torch
def test_a_gigabyte_is_committed_in_less_than_a_tenth_of_a_second(cuda: Gpu) -> None:
    with python([LARGE], env=[environment()]) as (alone,):
        output, _ = alone.communicate(timeout=120)
    print(output)
    assert "as committed: True" in output
    found = re.search(r"1024 MiB: commit ([\d.]+) ms", output)
    assert found is not None, output
    assert float(found[1]) < 100.0
