"""Scripts of torch and of other frameworks, each on one GPU of its own: by torch's own variables."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from scheduler.clusters.local.gpus import Gpu
from tests.daemon import ROOT, running_daemon
from tests.elastic.jobs import RunningJob

SCRIPTS = [
    ("plain_ddp.py", "--steps", r"(?s)NCCL version.*step 50 of 50 on 1 workers: loss"),
    ("accelerate_digits.py", "--epochs", r"accuracy 0\.[89]\d+ on 1 workers"),
]


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(("script", "option", "said"), SCRIPTS)
def test_its_example_trains(cuda: Gpu, script: str, option: str, said: str, tmp_path: Path) -> None:
    if script.startswith("accelerate") and importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed: pip install -e '.[frameworks]'")
    count = "50" if option == "--steps" else "5"
    command = [sys.executable, str(ROOT / "examples" / script), option, count]
    with running_daemon(tmp_path) as daemon:
        job = RunningJob(daemon, command=command, env={"NCCL_DEBUG": "VERSION"})
        job.wait("ends", lambda: job.show()["state"] == "SUCCEEDED")
        output = job.logs()
    print(output)
    assert re.search(said, output)
