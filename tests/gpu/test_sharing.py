"""Two jobs on one GPU: they run beside each other until its memory gets short; then the one that shares leaves."""

import sys
from pathlib import Path
from typing import Any

from scheduler.clusters.local.gpus import Gpu
from tests.daemon import Daemon, running_daemon
from tests.elastic.jobs import RunningJob
from tests.gpu.reading import read_gpus

COMPUTING = str(Path(__file__).with_name("computing.py"))
POLICY = {"oversell_memory_max": 0.4, "oversell_cooldown_seconds": 1, "oversell_reopen_seconds": 2}


def node_of(daemon: Daemon) -> dict[str, Any]:
    """The only node."""
    (node,) = daemon.client.get("/v1/nodes").json()["nodes"]
    return dict(node)


def computes_on(job: RunningJob) -> None:
    """Waits until it has done more."""
    before = job.logs().count("multiplications")
    job.wait("computes", lambda: job.logs().count("multiplications") > before)


def test_a_job_that_shares_leaves_a_crowded_gpu_and_comes_back(cuda: Gpu, tmp_path: Path) -> None:
    wanted, nothing = tmp_path / "wanted", tmp_path / "nothing"
    with running_daemon(tmp_path, local={"oversell": 2.0}, policy=POLICY) as daemon:
        slots = node_of(daemon)["slots"]
        owner = RunningJob(daemon, name="owner", command=[sys.executable, COMPUTING, str(wanted)], workers=slots)
        computes_on(owner)
        sharer = RunningJob(daemon, name="sharer", command=[sys.executable, COMPUTING, str(nothing)], oversell=True)
        computes_on(sharer)
        computes_on(owner)
        node = node_of(daemon)
        assert (node["slots_used"], node["extra_slots_used"], node["crowded_slots"]) == (slots, 1, [])
        wanted.write_text(str(read_gpus()[cuda.uuid].memory_bytes // 2 >> 20))
        sharer.wait("has to leave", lambda: sharer.show()["state"] == "QUEUED")
        assert node_of(daemon)["crowded_slots"] == list(range(slots))
        computes_on(owner)
        wanted.write_text("0")
        sharer.wait("runs again", lambda: sharer.show()["state"] == "RUNNING")
        computes_on(sharer)
        assert node_of(daemon)["crowded_slots"] == []
