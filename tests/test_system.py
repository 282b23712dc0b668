"""What a system daemon asks of its process and its settings, and as whom jobs run without it."""

import json
import os
import pwd
import signal
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from scheduler.cli.commands.serve import SYSTEM_DEFAULTS
from scheduler.config import LocalSettings, Settings, load_settings
from scheduler.daemon.local_socket import logins_of
from scheduler.daemon.system import check_system
from scheduler.errors import ConfigError
from tests.daemon import ROOT, running_daemon
from tests.logins import open_directory

SYSTEM = {"enabled": True}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may serve a machine")


@needs_root
def test_what_a_system_daemon_cannot_do_is_said_in_one_line(tmp_path: Path) -> None:
    with open_directory() as directory:
        check_system(Settings(system=SYSTEM, state_dir=directory / "made" / "at-its-start"))
        with pytest.raises(ConfigError, match=r'let cluster be "local"'):
            check_system(Settings(system=SYSTEM, state_dir=directory, cluster="kubernetes"))
        with pytest.raises(ConfigError, match=r"do not set local.directory"):
            check_system(Settings(system=SYSTEM, state_dir=directory, local=LocalSettings(directory=directory)))
        closed = directory / "closed"
        closed.mkdir(0o700)
        with pytest.raises(ConfigError, match=rf"users could not reach .* since {closed} is closed to them"):
            check_system(Settings(system=SYSTEM, state_dir=closed / "state"))


@needs_root
def test_the_command_serves_a_machine_with_what_its_file_says() -> None:
    with open_directory() as directory:
        state, at, config = directory / "state", directory / "run" / "sched.sock", directory / "sched.toml"
        config.write_text(f'[http]\nsocket = "{at}"\nport = 0\n[local]\nslots = 1\n')
        command = [sys.executable, "-m", "scheduler.cli", "serve", "--system", "--config", str(config)]
        serving = subprocess.Popen([*command, "--state-dir", str(state)], stderr=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            assert serving.stderr is not None
            assert next(line for line in serving.stderr if "jobs run as their users" in line)
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (state, at.parent, at)]
            assert modes == [0o711, 0o755, 0o600]
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(at)), base_url="http://localhost") as root:
                told = root.get("/v1/whoami").json()
                assert (told["user"], told["role"], told["jobs_run_as"]) == ("root", "admin", None)
                address = json.loads((state / "daemon.json").read_text())["url"]
                assert httpx.get(f"{address}/v1/jobs").status_code == 401, "nobody is known there"
            for path in state.rglob("*"):
                assert not path.stat().st_mode & 0o077, f"{path} is not root's alone"
        finally:
            serving.send_signal(signal.SIGTERM)
            serving.communicate(timeout=240)
        assert serving.returncode == 0


@needs_root
def test_a_machine_without_a_settings_file_has_its_usual_places() -> None:
    settings = load_settings(None, {"system": SYSTEM}, SYSTEM_DEFAULTS)
    assert (settings.state_path, settings.http.socket) == (Path("/var/lib/sched"), Path("/run/sched/sched.sock"))
    given = load_settings(None, {"state_dir": "/srv/sched"}, SYSTEM_DEFAULTS)
    assert (given.state_path, given.http.socket) == (Path("/srv/sched"), Path("/run/sched/sched.sock"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may serve a machine")
def test_nobody_but_root_serves_a_machine(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which only root may do"):
        check_system(Settings(system=SYSTEM, state_dir=tmp_path))


def test_the_address_of_a_system_daemon_asks_for_a_token_without_a_group_too() -> None:
    assert logins_of(Settings(system=SYSTEM)).shared
    assert not logins_of(Settings()).shared


def test_without_it_the_daemon_says_that_all_jobs_run_as_its_user(tmp_path: Path) -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    with running_daemon(tmp_path) as daemon:
        assert "all jobs run as the user of the daemon" in daemon.log()
        assert httpx.get(f"{daemon.url}/v1/whoami").json()["jobs_run_as"] == own
