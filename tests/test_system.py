"""What a system daemon asks of its process and its settings, and as whom jobs run without it."""

import os
import pwd
from pathlib import Path

import httpx
import pytest

from scheduler.config import LocalSettings, Settings
from scheduler.daemon.local_socket import logins_of
from scheduler.daemon.system import check_system
from scheduler.errors import ConfigError
from tests.daemon import running_daemon
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
