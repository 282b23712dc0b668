"""The parts between horovodrun and the workers, each for itself: what is handed out, what `ssh` understands."""

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from scheduler.elastic.horovod.hosts import Listed, Roster, hand_out
from scheduler.elastic.horovod.protocol import PURPOSE
from scheduler.elastic.horovod.ssh import split_command
from scheduler.elastic.horovod.workspace import Desk
from scheduler.elastic.membership.signed_line import Line, call
from scheduler.model.ids import JobId, WorkerId, worker_id
from tests.elastic.becoming import become_worker
from tests.elastic.becoming import running as a_job_that_runs
from tests.elastic.processes import environment, python
from tests.eventually import SECONDS_MAX, becomes, eventually
from tests.http.site import Site


def listed(*names: str) -> tuple[Listed, ...]:
    return tuple(Listed(name, f"127.0.0.1:{at}", 1) for at, name in enumerate(names, 1000))


def test_the_list_is_read_in_the_order_of_ranks() -> None:
    workers = [
        {"id": "7-3", "rank": 1, "host": "b", "slots": 2, "endpoint": "b:2"},
        {"id": "7-2", "rank": 0, "host": "a", "slots": 0, "endpoint": "a:1"},
    ]
    roster = Roster.parse(json.dumps({"generation": 4, "workers": workers, "min": 2, "max": 3}).encode())
    assert roster == Roster(4, (Listed("7-2", "a:1", 1), Listed("7-3", "b:2", 2)), 2)
    with pytest.raises(ValueError, match="not a list of workers"):
        Roster.parse(b"{}")


@pytest.mark.parametrize(
    ("wanted", "before", "running", "handed"),
    [
        (["1", "2"], [], [], ["1", "2"]),
        (["1"], ["1", "2", "3"], ["1", "2", "3"], ["1"]),
        (["2", "3"], ["1", "2"], ["1", "2"], ["2", "3"]),
        # Nobody who goes on knows the state: one that leaves hands it on first.
        (["3", "4"], ["1", "2"], ["1", "2"], ["1", "3", "4"]),
        (["3", "4"], ["1", "3", "4"], ["1", "4"], ["3", "4"]),
        (["3", "4"], ["1", "2"], [], ["3", "4"]),
    ],
)
def test_horovodrun_never_sees_all_its_workers_replaced_at_once(
    wanted: list[str], before: list[str], running: list[str], handed: list[str]
) -> None:
    everybody = {worker.name: worker for worker in listed("1", "2", "3", "4")}
    roster = Roster(9, tuple(everybody[name] for name in wanted), 1)
    result = hand_out(roster, tuple(everybody[name] for name in before), running)
    assert [worker.name for worker in result] == handed


def test_of_horovodruns_command_its_own_variables_and_the_program_are_passed_on() -> None:
    text = (
        "cd /home/u/my env > /dev/null 2>&1 ; env HOROVOD_HOSTNAME=1-2 HOROVOD_RANK=0 PATH=/x:/bin "
        "MESSAGE='it'\"'\"'s = 1' PYTHONUNBUFFERED=1 HOROVOD_GLOO_RENDEZVOUS_PORT=9 NCCL_SOCKET_IFNAME=lo "
        "python train.py --name 'a b' KEY=1"
    )
    variables, command = split_command(text.replace("my env", "my-env"))
    assert command == ["python", "train.py", "--name", "a b", "KEY=1"]
    assert variables == {
        "HOROVOD_HOSTNAME": "1-2",
        "HOROVOD_RANK": "0",
        "PYTHONUNBUFFERED": "1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "9",
        "NCCL_SOCKET_IFNAME": "lo",
    }


@pytest.mark.parametrize("text", ["true", "cd / ; env A=1"])
def test_another_command_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="horovodrun sent"):
        split_command(text)


def test_the_discovery_script_prints_workers_and_a_host_without_slots(tmp_path: Path) -> None:
    directory = tmp_path / "with space"
    directory.mkdir()
    desk = Desk(directory)
    desk.prepare("secret")
    desk.write(listed("1-2", "1-3"))
    printed = subprocess.run(desk.discovery_script, shell=True, capture_output=True, text=True, check=True).stdout
    *hosts, again = printed.splitlines()
    assert hosts == ["1-2:1", "1-3:1"]
    assert again in ("again-0:0", "again-1:0", "again-2:0")
    assert desk.endpoint("1-3") == "127.0.0.1:1001"
    desk.write(listed("1-4"))
    assert [desk.endpoint(name) for name in ("1-3", "1-4")] == ["127.0.0.1:1001", "127.0.0.1:1000"]


def test_a_process_counts_as_running_until_the_one_that_waits_for_it_is_gone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.prepare("secret")
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / "running" / f"1-3:{gone.pid}").touch()
    with desk.running("1-2"):
        assert desk.running_now() == ["1-2"]
        assert os.listdir(tmp_path / "running") == [f"1-2:{os.getpid()}"]
    assert desk.running_now() == []


def test_a_driver_to_whom_the_list_is_refused_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    become_worker(monkeypatch, site, a_job_that_runs(site))
    scheduler = {name: value for name, value in os.environ.items() if name.startswith("SCHED_")}
    command = ["-m", "scheduler.elastic.horovod", "drive", "true", "--", "python", "train.py"]
    with python(command, env=[environment(**scheduler | {"SCHED_JOB_ID": "99"})]) as (driver,):
        assert driver.stdout is not None
        assert driver.stdout.readline().startswith("driver: the scheduler refused the list of workers: 404: ")


def endpoint(site: Site, worker: WorkerId) -> str:
    """Where the worker says that it listens; empty before it has."""
    report = site.reports.latest(worker)
    return (report and report.endpoint) or ""


@pytest.mark.parametrize("token", ["another", ""])
def test_a_worker_starts_no_process_for_who_does_not_know_its_jobs_token(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token: str
) -> None:
    job = a_job_that_runs(site)
    become_worker(monkeypatch, site, job)
    scheduler = {name: value for name, value in os.environ.items() if name.startswith("SCHED_")}
    planted, wanted = tmp_path / "planted", tmp_path / "wanted"
    with python(["-m", "scheduler.elastic.horovod", "hold", "0"], env=[environment(**scheduler)]):
        host, _, port = eventually(lambda: endpoint(site, worker_id(job, 1)), "it does not listen").rpartition(":")

        def order(path: Path, secret: str) -> list[Any]:
            with socket.create_connection((host, int(port)), 60) as connection:
                line = call(connection, secret, PURPOSE, time.monotonic() + SECONDS_MAX)
                line.send({"command": ["touch", str(path)], "variables": {}})
                return [line.receive(), line.receive()]

        with pytest.raises(ValueError, match="not from a worker of this job"):
            order(planted, token)
        with socket.create_connection((host, int(port)), 60) as stranger:
            line = Line(stranger, b"made up", b"asks", b"answers")
            stranger.sendall(bytes(16))
            line.send({"command": ["touch", str(planted)], "variables": {}})
            while stranger.recv(4096):
                pass
        assert order(wanted, site.worker_token(job)) == [{"started": True}, {"exit": 0, "failed": False}]
    assert [path.exists() for path in (planted, wanted)] == [False, True]


def worker_and_desk(site: Site, monkeypatch: pytest.MonkeyPatch, directory: Path) -> tuple[JobId, dict[str, str], Desk]:
    """A job whose first worker this process is, what the environment says of its scheduler, and its driver's desk."""
    job = a_job_that_runs(site)
    become_worker(monkeypatch, site, job)
    desk = Desk(directory)
    desk.prepare(site.worker_token(job))
    return job, {name: value for name, value in os.environ.items() if name.startswith("SCHED_")}, desk


@pytest.mark.parametrize(("script", "status"), [("echo $HOROVOD_RANK", 0), ("exit 3", 3)])
def test_what_stands_in_for_ssh_runs_a_process_on_the_worker_and_ends_as_it_does(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, status: int
) -> None:
    job, scheduler, desk = worker_and_desk(site, monkeypatch, tmp_path)
    with python(["-m", "scheduler.elastic.horovod", "hold", "0"], env=[environment(**scheduler)]) as (worker,):
        listening = eventually(lambda: endpoint(site, worker_id(job, 1)), "it does not listen")
        desk.write((Listed("1-1", listening, 1),))
        command = f"cd /tmp ; env HOROVOD_RANK=7 sh -c {shlex.quote(script)}"
        ssh = [sys.executable, "-m", "scheduler.elastic.horovod.ssh", str(tmp_path), "-o", "X=y", "1-1", command]
        assert subprocess.run(ssh, timeout=SECONDS_MAX, check=False).returncode == status
        if status:
            assert worker.wait(SECONDS_MAX) == status
        else:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "7\n"
    assert (desk.done, desk.failed_within(SECONDS_MAX)) == (not status, bool(status))


def test_a_worker_whose_log_takes_nothing_ends_as_its_process_does(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job, scheduler, desk = worker_and_desk(site, monkeypatch, tmp_path)
    hold = [sys.executable, "-m", "scheduler.elastic.horovod", "hold", "0"]
    with (
        open("/dev/full", "wb") as full,
        subprocess.Popen(hold, env=environment(**scheduler), stdout=full, stderr=full) as worker,
    ):
        listening = eventually(lambda: endpoint(site, worker_id(job, 1)), "it does not listen")
        desk.write((Listed("1-1", listening, 1),))
        ssh = [sys.executable, "-m", "scheduler.elastic.horovod.ssh", str(tmp_path), "1-1", "cd / ; env sh -c 'exit 3'"]
        assert subprocess.run(ssh, timeout=SECONDS_MAX, check=False).returncode == 3
        try:
            assert worker.wait(SECONDS_MAX) == 3
        finally:
            worker.kill()


#: What is left of its output where that is still in memory: nothing.
KILLS_ITSELF = "import os; print('told'); os.kill(os.getpid(), 9)\n"


@pytest.mark.parametrize("warm_one_dies", [False, True])
def test_a_process_that_was_made_beforehand_is_as_any_other(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, warm_one_dies: bool
) -> None:
    job, scheduler, desk = worker_and_desk(site, monkeypatch, tmp_path)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    script = tmp_path / "train.py"
    script.write_text(KILLS_ITSELF)
    with python(["-m", "scheduler.elastic.horovod", "hold", "1"], env=[environment(**scheduler)]) as (worker,):
        listening = eventually(lambda: endpoint(site, worker_id(job, 1)), "it does not listen")
        (warm,) = psutil.Process(worker.pid).children()
        if warm_one_dies:
            warm.kill()
            becomes(warm.status, psutil.STATUS_ZOMBIE)
        desk.write((Listed("1-1", listening, 1),))
        command = f"cd /tmp ; env PYTHONUNBUFFERED=1 {sys.executable} {shlex.quote(str(script))}"
        ssh = [sys.executable, "-m", "scheduler.elastic.horovod.ssh", str(tmp_path), "1-1", command]
        assert subprocess.run(ssh, timeout=SECONDS_MAX, check=False).returncode == 137
        output, _ = worker.communicate(timeout=SECONDS_MAX)
    assert "told" in output.splitlines()


def test_a_process_that_is_lost_with_its_worker_is_no_second_failure(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job, scheduler, desk = worker_and_desk(site, monkeypatch, tmp_path)
    with python(["-m", "scheduler.elastic.horovod", "hold", "0"], env=[environment(**scheduler)]) as (worker,):
        listening = eventually(lambda: endpoint(site, worker_id(job, 1)), "it does not listen")
        desk.write((Listed("1-1", listening, 1),))
        while_it_lives = f"while kill -0 {worker.pid} && ! grep -q zombie /proc/{worker.pid}/status; do sleep 0.1; done"
        command = f"cd /tmp ; env HOROVOD_RANK=0 sh -c {shlex.quote(while_it_lives)}"
        ssh = [sys.executable, "-m", "scheduler.elastic.horovod.ssh", str(tmp_path), "1-1", command]
        with subprocess.Popen(ssh, stderr=subprocess.PIPE, text=True) as waiting:
            eventually(desk.running_now, "it does not start")
            worker.kill()
            _, told = waiting.communicate(timeout=SECONDS_MAX)
    assert waiting.returncode == 255
    assert told.startswith("driver: worker 1-1 is lost, with its process: ")
    assert desk.failed_within(SECONDS_MAX)
    assert desk.running_now() == []


def test_a_worker_tells_of_the_checkpoints_that_appear(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("checkpoint")
    job = a_job_that_runs(site)
    worker = worker_id(job, 1)
    become_worker(monkeypatch, site, job)
    scheduler = {name: value for name, value in os.environ.items() if name.startswith("SCHED_")}
    variables = environment(**scheduler | {"SCHED_CHECKPOINT_DIR": str(directory)})

    def told() -> float | None:
        report = site.reports.latest(worker)
        return report.last_checkpoint_at if report is not None else None

    with python(["-m", "scheduler.elastic.horovod", "hold", "0"], env=[variables]):
        eventually(lambda: endpoint(site, worker), "it does not listen")
        assert told() is None
        (directory / "model.pt").write_text("state")
        assert eventually(told, "it does not tell") <= site.clock.now()  # type: ignore[operator]
