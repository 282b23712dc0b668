"""A real daemon on machines with GPUs that are not what they seem, told by a library in the place of NVIDIA's."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calls import Call
from tests.daemon import Daemon, running_daemon
from tests.elastic.jobs import RunningJob
from tests.eventually import eventually
from tests.nvml.machine import GIB, FakeGpu, FakeMachine, Process

MakeMachine = Callable[..., FakeMachine]

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-PCIE-40GB"
A, B = (FakeGpu(f"GPU-{letter * 4}", H100) for letter in "ab")
C, D = (FakeGpu(f"GPU-{letter * 4}", A100, memory=40 * GIB) for letter in "cd")
#: Tells what it sees, and runs on.
COMMAND = ["sh", "-c", "echo sees $CUDA_VISIBLE_DEVICES; exec sleep 600"]


@contextmanager
def daemon_on(machine: FakeMachine, tmp_path: Path, **local: Any) -> Iterator[Daemon]:
    """A daemon on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in machine.environment.items():
            patch.setenv(name, value)
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        with running_daemon(tmp_path, local={"foreign_clear_seconds": 1, **local}) as daemon:
            yield daemon


@contextmanager
def ended_at_last(command: list[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """A process of somebody else."""
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


def nodes(daemon: Daemon) -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in daemon.client.get("/v1/nodes").json()["nodes"]}


def told(daemon: Daemon, kind: str, cause: str) -> dict[str, Any]:
    """The first such event."""
    return next(event for event in daemon.events() if (event["kind"], event["cause"]) == (kind, cause))


def troubles(daemon: Daemon) -> list[str]:
    return list(daemon.client.get("/v1/cluster").json()["troubles"])


def slots_of(job: RunningJob) -> list[tuple[str, int]]:
    """Nodes and slots of its workers."""
    workers = [worker for worker in job.show()["live_workers"] if worker["leave_reason"] is None]
    return sorted((worker["node"], slot) for worker in workers for slot in worker["slot_ids"])


@pytest.fixture
def sched(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What the command prints."""

    def call(daemon: Daemon, *words: str) -> str:
        monkeypatch.setenv("SCHED_URL", daemon.url)
        done = Call.run(words, capsys).ok()
        return " ".join((done.out + done.err).split())

    return call


def test_a_job_does_not_go_to_a_gpu_that_others_use_until_it_is_free(
    gpu_machine: MakeMachine, tmp_path: Path, sched: Callable[..., str]
) -> None:
    with ended_at_last(["sleep", "600"]) as other:
        machine = gpu_machine(FakeGpu("GPU-aaaa", H100, processes=(Process(other.pid, 40 * GIB),)), B)
        with daemon_on(machine, tmp_path) as daemon:
            closed = told(daemon, "NODE_SLOTS_CLOSED", "FOREIGN")
            assert closed["detail"] == f"slot 0: used by process {other.pid} (sleep)"
            first = RunningJob(daemon, name="first", command=COMMAND)
            first.wait("runs", lambda: "sees" in first.logs())
            assert "sees GPU-bbbb" in first.logs()
            second = RunningJob(daemon, name="second", command=COMMAND)
            second.wait("waits", lambda: second.show()["reason"] == "INSUFFICIENT_SLOTS")
            assert nodes(daemon)["local"]["slots_foreign"] == 1
            assert "1/2 (1 foreign)" in sched(daemon, "nodes")
            assert f"used by process {other.pid} (sleep)" in sched(daemon, "explain", "second")
            assert f'sched_slots{{node="local",type="{H100}",state="foreign"}} 1' in daemon.client.get("/metrics").text
            other.kill()
            machine.has(A, B)
            second.wait("runs", lambda: "sees GPU-aaaa" in second.logs())
            assert told(daemon, "NODE_SLOTS_OPENED", "FOREIGN")["detail"] == "slot 0"


def test_a_gpu_that_falls_off_the_bus_is_emptied_and_used_again_when_a_user_says_so(
    gpu_machine: MakeMachine, tmp_path: Path, sched: Callable[..., str]
) -> None:
    machine = gpu_machine(A, B)
    with daemon_on(machine, tmp_path) as daemon:
        job = RunningJob(daemon, name="train", command=COMMAND)
        job.wait("runs", lambda: slots_of(job) == [("local", 0)])
        machine.xid("GPU-aaaa", 13)
        machine.xid("GPU-aaaa", 79)
        closed = told(daemon, "NODE_SLOTS_CLOSED", "UNHEALTHY")
        assert closed["detail"] == "slot 0: Xid 79: the GPU has fallen off the bus; workers there are moved off"
        job.wait("moved", lambda: slots_of(job) == [("local", 1)])
        shown = job.show()
        assert (shown["retries_used"], shown["attempt"]) == (0, 2)
        other = RunningJob(daemon, name="other", command=COMMAND)
        other.wait("waits", lambda: other.show()["state"] == "QUEUED" and other.show()["reason"] is not None)
        daemon.restart()
        assert nodes(daemon)["local"]["closed_slots"] == [
            {"slot": 0, "closure": "UNHEALTHY", "detail": "Xid 79: the GPU has fallen off the bus"}
        ]
        assert "local slot 0: UNHEALTHY: Xid 79" in sched(daemon, "nodes")
        assert "sched uncordon local" in sched(daemon, "explain", "other")
        sched(daemon, "uncordon", "local")
        other.wait("runs", lambda: slots_of(other) == [("local", 0)])
        kinds = [event["kind"] for event in daemon.client.get("/v1/events", params={"limit": 1000}).json()["events"]]
        assert kinds.count("NODE_SLOTS_CLOSED") == 1


def test_jobs_run_on_gpus_of_the_type_that_they_ask_for(gpu_machine: MakeMachine, tmp_path: Path) -> None:
    with daemon_on(gpu_machine(A, C, B, D), tmp_path) as daemon:
        found = nodes(daemon)
        assert {name: (node["gpu_type"], node["slots"], node["host"]) for name, node in found.items()} == {
            "local": (H100, 2, "127.0.0.1"),
            "local-NVIDIA-A100-PCIE-40GB": (A100, 2, "127.0.0.1"),
        }
        cores = os.cpu_count() or 1
        assert [node["cpus"] for node in found.values()] == [cores / 2, cores / 2]
        both = RunningJob(daemon, name="both", command=COMMAND, workers=2, gpu_type=A100)
        one = RunningJob(daemon, name="one", command=COMMAND, gpu_type=H100)
        any_type = RunningJob(daemon, name="any", command=COMMAND)
        for job, devices in ((both, {"GPU-cccc", "GPU-dddd"}), (one, {"GPU-aaaa"}), (any_type, {"GPU-bbbb"})):
            job.wait("runs", lambda job=job: "sees" in job.logs())  # type: ignore[misc]
            job.wait("sees its GPUs", lambda job=job, devices=devices: seen_by(job) == devices)  # type: ignore[misc]
        more = RunningJob(daemon, name="more", command=COMMAND, gpu_type=A100)
        more.wait("waits", lambda: more.show()["reason"] == "INSUFFICIENT_SLOTS")
        one.cancel()
        any_type.cancel()
        one.wait("ends", lambda: one.show()["state"] == "CANCELLED")
        any_type.wait("ends", lambda: any_type.show()["state"] == "CANCELLED")
        assert more.show()["state"] == "QUEUED", "free GPUs of another type are none of its"
        both.cancel()
        more.wait("runs", lambda: seen_by(more) <= {"GPU-cccc", "GPU-dddd"} != set())


def seen_by(job: RunningJob) -> set[str]:
    """GPUs that its workers see."""
    lines = [line for line in job.logs().splitlines() if line.startswith("sees ")]
    return {uuid for line in lines for uuid in line.removeprefix("sees ").split(",")}


def test_a_driver_that_goes_and_comes_back_harms_neither_daemon_nor_workers(
    gpu_machine: MakeMachine, tmp_path: Path
) -> None:
    machine = gpu_machine(A)
    with daemon_on(machine, tmp_path) as daemon:
        job = RunningJob(daemon, name="train", command=COMMAND)
        job.wait("runs", lambda: "sees GPU-aaaa" in job.logs())
        machine.unload()
        closed = told(daemon, "NODE_SLOTS_CLOSED", "UNREADABLE")
        assert closed["detail"] in (
            "slot 0: NVML: Driver Not Loaded; workers there go on",
            "slot 0: NVML: Unknown Error; workers there go on",
        )
        eventually(lambda: troubles(daemon), "nobody is told")
        assert troubles(daemon)[0].startswith("GPUs cannot be read: NVML: ")
        daemon.restart()
        assert [slot["closure"] for slot in nodes(daemon)["local"]["closed_slots"]] == ["UNREADABLE"]
        machine.has(A, B)
        machine.load()
        assert told(daemon, "NODE_SLOTS_OPENED", "UNREADABLE")["detail"] == "slot 0"
        assert told(daemon, "NODE_RESIZED", "OBSERVED")["detail"] == "1 -> 2 slots"
        shown = job.show()
        assert (shown["state"], shown["attempt"], slots_of(job)) == ("RUNNING", 1, [("local", 0)])
        late = RunningJob(daemon, name="late", command=COMMAND)
        late.wait("runs on the GPU that came", lambda: "sees GPU-bbbb" in late.logs())
        machine.has(B)
        job.wait("moves off what is gone", lambda: job.show()["state"] == "QUEUED")
        gone = told(daemon, "NODE_SLOTS_CLOSED", "UNHEALTHY")
        assert gone["detail"] == "slot 0: NVML lists GPU-aaaa no more; workers there are moved off"
