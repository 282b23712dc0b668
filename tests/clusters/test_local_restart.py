"""The daemon or the supervisor dies: no worker does, nothing is started twice, what can be known is known."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest

from scheduler.clusters.local.link import SupervisorLink
from scheduler.clusters.local.processes import STATE_VARIABLE, WORKER_VARIABLE, boot_id, read_process
from scheduler.clusters.local.records import ProcessRecord, Records, WorkerSpec
from scheduler.errors import ClusterError
from scheduler.model.ids import WorkerId
from scheduler.model.observation import Phase
from tests.clusters.local_world import SECONDS_MAX, LocalWorld, Signpost, kill_and_wait, wait_for_end
from tests.clusters.test_local_stop import STUBBORN
from tests.eventually import eventually

Posts = Callable[[str], Signpost]

ROOT = Path(__file__).parent.parent.parent

DAEMON = """
import signal, sys
from pathlib import Path
from queue import Queue
from scheduler.clock import SystemClock
from scheduler.clusters.local.cluster import LocalCluster
from scheduler.config import LocalSettings
from scheduler.engine.ports import StartWorker
cluster = LocalCluster(Path(sys.argv[1]), LocalSettings(slots=4), SystemClock(), supervisor_idle_seconds=5.0)
cluster.apply([
    StartWorker(f"{n}-1", n, "local", (0,), 1.0, 0, ("sh", "-c", script), (), None, 5.0, 1)
    for n, script in enumerate(sys.argv[2:], 1)
])
signal.pause()
"""


@pytest.fixture
def strangers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that no cluster started; ended with the test."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def daemon(state_dir: Path, *scripts: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DAEMON, str(state_dir), *scripts], cwd=ROOT, start_new_session=True)


def test_workers_outlive_a_killed_daemon_and_their_exits_are_known(
    tmp_path: Path, signpost: Posts, strangers: list[subprocess.Popen[bytes]]
) -> None:
    started, go, state_dir = signpost("started"), signpost("go"), tmp_path / "state"
    ends = f"echo $$ > {started.path}; read -r _ < {go.path}; exit 5"
    process = daemon(state_dir, ends)
    strangers.append(process)
    first = os.pidfd_open(int(started.read()))
    process.kill()
    process.wait()
    go.write()
    wait_for_end(first)
    world = LocalWorld(state_dir)
    try:
        worker = world.ended("1-1")
        assert (worker.phase, worker.exit_code) == (Phase.EXITED, 5)
    finally:
        world.tear_down()


def test_a_daemons_terminal_and_files_are_not_the_workers(
    tmp_path: Path, signpost: Posts, strangers: list[subprocess.Popen[bytes]]
) -> None:
    started, go, state_dir = signpost("started"), signpost("go"), tmp_path / "state"
    process = daemon(state_dir, f"echo $$ > {started.path}; read -r _ < {go.path}; exit 5")
    strangers.append(process)
    first = int(started.read())
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in its terminal does
    process.wait()
    world = LocalWorld(state_dir)
    try:
        assert world.running("1-1").alive
        (supervisor,) = world.supervisor_pids()
        assert len({os.getsid(process) for process in (supervisor, first, os.getpid())}) == 3
        for descriptor in (0, 1, 2):
            target = os.readlink(f"/proc/{supervisor}/fd/{descriptor}")
            assert target in ("/dev/null", str(state_dir / "supervisor.log"))
        go.write()
        assert world.ended("1-1").exit_code == 5
    finally:
        world.tear_down()


def test_a_deadline_is_enforced_while_no_daemon_is_there(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    world.shell("1-1", STUBBORN.format(post=ready.path))
    ready.read()
    first = os.pidfd_open(world.first_pid("1-1"))
    world.stop("1-1", 0.2)
    world.cluster.close()
    wait_for_end(first)
    world.open()
    assert world.ended("1-1").exit_code == 137


def test_a_new_supervisor_adopts_what_runs_and_starts_nothing_twice(world: LocalWorld, tmp_path: Path) -> None:
    started = tmp_path / "started"
    action = world.action("1-1", "sh", "-c", f"echo x >> {started}; sleep 60")
    world.apply([action])
    before = world.running("1-1")
    first = world.first_pid("1-1")
    world.shell("2-1", "exit 9")
    world.ended("2-1")
    world.kill_supervisor()
    assert world.running("1-1") == before
    assert world.ended("2-1").exit_code == 9
    world.apply([action])
    assert world.first_pid("1-1") == first
    kill_and_wait(first)
    worker = world.ended("1-1")
    assert (worker.phase, worker.exit_code) == (Phase.LOST, None)
    assert started.read_text() == "x\n"
    assert not world.pids("1-1")


def test_an_adopted_worker_is_stopped_like_any_other(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    world.shell("1-1", f"trap '' TERM; setsid sleep 60 & sleep 60 & {STUBBORN.format(post=ready.path)}")
    world.start("2-1", "sleep", "60")
    ready.read()
    world.running("2-1")
    world.kill_supervisor()
    world.open()
    world.stop("1-1", 0.2)
    world.stop("2-1", 20.0)
    for worker in ("1-1", "2-1"):
        assert world.ended(worker).phase is Phase.LOST
        assert not world.pids(worker)


def test_a_deadline_outlives_its_supervisor(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    world.shell("1-1", STUBBORN.format(post=ready.path))
    ready.read()
    world.stop("1-1", 8.0)
    world.shell("2-1", "true")
    world.ended("2-1")
    world.kill_supervisor()
    assert world.ended("1-1").phase is Phase.LOST
    assert not world.pids("1-1")


def test_one_that_ends_while_no_supervisor_runs_is_lost_and_leaves_nothing(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    world.shell("1-1", f"trap '' TERM; setsid sleep 60 & sleep 60 & echo $$ > {ready.path}; wait")
    first = int(ready.read())
    world.until(lambda workers: workers[WorkerId("1-1")].started_at is not None)  # its process is on record
    world.cluster.close()
    world.kill_supervisor()
    kill_and_wait(first)
    world.open()
    worker = world.ended("1-1")
    assert (worker.phase, worker.exit_code) == (Phase.LOST, None)
    assert "no supervisor" in worker.detail
    assert not world.pids("1-1")


def test_one_forked_but_not_yet_on_record_is_found_by_its_environment(world: LocalWorld) -> None:
    world.start("1-1", "sleep", "60")
    world.running("1-1")
    first = world.first_pid("1-1")
    world.cluster.close()
    world.kill_supervisor()
    (world.state_dir / "workers" / "1-1" / "process").unlink()
    world.open()
    world.running("1-1")
    world.start("1-1", "sleep", "60")
    world.stop("1-1", 20.0)
    assert world.ended("1-1").phase is Phase.LOST
    assert first not in world.pids()


def test_one_that_may_have_been_forked_is_never_started_again(world: LocalWorld, tmp_path: Path) -> None:
    started = tmp_path / "started"
    world.shell("1-1", f"echo x >> {started}")
    world.ended("1-1")
    world.cluster.close()
    world.kill_supervisor()
    for part in ("process", "exit"):
        (world.state_dir / "workers" / "1-1" / part).unlink()
    world.open()
    world.shell("1-1", f"echo x >> {started}")
    assert world.ended("1-1").phase is Phase.LOST
    assert started.read_text() == "x\n"


@pytest.mark.parametrize(("changed", "detail"), [("start_ticks", "no supervisor"), ("boot_id", "restarted")])
def test_another_process_with_the_pid_on_record_is_left_alone(
    world: LocalWorld, strangers: list[subprocess.Popen[bytes]], changed: str, detail: str
) -> None:
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    strangers.append(stranger)
    process = read_process(stranger.pid)
    assert process is not None
    world.start("1-1", "sleep", "60")
    world.running("1-1")
    first = world.first_pid("1-1")
    world.cluster.close()
    world.kill_supervisor()
    kill_and_wait(first)
    path = world.state_dir / "workers" / "1-1" / "process"
    record = {**json.loads(path.read_text()), "pid": stranger.pid, "start_ticks": process.start_ticks}
    record[changed] = 1 if changed == "start_ticks" else "another"
    path.write_text(json.dumps(record))
    world.open()
    worker = world.ended("1-1")
    assert worker.phase is Phase.LOST
    assert detail in worker.detail
    assert stranger.poll() is None


def test_torn_records_are_survived(world: LocalWorld) -> None:
    world.shell("1-1", "exit 1")
    world.ended("1-1")
    world.cluster.close()
    world.kill_supervisor()
    for worker, part, text in (("2-1", "spec", "{"), ("3-1", "spec", ""), ("1-1", "stop", '{"boot')):
        folder = world.state_dir / "workers" / worker
        folder.mkdir(exist_ok=True)
        (folder / part).write_text(text)
    world.open()
    assert world.cluster.observe().workers.keys() == {WorkerId("1-1")}
    world.shell("2-1", "exit 2")
    assert world.ended("2-1").exit_code == 2


def test_the_newest_daemon_controls_the_cluster(world: LocalWorld) -> None:
    former, other = world.cluster, LocalWorld(world.state_dir)
    world.cluster, world.changed = other.cluster, other.changed
    world.start("1-1", "sleep", "60")
    world.running("1-1")

    def told() -> str:
        try:
            former.observe()
        except ClusterError as error:
            return str(error)
        return ""

    eventually(lambda: "another daemon" in told(), "the former one does not learn of it", SECONDS_MAX)
    (failure,) = former.apply([world.action("2-1", "true")])
    assert "no connection" in failure.error
    former.close()
    assert world.running("1-1").alive


def test_a_supervisor_with_nothing_to_do_ends_by_itself(tmp_path: Path) -> None:
    world = LocalWorld(tmp_path / "state")
    world.cluster.shutdown()
    cluster = world.open(idle_seconds=0.1)
    world.shell("1-1", "exit 3")
    world.ended("1-1")
    (pid,) = world.supervisor_pids()
    pidfd = os.pidfd_open(pid)
    cluster.close()
    wait_for_end(pidfd)
    world.open()
    assert world.ended("1-1").exit_code == 3
    world.tear_down()


def test_the_supervisor_says_nothing_when_all_is_well(world: LocalWorld) -> None:
    world.shell("1-1", "true")
    world.ended("1-1")
    world.kill_supervisor()
    world.open()
    assert (world.state_dir / "supervisor.log").read_text() == ""


def test_a_directory_that_was_moved_under_its_workers_is_refused_until_it_is_back(tmp_path: Path) -> None:
    """What is started from there could not be recorded."""
    state, moved = tmp_path / "state", tmp_path / "moved"
    world = LocalWorld(state)
    try:
        world.start("1-1", "sleep", "60")
        world.running("1-1")
        world.cluster.close()
        state.rename(moved)
        reasons: Queue[str] = Queue()
        link = SupervisorLink(moved, (1 << 20, 1), 5.0, lambda notice: None, reasons.put)
        reason = reasons.get(timeout=SECONDS_MAX)
        link.close()
        assert f"workers run that were started at {state}" in reason
        assert f"move {moved} back" in reason
        moved.rename(state)
        world.open()
        assert world.running("1-1").alive
    finally:
        world.tear_down()


def test_a_directory_that_was_moved_without_workers_is_as_good_as_before(tmp_path: Path) -> None:
    """The supervisor of before lives on for a while."""
    LocalWorld(tmp_path / "state").cluster.close()
    (tmp_path / "state").rename(tmp_path / "moved")
    world = LocalWorld(tmp_path / "moved")
    try:
        world.start("1-1", "sleep", "60")
        assert world.running("1-1").alive
    finally:
        world.tear_down()


#: Prints how many of the recorded workers count as running, or the error, where few descriptors are left.
RECOVERING = """
import os, resource, sys
from pathlib import Path
from scheduler.clusters.local.recovery import recover

taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(50)]
resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 4, taken[-1] + 4))
try:
    print(sum(worker.first_alive for worker in recover(Path(sys.argv[1]))))
except OSError as error:
    print(error.strerror)
"""


def test_a_supervisor_without_descriptors_takes_no_running_worker_for_an_ended_one(
    tmp_path: Path, strangers: list[subprocess.Popen[bytes]]
) -> None:
    records = Records(tmp_path)
    for number in range(8):
        env = {STATE_VARIABLE: str(tmp_path), WORKER_VARIABLE: f"{number}-1"}
        strangers.append(subprocess.Popen(["/bin/sleep", "1000"], env=env))
        records.create(WorkerSpec(f"{number}-1", f"{number}", "local", (0,), 1.0, 0, 5.0))
        process = read_process(strangers[-1].pid)
        assert process is not None
        records.save(f"{number}-1", ProcessRecord(process.pid, process.start_ticks, boot_id(), 0.0))
    command = [sys.executable, "-c", RECOVERING, str(tmp_path)]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    assert told == "Too many open files"
    assert all(process.poll() is None for process in strangers)


def test_a_daemon_with_many_connections_shuts_its_supervisor_down(world: LocalWorld) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        world.cluster.shutdown()
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
