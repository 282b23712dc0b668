"""What one job tells, or is told, ends neither the supervisor nor what is meant for others."""

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.clusters.local.cluster import MESSAGE_CHARACTERS, in_messages
from scheduler.clusters.local.launch import LaunchError
from scheduler.clusters.local.launch_as import Birth, _report
from scheduler.clusters.local.records import Records
from scheduler.clusters.local.wire import Request, connect, encode
from scheduler.clusters.logs.files import LogRange, read_range
from scheduler.clusters.logs.reader import LocalLogs
from scheduler.engine.ports import ClusterAction, ForgetWorker, StartWorker
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import Phase
from tests.eventually import eventually


def told(report: bytes) -> LaunchError | None:
    """What the supervisor understands of it."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.send(report)
    return Birth(1, ours).failure()


@given(message=st.text(st.characters(exclude_categories=["Cs"]), max_size=2000), for_good=st.booleans())
def test_any_reason_is_told_whole_or_cut(message: str, for_good: bool) -> None:
    failure = told(_report(LaunchError(message + "\U0001f600" * 1000, for_good=for_good)))
    assert failure is not None
    assert (str(failure), failure.for_good) == ((message + "\U0001f600" * 1000)[:1000], for_good)


@given(report=st.binary(max_size=100))
def test_what_cannot_be_read_is_a_failure_of_that_worker(report: bytes) -> None:
    assert (told(report) is None) is (report == b"")


def start(number: int, command: Sequence[str]) -> StartWorker:
    node = NodeName("n")
    return StartWorker(
        worker_id=WorkerId(f"1-{number}"),
        job_id=JobId(1),
        nonce="",
        node=node,
        slot_ids=(number,),
        cpus=0.0,
        memory_mib=0,
        command=tuple(command),
        env=(("NAME", "value"),),
        workdir="/",
        grace_seconds=1.0,
        generation=1,
        shared=False,
    )


@given(sizes=st.lists(st.one_of(st.none(), st.integers(0, MESSAGE_CHARACTERS + 1)), max_size=6))
def test_all_actions_are_passed_on_in_order_in_messages_that_are_never_too_long(sizes: list[int | None]) -> None:
    actions: list[ClusterAction] = [
        ForgetWorker(WorkerId(f"2-{k}"), NodeName("n")) if size is None else start(k, ["é" * size])
        for k, size in enumerate(sizes)
    ]
    messages = list(in_messages(actions))
    assert [action for message in messages for action in message] == actions
    for message in messages:
        *before, _ = message
        assert sum(len(a.command[0]) for a in before if isinstance(a, StartWorker)) <= MESSAGE_CHARACTERS


@pytest.mark.parametrize("made", ["directory", "range", "nonsense", "nothing"])
def test_whatever_stands_beside_a_log_costs_no_descriptor(tmp_path: Path, made: str) -> None:
    beside = tmp_path / "logs" / "7" / "7-1.range"
    beside.parent.mkdir(parents=True)
    (beside.parent / "7-1.log").write_bytes(b"hello\n")
    if made == "directory":
        beside.mkdir()
    elif made != "nothing":
        beside.write_text("3 5" if made == "range" else "some text")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        LocalLogs(tmp_path).read(WorkerId("7-1"))
    assert len(os.listdir("/proc/self/fd")) == before
    assert read_range(str(beside.with_suffix(".log"))) == (LogRange(3, 5) if made == "range" else LogRange())


SUPERVISOR = """
import sys
from pathlib import Path
from scheduler.clock import SystemClock
from scheduler.clusters.local.processes import become_subreaper
from scheduler.clusters.local.supervisor import Supervisor
become_subreaper()
Supervisor(Path(sys.argv[1]), SystemClock(), 3.0).run()
"""


def test_the_end_of_a_worker_on_a_full_disk_is_known_once_there_is_room_though_no_daemon_is_there(
    tmp_path: Path,
) -> None:
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)])
    eventually(lambda: (tmp_path / "supervisor.sock").exists(), "it does not listen")
    daemon = connect(tmp_path)
    worker = {"id": "1-1", "job_id": "1", "node": "n", "slot_ids": [0], "cpus": 0.0, "memory_mib": 0, "shared": False}
    program = {"command": ["/bin/sh", "-c", "read line < go"], "env": {"PATH": "/bin"}, "workdir": str(tmp_path)}
    os.mkfifo(tmp_path / "go")
    daemon.sendall(encode(Request(actions=[("start", {**worker, **program, "grace_seconds": 1.0})])))
    eventually(lambda: (tmp_path / "workers/1-1/process").exists(), "it does not start")
    pid = supervisor.pid
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, limits[1]))  # as on a full disk, no file grows
    daemon.close()
    (tmp_path / "go").write_text("on\n")
    [record] = Records(tmp_path).load()
    process = record.process
    assert process is not None
    eventually(lambda: not Path(f"/proc/{process.pid}").exists(), "it does not end")
    resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    assert supervisor.wait(20) == 0
    [record] = Records(tmp_path).load()
    assert record.exit is not None
    assert (record.exit.phase, record.exit.exit_code) == (Phase.EXITED, 0)
