"""The daemon as a process: how it starts, what it refuses, what it leaves behind, and that a defect does not end it."""

import json
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from structlog.testing import capture_logs

from scheduler.clusters.simulated.cluster import Fault, SimulatedCluster
from scheduler.config import HttpSettings, RetentionSettings
from scheduler.daemon.engine_thread import EngineThread
from scheduler.daemon.retention import Retention, purge
from scheduler.daemon.server import bind
from scheduler.daemon.state_dir import claimed, identity
from scheduler.engine.loop import EngineLoop
from scheduler.engine.tick import TickReport
from scheduler.errors import ConfigError, Conflict
from scheduler.model.ids import JobId, JobKey, job_key
from scheduler.model.observation import Observation
from tests.daemon import ROOT, Daemon, running_daemon
from tests.eventually import becomes
from tests.world import World


def run_daemon(state_dir: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a daemon that is expected to give up at once."""
    return subprocess.run(
        [sys.executable, "-m", "scheduler.daemon"],
        env={**os.environ, "SCHED_STATE_DIR": str(state_dir), "SCHED_HTTP__PORT": "0", **environment},
        capture_output=True,
        text=True,
        timeout=240,
        cwd=ROOT,
        check=False,
    )


def worker_pids(daemon: Daemon, marker: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if marker in " ".join(process.info["cmdline"] or ()) and process.pid != daemon.pid
    ]


def test_workers_outlive_a_daemon_that_is_stopped_or_killed(tmp_path: Path) -> None:
    # Whoever waited for its own lease to expire would not be ready within the time of the test.
    with running_daemon(tmp_path, slots=2, engine={"lease_seconds": 3600}) as daemon:
        go_on = tmp_path / "go-on"
        os.mkfifo(go_on)
        # Of one process: those that a shell begins look like itself for a moment.
        script = f"read -r _ < {go_on}; echo finished"
        job_id = daemon.client.post("/v1/jobs", json={"command": script}).json()["id"]

        def shown() -> str:
            return str(daemon.client.get(f"/v1/jobs/{job_id}").json()["state"])

        becomes(shown, "RUNNING")
        pids = worker_pids(daemon, str(go_on))
        assert pids
        assert daemon.stop() == 0
        assert not (daemon.state_dir / "daemon.json").exists()
        assert worker_pids(daemon, str(go_on)) == pids
        daemon.start()
        assert shown() == "RUNNING"
        daemon.restart()
        assert worker_pids(daemon, str(go_on)) == pids
        go_on.write_text("go\n")
        becomes(shown, "SUCCEEDED")
        assert daemon.client.get(f"/v1/jobs/{job_id}/logs").text == "finished\n"
        assert daemon.client.get(f"/v1/jobs/{job_id}").json()["attempt"] == 1


def test_one_daemon_a_state_directory_one_line_for_the_second(tmp_path: Path) -> None:
    with running_daemon(tmp_path) as daemon:
        second = run_daemon(daemon.state_dir)
        assert second.returncode == 1
        assert second.stderr.count("\n") == 1
        assert f"(pid {daemon.pid})" in second.stderr
        assert daemon.client.get("/readyz").status_code == 200


def test_clients_of_the_same_user_find_address_and_token(tmp_path: Path) -> None:
    token = "0123456789abcdef"
    with running_daemon(tmp_path, http={"token": token}) as daemon:
        address = daemon.state_dir / "daemon.json"
        assert json.loads(address.read_text()) == {
            "url": daemon.url,
            "pid": daemon.pid,
            "socket": str(daemon.state_dir / "sched.sock"),
        }
        assert (daemon.state_dir / "token").read_text() == token + "\n"
        for path in (address, daemon.state_dir / "token", daemon.state_dir / "sched.db"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert stat.S_IMODE(daemon.state_dir.stat().st_mode) == 0o700
        assert daemon.client.get("/v1/nodes").status_code == 200


def test_a_taken_address_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = run_daemon(tmp_path / "state", SCHED_HTTP__PORT=str(port))
    assert answer.returncode == 1
    where = f"127.0.0.1:{port}"
    advice = "use another port with --port or http.port (SCHED_HTTP__PORT)"
    assert answer.stderr == f"error: cannot listen on {where}: Address already in use: {advice}\n"


@pytest.mark.parametrize("host", ["192.0.2.1", "no host"])
def test_an_address_of_no_interface_is_one_line_that_asks_for_another_address(host: str) -> None:
    with pytest.raises(ConfigError) as refused:
        bind(HttpSettings(host=host, port=0))
    assert str(refused.value).startswith("cannot listen on ")
    assert str(refused.value).endswith(": use an address of this machine with --host or http.host (SCHED_HTTP__HOST)")


def test_other_machines_are_let_in_with_a_token_only(tmp_path: Path) -> None:
    answer = run_daemon(tmp_path / "state", SCHED_HTTP__HOST="0.0.0.0")
    assert answer.returncode == 1
    assert "http.token" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "state").exists()


def test_a_database_of_a_newer_version_is_refused_in_one_line(tmp_path: Path) -> None:
    with running_daemon(tmp_path) as daemon:
        daemon.stop()
        with closing(sqlite3.connect(daemon.state_dir / "sched.db")) as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
            database.commit()
        answer = run_daemon(daemon.state_dir)
    assert answer.returncode == 1
    assert "has a newer version than this scheduler" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_claim_ends_with_its_holder(tmp_path: Path) -> None:
    with claimed(tmp_path / "state"), pytest.raises(Conflict, match=f"pid {os.getpid()}"), claimed(tmp_path / "state"):
        pass
    with claimed(tmp_path / "state"):
        pass


def test_a_directory_names_its_daemon_over_restarts_and_no_two_alike(tmp_path: Path) -> None:
    with claimed(tmp_path / "a") as first, claimed(tmp_path / "b") as second:
        name = identity(first)
        assert identity(first) == name != identity(second)
        assert stat.S_IMODE((first / "identity").stat().st_mode) == 0o600


class _Faulty(SimulatedCluster):
    """A cluster whose observation meets a defect as often as it is told."""

    defects = 0

    def observe(self) -> Observation:
        if self.defects > 0:
            self.defects -= 1
            raise RuntimeError("a defect\nwith a second line")
        return super().observe()


class _Held(SimulatedCluster):
    """A cluster whose observation takes until it is let go."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.asked, self.let_go = threading.Event(), threading.Event()

    def observe(self) -> Observation:
        self.asked.set()
        assert self.let_go.wait(120)
        return super().observe()


@pytest.mark.parametrize("known", [True, False])
def test_ready_with_the_loaded_jobs_and_nodes_before_the_first_tick_ends(tmp_path: Path, known: bool) -> None:
    world = World(tmp_path)
    if known:
        world.node("a", slots=1)
        world.tick()
        world.engine.release()
    held = world.cluster = _Held(world.clock, world.board, world.reports)
    world.board.clear()
    world.engine = world._new_engine("e")
    ticked = threading.Event()
    thread = EngineThread(
        world.engine,
        world.board,
        world.clock,
        lambda observe: EngineLoop(world.engine, world.settings.engine, world.clock, observe),
        lambda _: ticked.set(),
        lambda: None,
        lambda: None,
    )
    assert thread.not_ready() == "the daemon is starting"
    thread.start()
    assert held.asked.wait(120)
    before_its_end = thread.not_ready()
    held.let_go.set()
    assert ticked.wait(120)
    assert thread.not_ready() is None
    thread.stop()
    assert before_its_end == (None if known else "the daemon is starting")
    world.close()


def test_a_defect_in_a_tick_is_counted_and_the_engine_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.node("a", slots=1)
    faulty = _Faulty(world.clock, world.board, world.reports)
    world.cluster = faulty
    world.engine = world._new_engine("e")
    world.tick()
    faulty.defects = 1
    crashed, ticked = threading.Event(), threading.Event()
    reasons: list[str | None] = []

    def on_report(report: TickReport) -> None:
        if crashed.is_set() and report.error is None:
            ticked.set()

    def on_crash() -> None:
        reasons.append(thread.not_ready())
        crashed.set()

    thread = EngineThread(
        world.engine,
        world.board,
        world.clock,
        lambda observe: EngineLoop(world.engine, world.settings.engine, world.clock, observe),
        on_report,
        on_crash,
        lambda: None,
    )
    with capture_logs() as logs:
        thread.start()
        assert ticked.wait(120)
        thread.stop()
    assert reasons == ["the engine is restarting after an internal error: RuntimeError: a defect"]
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["tick failed"]
    assert thread.not_ready() is None
    assert world.engine.lease is None, "given back at the end"
    world.close()


def test_actions_that_fail_alike_in_one_tick_are_one_line_of_the_log(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.node("a", slots=8)
    for name in ("one", "two", "three"):
        world.job(name)
    world.cluster.action_faults = [Fault.NOT_DONE, Fault.NOT_DONE, Fault.DONE_BUT_REPORTED_FAILED]
    ticked = threading.Event()
    thread = EngineThread(
        world.engine,
        world.board,
        world.clock,
        lambda observe: EngineLoop(world.engine, world.settings.engine, world.clock, observe),
        lambda _: ticked.set(),
        lambda: None,
        lambda: None,
    )
    with capture_logs() as logs:
        thread.start()
        assert ticked.wait(120)
        thread.stop()
    told = [(line["action"], line["error"], line["count"]) for line in logs if line["log_level"] == "warning"]
    assert told == [("StartWorker", "refused", 2), ("StartWorker", "timed out", 1)]
    world.close()


def test_what_is_old_is_removed_with_its_logs(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.node("a", slots=8)
    old, running = world.job("old", grace_seconds=0), world.job("running")
    world.advance(1)
    world.ask_cancel(old)
    world.settle()
    removed: list[JobKey] = []
    former = job_key(running, "0123456789")  # of another life of the database
    before = job_key(running, "")
    keys = (world.get(old).key, world.get(running).key, former, before, job_key(JobId(99), ""))
    for key in keys:
        (tmp_path / "logs" / key).mkdir(parents=True)
        os.utime(tmp_path / "logs" / key, (0, 0))
    (tmp_path / "logs" / "no job").mkdir()
    settings = RetentionSettings(jobs_seconds=3600, events_seconds=3600)
    assert purge(world.store, settings, world.clock.now()).jobs == 0
    world.clock.advance(7200)
    waits = [True, False]
    retention = Retention(world.store, settings, world.clock, tmp_path / "logs", removed.append, lambda: waits.pop(0))
    retention.run()
    assert world.store.get_job(old) is not None
    retention.run()
    assert world.store.get_job(old) is None
    assert world.store.get_job(running) is not None
    assert set(removed) == set(keys) - {world.get(running).key}
    assert world.store.list_events() == []
    world.close()


def test_purging_goes_on_until_nothing_old_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.daemon.retention.BATCH_ROWS", 2)
    world = World(tmp_path)
    ids: Sequence[JobId] = [world.job(f"j{number}") for number in range(5)]
    world.tick()
    for job_id in ids:
        world.ask_cancel(job_id)
    world.tick()
    purged = purge(world.store, RetentionSettings(jobs_seconds=0, events_seconds=0), world.clock.now() + 1)
    assert (purged.jobs, world.store.list_jobs(), world.store.list_events()) == (5, [], [])
    world.close()
