"""Workers that run as the users of their jobs, with real users: what they get, and what a hostile one cannot reach."""

import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from scheduler.clusters.local.accounts import Accounts
from scheduler.clusters.local.processes import read_process
from scheduler.clusters.local.wire import PROTOCOL, Notice, encode, listen
from scheduler.config import LocalSettings, SystemSettings
from scheduler.model.ids import WorkerId
from scheduler.model.observation import EndCause, Phase
from tests.clusters.local_world import LocalWorld, Signpost, kill_and_wait, wait_for_end
from tests.eventually import eventually
from tests.logins import Login, needs_logins, new_login, open_directory

pytestmark = needs_logins

TOLD = "import json, os; print(json.dumps([os.getresuid(), os.getresgid(), sorted(os.getgroups()), dict(os.environ)]))"


class Machine:
    """A cluster of root's with two users."""

    def __init__(self, directory: Path, ann: Login, bob: Login) -> None:
        self.directory, self.ann, self.bob = directory, ann, bob
        state = directory / "state"
        state.mkdir()
        state.chmod(0o711)
        accounts = Accounts.of(SystemSettings())
        self.world = LocalWorld(state, LocalSettings(slots=4, log_bytes_max=4096, log_files_max=1), accounts)
        self._posts: list[Signpost] = []

    def post(self, name: str) -> Signpost:
        """A signpost that every user can use."""
        self._posts.append(Signpost(self.directory / name))
        (self.directory / name).chmod(0o666)
        return self._posts[-1]

    def output(self, worker: str) -> str:
        return self.world.cluster.logs.read(WorkerId(worker))[0].decode()

    def log_dir(self, job: str) -> Path:
        return self.world.state_dir / "logs" / job

    def close(self) -> None:
        self.world.tear_down()
        for post in self._posts:
            post.close()


@pytest.fixture(scope="module")
def logins() -> Iterator[tuple[Path, Login, Login]]:
    with open_directory() as homes, new_login(homes) as ann, new_login(homes) as bob:
        yield homes, ann, bob


@pytest.fixture
def machine(logins: tuple[Path, Login, Login]) -> Iterator[Machine]:
    _, ann, bob = logins
    with open_directory() as directory:
        machine = Machine(directory, ann, bob)
        try:
            yield machine
        finally:
            machine.close()


def test_a_worker_is_its_user_in_every_way_that_a_login_is(machine: Machine) -> None:
    machine.world.start("1-1", "python3", "-c", TOLD, user=machine.ann.name)
    assert machine.world.ended("1-1").exit_code == 0, machine.output("1-1")
    uids, gids, groups, env = json.loads(machine.output("1-1"))
    ann = machine.ann
    assert set(uids) == {ann.uid}
    assert set(gids) == {ann.gid}
    assert groups == sorted(set(ann.groups)) != [ann.gid]
    assert (env["HOME"], env["USER"], env["LOGNAME"]) == (str(ann.home), ann.name, ann.name)
    assert env["SHELL"] == "/bin/bash"
    machine.world.shell("2-1", "pwd; umask; ulimit -Sn; touch here; ps -o pid=,pgid=,sid= $$", user=ann.name)
    assert machine.world.ended("2-1").exit_code == 0
    where, umask, files, ids = machine.output("2-1").splitlines()
    assert (where, umask, int(files) <= 1024) == (str(ann.home), "0022", True)
    assert len(set(ids.split())) == 1, "its own session and group"
    assert (ann.home / "here").stat().st_uid == ann.uid


def test_each_job_has_directories_that_its_user_owns_and_nobody_else_enters(machine: Machine) -> None:
    checkpoint = machine.world.state_dir / "jobs" / "1" / "checkpoint"
    write = 'echo kept > "$SCHED_CHECKPOINT_DIR/state"; echo said'
    machine.world.start("1-1", "sh", "-c", write, env={"SCHED_CHECKPOINT_DIR": str(checkpoint)}, user=machine.ann.name)
    assert machine.world.ended("1-1").exit_code == 0
    own = [machine.log_dir("1"), machine.log_dir("1") / "1-1.log", checkpoint.parent, checkpoint, checkpoint / "state"]
    for path in own:
        assert path.stat().st_uid == machine.ann.uid, path
    for path in (machine.log_dir("1"), checkpoint.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert machine.ann.may_read(own) == [str(path) for path in own]
    assert machine.bob.may_read(own) == []
    records = machine.world.state_dir / "workers"
    assert machine.ann.may_read([records, *records.rglob("*")]) == []
    assert machine.ann.may_read([machine.log_dir("1").parent, checkpoint.parent.parent]) == []
    assert machine.output("1-1") == "said\n", "root reads it for the user"


def test_the_environment_of_a_worker_is_not_for_others(machine: Machine) -> None:
    ready = machine.post("ready")
    machine.world.start(
        "1-1", "sh", "-c", f"echo up > {ready.path}; sleep 600", env={"SCHED_TOKEN": "t"}, user=machine.ann.name
    )
    ready.read()
    environ = f"/proc/{machine.world.first_pid('1-1')}/environ"
    assert b"SCHED_TOKEN=t" in machine.ann.run("cat", environ).stdout.encode()
    assert machine.bob.run("cat", environ, check=False).returncode != 0


@pytest.mark.parametrize("restarted", [False, True], ids=["same supervisor", "next supervisor"])
def test_a_worker_that_ignores_sigterm_is_killed_with_what_left_its_group(machine: Machine, restarted: bool) -> None:
    ready = machine.post("ready")
    script = f"trap '' TERM; setsid sleep 600 & sleep 600 & echo up > {ready.path}; while :; do sleep 60; done"
    machine.world.shell("1-1", script, user=machine.ann.name)
    machine.world.shell("2-1", "sleep 600", user=machine.bob.name)
    ready.read()
    machine.world.running("2-1")  # it is no copy of the supervisor any more
    assert len(machine.world.pids("1-1")) >= 3
    if restarted:
        machine.world.kill_supervisor()
        machine.world.open()
        machine.world.running("1-1")
    machine.world.stop("1-1", 0.2)
    worker = machine.world.ended("1-1")
    assert (worker.phase, worker.exit_code) == ((Phase.LOST, None) if restarted else (Phase.EXITED, 137))
    assert not machine.world.pids("1-1")
    assert machine.world.pids("2-1"), "that of somebody else goes on"


def test_sigterm_reaches_a_worker_of_a_user(machine: Machine) -> None:
    ready = machine.post("ready")
    machine.world.shell(
        "1-1", f"trap 'exit 64' TERM; echo up > {ready.path}; while :; do sleep 0.05; done", machine.ann.name
    )
    ready.read()
    machine.world.stop("1-1", 600.0)
    assert machine.world.ended("1-1").exit_code == 64


def test_what_hides_from_its_worker_ends_with_the_last_worker_of_its_user(machine: Machine) -> None:
    ready, go = machine.post("ready"), machine.post("go")
    hidden = f"setsid env -i sh -c 'echo $$ > {ready.path}; exec sleep 600' > /dev/null 2>&1 &"
    machine.world.shell("2-1", "sleep 600", user=machine.bob.name)
    machine.world.shell("1-1", f"({hidden}); read -r _ < {go.path}", user=machine.ann.name)
    pidfd = os.pidfd_open(int(ready.read()))
    go.write()
    machine.world.ended("1-1")
    wait_for_end(pidfd)
    assert machine.world.running("2-1")


def test_nobody_passes_a_process_off_as_the_worker_of_somebody_else(machine: Machine) -> None:
    world, state = machine.world, str(machine.world.state_dir)
    world.shell("1-1", "sleep 600", user=machine.ann.name)
    first = world.first_pid("1-1")
    forged = machine.bob.start("sleep", "600", env={"SCHED_LOCAL_STATE": state, "SCHED_WORKER_ID": "1-1"})
    try:
        world.kill_supervisor()
        kill_and_wait(first)
        # As where the supervisor died before it had recorded the process.
        (world.state_dir / "workers" / "1-1" / "process").unlink()
        world.open()
        worker = world.ended("1-1")
        assert worker.phase is Phase.LOST
        assert forged.poll() is None, "nor does the worker's end reach it"
    finally:
        forged.kill()
        forged.wait()


def plant_link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def plant_hard_link(path: Path, target: Path) -> None:
    os.link(target, path)


def plant_pipe(path: Path, target: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [plant_link, plant_hard_link, plant_pipe])
def test_nothing_that_a_user_puts_in_place_of_its_log_is_read_or_written(
    machine: Machine, plant: Callable[[Path, Path], None]
) -> None:
    secret = machine.directory / "secret"
    secret.write_text("of root\n" * 10_000)
    secret.chmod(0o600)
    ready, go = machine.post("ready"), machine.post("go")
    script = f"echo up > {ready.path}; read -r _ < {go.path}; yes | head -c 200000"
    machine.world.shell("1-1", script, user=machine.ann.name)
    ready.read()
    log = machine.log_dir("1") / "1-1.log"
    log.unlink()
    plant(log, secret)
    plant(log.with_suffix(".range"), secret)
    plant(log.with_suffix(".range.new"), secret)
    plant(log.with_name("1-2.log"), secret)
    assert machine.output("1-1") == ""
    go.write()
    assert machine.world.ended("1-1").exit_code == 0
    machine.world.shell("1-2", "echo late", user=machine.ann.name)
    late = machine.world.ended("1-2")
    assert (late.phase, late.cause) == (Phase.LAUNCH_FAILED, None)
    machine.world.cluster.logs.of_job("1")
    assert secret.read_text() == "of root\n" * 10_000
    assert (secret.stat().st_uid, stat.S_IMODE(secret.stat().st_mode)) == (0, 0o600)


def test_a_log_is_trimmed_in_a_directory_of_its_user(machine: Machine) -> None:
    secret = machine.directory / "secret"
    secret.write_text("of root\n")
    ready, go = machine.post("ready"), machine.post("go")
    machine.world.shell(
        "1-1", f"echo up > {ready.path}; read -r _ < {go.path}; yes | head -c 200000", user=machine.ann.name
    )
    ready.read()
    (machine.log_dir("1") / "1-1.range.new").symlink_to(secret)
    go.write()
    machine.world.ended("1-1")
    [log] = eventually(
        lambda: [each for each in machine.world.cluster.logs.of_job("1") if each.start > 0], "it is not trimmed"
    )
    assert log.end == 200_000
    assert secret.read_text() == "of root\n"


def test_a_checkpoint_directory_is_never_given_away_through_a_link(machine: Machine) -> None:
    of_root = machine.directory / "of-root"
    of_root.mkdir(0o700)
    checkpoint = machine.world.state_dir / "jobs" / "1" / "checkpoint"
    env = {"SCHED_CHECKPOINT_DIR": str(checkpoint)}
    script = f'rmdir "{checkpoint}"; ln -s {of_root}/new "{checkpoint}"'
    machine.world.start("1-1", "sh", "-c", script, env=env, user=machine.ann.name)
    assert machine.world.ended("1-1").exit_code == 0
    machine.world.start("1-2", "true", env=env, user=machine.ann.name)
    worker = machine.world.ended("1-2")
    assert worker.phase is Phase.LAUNCH_FAILED
    assert "checkpoint" in worker.detail
    assert (of_root.stat().st_uid, list(of_root.iterdir())) == (0, [])


def test_the_directory_of_another_users_job_is_refused(machine: Machine) -> None:
    machine.world.shell("1-1", "true", user=machine.ann.name)
    machine.world.ended("1-1")
    machine.world.shell("1-2", "true", user=machine.bob.name)
    worker = machine.world.ended("1-2")
    assert (worker.phase, "belongs to another user" in worker.detail) == (Phase.LAUNCH_FAILED, True)


def test_a_directory_that_the_user_may_not_enter_is_refused_with_its_name(machine: Machine) -> None:
    of_root = machine.directory / "of-root"
    of_root.mkdir(0o700)
    machine.world.start("1-1", "true", workdir=str(of_root), user=machine.ann.name)
    worker = machine.world.ended("1-1")
    assert (worker.phase, worker.cause, worker.exit_code) == (Phase.LAUNCH_FAILED, EndCause.CANNOT_START, None)
    assert worker.detail == (
        f"working directory {of_root} may not be entered by user {machine.ann.name}: "
        "change its permissions, or give another"
    )


def test_a_program_that_only_root_may_execute_is_refused(machine: Machine) -> None:
    program = machine.directory / "of-root"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    machine.world.start("1-1", str(program), user=machine.ann.name)
    assert machine.world.ended("1-1").detail.startswith(f"program {program} may not be executed")


def test_a_worker_without_an_account_is_not_started_and_says_why(machine: Machine) -> None:
    refused = {
        "nobody-such": "has no account",
        "root": "never run as root",
        "daemon": "system account",
        "": "no account",
    }
    for number, (user, why) in enumerate(refused.items(), 1):
        machine.world.shell(f"{number}-1", f"touch {machine.directory}/ran", user=user)
        worker = machine.world.ended(f"{number}-1")
        assert (worker.phase, worker.cause) == (Phase.LAUNCH_FAILED, EndCause.NO_ACCOUNT)
        assert why in worker.detail
    assert not (machine.directory / "ran").exists()


def test_a_supervisor_that_knows_no_users_is_given_no_workers(logins: tuple[Path, Login, Login]) -> None:
    """It would start them as root. The words on the socket are those of an older version."""
    _, ann, _ = logins
    with ExitStack() as stack:
        state = Path(stack.enter_context(TemporaryDirectory()))
        listener = stack.enter_context(listen(state))
        links: list[socket.socket] = []

        def serve() -> None:
            links.append(listener.accept()[0])
            links[0].sendall(encode(Notice(protocol=PROTOCOL, pid=os.getpid(), workers=[])))

        older = threading.Thread(target=serve)
        older.start()
        world = LocalWorld(state, accounts=Accounts.of(SystemSettings()))
        stack.callback(world.cluster.close)
        older.join()
        stack.callback(links[0].close)
        [refused] = world.apply([world.action("1-1", "true", user=ann.name)])
        assert "older version, which starts nothing as its user" in refused.error
        assert not world.cluster.observe().workers


def test_a_worker_outlives_its_supervisor_and_the_next_one_knows_it(machine: Machine) -> None:
    ready = machine.post("ready")
    machine.world.shell("1-1", f"echo up > {ready.path}; sleep 600", user=machine.ann.name)
    ready.read()
    first = machine.world.first_pid("1-1")
    machine.world.kill_supervisor()
    machine.world.open()
    assert machine.world.running("1-1").phase is Phase.RUNNING
    assert read_process(first) is not None
    machine.world.stop("1-1", 0.0)
    machine.world.ended("1-1")


def test_who_may_have_jobs_follows_the_machine_and_the_settings(
    tmp_path: Path, logins: tuple[Path, Login, Login]
) -> None:
    _, ann, _ = logins
    defs = tmp_path / "login.defs"
    defs.write_text(f"#UID_MIN 5\nUID_MIN\t\t{ann.uid + 1}\nSYS_UID_MIN 100\n")
    assert "below" in (Accounts.of(SystemSettings(), defs).why_not(ann.name) or "")
    assert Accounts.of(SystemSettings(uid_min=ann.uid), defs).why_not(ann.name) is None
    assert Accounts.of(SystemSettings(accounts=(ann.name,)), defs).why_not(ann.name) is None
    assert Accounts.of(SystemSettings(), tmp_path / "none").uid_min == 1000
    assert Accounts.of(SystemSettings(accounts=("root",))).why_not("root") is not None
    for name in ("nobody", "a\0b", "uid:0", "0", "x" * 300):
        assert Accounts.of(SystemSettings()).why_not(name) is not None, name
