"""Scripts of torchrun and of other frameworks run unchanged, by torch's own variables."""

import importlib.util
import re
import sys

import pytest

from tests.daemon import ROOT, Daemon
from tests.elastic.jobs import RunningJob

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("framework", "runtime"),
    [
        pytest.param("accelerate", "command", marks=pytest.mark.slow),
        pytest.param("lightning", "command", marks=pytest.mark.slow),
        ("torchrun", "torchrun"),
    ],
)
def test_its_example_trains_on_two_workers(framework: str, runtime: str, daemon: Daemon) -> None:
    if runtime == "command" and importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: pip install -e '.[frameworks]'")
    script = ROOT / "examples" / f"{framework}_digits.py"
    command = [sys.executable, str(script), "--epochs", "3"]
    job = RunningJob(daemon, command=command, runtime=runtime, workers=2, env={"OMP_NUM_THREADS": "1"})
    job.wait("ends", lambda: job.show()["state"] == "SUCCEEDED")
    (accuracy,) = re.findall(r"accuracy ([\d.]+) on 2 workers", job.logs())
    assert float(accuracy) > 0.8


def test_an_ordinary_script_of_torch_trains_on_two_workers(daemon: Daemon) -> None:
    command = [sys.executable, str(ROOT / "examples" / "plain_ddp.py"), "--steps", "50"]
    job = RunningJob(daemon, command=command, workers=2, env={"OMP_NUM_THREADS": "1"})
    job.wait("ends", lambda: job.show()["state"] == "SUCCEEDED")
    losses = re.findall(r"step (\d+) of 50 on 2 workers: loss ([\d.]+)", job.logs())
    assert [int(step) for step, _ in losses] == [10, 20, 30, 40, 50]
    assert float(losses[-1][1]) < 0.1 * float(losses[0][1])
