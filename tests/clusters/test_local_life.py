"""A local worker from its start to its end: processes, exit codes, environment, records."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.engine.ports import StartWorker, StopWorker
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import EndCause, Phase
from tests.clusters.local_world import NODE, LocalWorld, Signpost


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)]
)
def test_an_exit_is_reported_with_the_code_that_a_shell_would_show(world: LocalWorld, script: str, code: int) -> None:
    before = time.time()
    world.shell("1-1", script)
    worker = world.ended("1-1")
    assert (worker.phase, worker.exit_code) == (Phase.EXITED, code)
    assert worker.started_at is not None
    assert worker.ended_at is not None
    assert before <= worker.started_at <= worker.ended_at <= time.time()


def test_a_started_worker_is_seen_at_once_with_what_it_holds(world: LocalWorld) -> None:
    world.apply([world.action("3-2", "sleep", "60", slot_ids=(1, 3))])
    seen = world.cluster.observe().workers[WorkerId("3-2")]
    assert seen.alive
    running = world.running("3-2")
    assert (running.job_id, running.node, running.slot_ids) == (JobId(3), NODE, (1, 3))
    assert (running.cpus, running.memory_mib) == (1.5, 64)
    assert running.started_at is not None


def test_a_repeated_start_starts_nothing(world: LocalWorld, tmp_path: Path) -> None:
    started = tmp_path / "started"
    action = world.action("1-1", "sh", "-c", f"echo x >> {started}")
    world.apply([action, action])
    world.ended("1-1")
    world.apply([action])
    world.shell("1-2", "true")
    world.ended("1-2")
    assert started.read_text() == "x\n"
    assert world.ended("1-1").exit_code == 0


def test_a_forgotten_worker_leaves_no_record(world: LocalWorld) -> None:
    world.shell("1-1", "exit 3")
    world.ended("1-1")
    assert not world.forget("1-1")
    assert WorkerId("1-1") not in world.cluster.observe().workers
    world.shell("1-2", "true")
    world.ended("1-2")
    assert os.listdir(world.state_dir / "workers") == ["1-2"]
    assert not world.forget("1-1")
    assert not world.open().observe().workers.keys() - {WorkerId("1-2")}


def test_a_live_worker_is_not_forgotten(world: LocalWorld) -> None:
    world.start("1-1", "sleep", "60")
    (failure,) = world.forget("1-1")
    assert "alive" in failure.error
    assert world.running("1-1").alive


def test_another_nodes_actions_are_refused(world: LocalWorld) -> None:
    stop = StopWorker(WorkerId("1-1"), NodeName("elsewhere"), 1.0)
    (failure,) = world.apply([stop])
    assert failure.action is stop
    assert "elsewhere" in failure.error


def failing_starts(world: LocalWorld, tmp_path: Path) -> dict[str, tuple[StartWorker, str]]:
    (tmp_path / "plain").write_text("no program")
    (tmp_path / "script").write_text("echo no first line")
    (tmp_path / "script").chmod(0o755)
    (tmp_path / "orphan").write_text("#!/no/such/shell\n")
    (tmp_path / "orphan").chmod(0o755)
    return {
        "program": (
            world.action("1-1", "no-such-program"),
            "program no-such-program is not found in PATH, which is /",
        ),
        "path": (
            world.action("1-1", "./no-such-program", workdir=str(tmp_path)),
            "program ./no-such-program does not exist: correct its path",
        ),
        "below a file": (world.action("1-1", str(tmp_path / "plain" / "x")), "a part of its path is not a directory"),
        "workdir": (
            world.action("1-1", "true", workdir="/no/such/dir"),
            "working directory /no/such/dir does not exist: create it, or give another",
        ),
        "workdir is a file": (world.action("1-1", "true", workdir=str(tmp_path / "plain")), "is not a directory"),
        "permission": (world.action("1-1", str(tmp_path / "plain")), "may not be executed"),
        "directory": (world.action("1-1", str(tmp_path)), "may not be executed"),
        "format": (world.action("1-1", str(tmp_path / "script")), "a script needs a first line"),
        "interpreter": (world.action("1-1", str(tmp_path / "orphan")), "needs an interpreter that does not exist"),
        "name": (world.action("1-1", "./" + "x" * 5000), "has too long a name"),
        "nul": (world.action("1-1", "echo", "a\0b"), "null"),
        "too long": (world.action("1-1", "echo", "x" * 3_000_000), "too long"),
        "checkpoint": (world.action("1-1", "true", env={"SCHED_CHECKPOINT_DIR": "/proc/none"}), "/proc/none"),
    }


_CASES = [
    "program",
    "path",
    "below a file",
    "workdir",
    "workdir is a file",
    "permission",
    "directory",
    "format",
    "interpreter",
    "name",
    "nul",
    "too long",
    "checkpoint",
]


@pytest.mark.parametrize("case", _CASES)
def test_what_cannot_be_started_says_why_in_one_line(world: LocalWorld, tmp_path: Path, case: str) -> None:
    action, reason = failing_starts(world, tmp_path)[case]
    world.apply([action])
    worker = world.ended("1-1")
    assert worker.phase is Phase.LAUNCH_FAILED
    assert worker.exit_code is None
    assert reason in worker.detail
    assert "\n" not in worker.detail
    assert len(worker.detail) < 700
    assert worker.cause is (None if case == "checkpoint" else EndCause.CANNOT_START)
    world.open()
    assert world.ended("1-1") == worker


def test_a_worker_gets_its_own_environment_and_no_setting_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHED_DATABASE_URL", "secret")
    monkeypatch.setenv("UNRELATED", "secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    world = LocalWorld(tmp_path / "state")
    try:
        checkpoint = tmp_path / "state" / "jobs" / "1" / "checkpoint"
        env = {"SCHED_WORKER_ID": "1-1", "SCHED_CHECKPOINT_DIR": str(checkpoint), "LC_ALL": "C", "X": "a b\nc"}
        program = "import json, os; print(json.dumps([dict(os.environ), os.getcwd()]))"
        world.start("1-1", sys.executable, "-c", program, env=env, workdir=str(tmp_path))
        assert world.ended("1-1").exit_code == 0
        seen, folder = json.loads(world.cluster.logs.read(WorkerId("1-1"))[0])
    finally:
        world.tear_down()
    assert env.items() <= seen.items()
    assert folder == str(tmp_path)
    assert checkpoint.is_dir()
    assert seen["PATH"] == os.environ["PATH"]
    assert {"SCHED_DATABASE_URL", "UNRELATED", "CUDA_VISIBLE_DEVICES"}.isdisjoint(seen)


def test_a_worker_leads_its_own_session_with_nothing_open_but_its_output(world: LocalWorld) -> None:
    world.shell("1-1", "read -r _ || echo no input; ls -l /proc/$$/fd; ps -o sid=,pgid=,tty= -p $$; echo $$; sleep 0")
    world.ended("1-1")
    lines = world.cluster.logs.read(WorkerId("1-1"))[0].decode().splitlines()
    assert lines[0] == "no input"
    assert [line.split()[8] for line in lines if " -> " in line] == ["0", "1", "2"]
    assert lines[-2].split() == [lines[-1], lines[-1], "?"]


def test_the_node_is_this_machine(world: LocalWorld) -> None:
    (node,) = world.cluster.observe().nodes.values()
    assert (node.name, node.host, node.up) == (NODE, "127.0.0.1", True)
    assert node.has_gpus or node.slots == 4
    assert node.cpus == len(os.sched_getaffinity(0))
    assert node.memory_mib > 100


def test_a_stop_before_the_start_starts_nothing_or_ends_it(world: LocalWorld) -> None:
    starts = [world.action(f"{job}-1", "sleep", "60") for job in range(1, 41)]
    world.apply([*starts, *(StopWorker(start.worker_id, NODE, 5.0) for start in starts)])
    ended = [world.ended(start.worker_id) for start in starts]
    assert {(worker.phase, worker.exit_code) for worker in ended} == {(Phase.EXITED, 143)}


def test_a_state_directory_may_have_a_path_longer_than_a_socket_address(tmp_path: Path) -> None:
    world = LocalWorld(tmp_path / ("long" * 40) / "state")
    try:
        world.shell("1-1", "exit 4")
        assert world.ended("1-1").exit_code == 4
    finally:
        world.tear_down()


def test_a_thousand_workers_start_and_end(world: LocalWorld, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = [world.action(f"{job}-1", "true") for job in range(1000, 0, -1)]
    began, ended = time.perf_counter(), 0
    for start in (waiting.pop() for _ in range(64)):
        world.apply([start])
    while ended < 1000:
        done = [
            worker
            for worker in world.until(lambda seen: not all(w.alive for w in seen.values())).values()
            if not worker.alive
        ]
        assert {worker.exit_code for worker in done} == {0}
        ended += len(done)
        forgets = [world.forget(worker.id) for worker in done]
        assert not any(forgets)
        world.apply([waiting.pop() for _ in range(min(len(done), len(waiting)))])
    seconds = time.perf_counter() - began
    with capsys.disabled():
        print(f"\n1,000 workers in {seconds:.2f} s: {1000 / seconds:.0f} starts/s")


def test_an_exit_reaches_the_daemon_by_a_notice(
    world: LocalWorld, signpost: Callable[[str], Signpost], capsys: pytest.CaptureFixture[str]
) -> None:
    ends = signpost("ends")
    latencies = []
    for job in range(1, 21):
        world.start(
            f"{job}-1", sys.executable, "-c", f"import time; open({str(ends.path)!r}, 'w').write(str(time.time()))"
        )
        world.ended(f"{job}-1")
        seen_at = time.time()
        latencies.append(seen_at - float(ends.read()))
    with capsys.disabled():
        print(f"\nlast act of a Python worker to its exit seen: median {sorted(latencies)[10] * 1000:.1f} ms")
