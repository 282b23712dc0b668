"""GPUs are slots: the daemon finds them, a worker sees those of its slots, and how busy they are is measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.clusters.local.gpus import Gpu
from scheduler.clusters.local.nvml import Nvml
from tests.daemon import Daemon, running_daemon
from tests.elastic.jobs import RunningJob
from tests.eventually import eventually
from tests.gpu.reading import read_gpus, read_load

COMPUTING = str(Path(__file__).with_name("computing.py"))
FAILING = str(Path(__file__).with_name("failing.py"))


def metric(daemon: Daemon, name: str) -> float:
    """The sum of its samples."""
    lines = daemon.client.get("/metrics").text.splitlines()
    samples = [line for line in lines if line.startswith((name + "{", name + " "))]
    return sum(float(line.rsplit(" ", 1)[1]) for line in samples)


def test_the_daemon_finds_the_gpus_by_itself(gpus: tuple[Gpu, ...], tmp_path: Path) -> None:
    with running_daemon(tmp_path, slots=7) as daemon:
        (node,) = daemon.client.get("/v1/nodes").json()["nodes"]
        assert node["slots"] == len(gpus)
        assert node["gpu_type"] == gpus[0].name
        assert metric(daemon, "sched_measured_slots") == len(gpus)
        assert f'type="{gpus[0].name}"' in daemon.client.get("/metrics").text


def test_a_worker_sees_the_gpu_of_its_slot_and_how_busy_that_is_is_measured(cuda: Gpu, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted"
    idle = read_load(cuda)
    with running_daemon(tmp_path) as daemon:
        job = RunningJob(daemon, command=[sys.executable, COMPUTING, str(wanted)])
        job.wait("computes", lambda: "multiplications" in job.logs())
        assert f"sees {cuda.uuid}: 1 GPUs" in job.logs()
        job.wait("is seen to be busy", lambda: metric(daemon, "sched_busy_slots") > 0.5)
        busy = read_load(cuda)
        assert busy.memory is not None
        assert idle.memory is not None
        assert busy.memory > idle.memory
        before = busy.memory
        wanted.write_text("8192")
        job.wait("is seen to hold more memory", lambda: (read_load(cuda).memory or 0) > before + 0.02)
        job.cancel()
        job.wait("has left the GPU idle", lambda: metric(daemon, "sched_busy_slots") < 0.1)


def test_a_daemon_whose_mask_names_no_gpu_has_slots_of_the_cpu(
    gpus: tuple[Gpu, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with running_daemon(tmp_path, slots=3) as daemon:
        (node,) = daemon.client.get("/v1/nodes").json()["nodes"]
        assert (node["slots"], node["gpu_type"]) == (3, None)


def test_all_that_is_watched_is_read_of_real_gpus(gpus: tuple[Gpu, ...]) -> None:
    nvml = Nvml()
    try:
        reading = nvml.read()
        assert (reading.trouble, reading.unopened) == ("", ())
        for gpu in reading.gpus.values():
            assert gpu.memory_bytes > 1 << 30
            assert gpu.load.memory is not None
            assert gpu.load.utilization is not None
            assert gpu.fault == ""
        assert nvml.wait(0.0) == ()
        nvml.close()
        assert nvml.read().gpus.keys() == reading.gpus.keys(), "the library can be opened again"
    finally:
        nvml.close()


def test_an_error_that_a_program_causes_is_told_and_closes_no_slot(cuda: Gpu, tmp_path: Path) -> None:
    with running_daemon(tmp_path) as daemon:
        job = RunningJob(daemon, command=[sys.executable, FAILING])
        job.wait("fails", lambda: job.show()["state"] == "FAILED")
        assert "illegal memory access" in job.logs()
        told = eventually(
            lambda: next((line for line in daemon.log().splitlines() if "error of a GPU" in line), None),
            lambda: f"nothing is told of the error: {daemon.log()}",
        )
        print(told)
        assert cuda.uuid in told
        assert "Xid" in told
        (node,) = daemon.client.get("/v1/nodes").json()["nodes"]
        assert node["closed_slots"] == []
        after = RunningJob(daemon, command=["true"], workers=node["slots"])
        after.wait("runs", lambda: after.show()["state"] == "SUCCEEDED")


def test_a_gpu_that_another_process_uses_takes_no_workers_until_it_is_free(cuda: Gpu, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted"
    wanted.write_text("8192")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": cuda.uuid}
    command = [sys.executable, COMPUTING, str(wanted)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert any("multiplications" in line for line in other.stdout)
            listed = {each.pid: each.bytes_held for each in read_gpus()[cuda.uuid].processes}
            if other.pid not in listed:
                pytest.skip("the driver lists processes by numbers of another namespace")
            assert listed[other.pid] >= 8192 << 20
            with running_daemon(tmp_path, local={"foreign_clear_seconds": 1}) as daemon:
                (node,) = daemon.client.get("/v1/nodes").json()["nodes"]
                (closed,) = node["closed_slots"]
                assert (closed["slot"], closed["closure"]) == (0, "FOREIGN")
                assert f"process {other.pid}" in closed["detail"]
                job = RunningJob(daemon, command=["true"], workers=node["slots"])
                job.wait("waits", lambda: job.show()["reason"] == "NODES_UNAVAILABLE")
                other.kill()
                job.wait("runs", lambda: job.show()["state"] == "SUCCEEDED")
        finally:
            other.kill()
