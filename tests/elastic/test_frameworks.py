"""Scripts of torchrun and of other frameworks run unchanged, by torch's own variables."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.daemon import ROOT, running_daemon
from tests.elastic.jobs import RunningJob


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("framework", "runtime"), [("accelerate", "command"), ("lightning", "command"), ("torchrun", "torchrun")]
)
def test_its_example_trains_on_two_workers(framework: str, runtime: str, tmp_path: Path) -> None:
    if runtime == "command" and importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: pip install -e '.[frameworks]'")
    script = ROOT / "examples" / f"{framework}_digits.py"
    command = [sys.executable, str(script), "--epochs", "3"]
    with running_daemon(tmp_path, slots=2) as daemon:
        job = RunningJob(daemon, command=command, runtime=runtime, workers=2, env={"OMP_NUM_THREADS": "1"})
        job.wait("ends", lambda: job.show()["state"] == "SUCCEEDED")
        (accuracy,) = re.findall(r"accuracy ([\d.]+) on 2 workers", job.logs())
        assert float(accuracy) > 0.8
