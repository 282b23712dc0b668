"""The unit of systemd, as systemd itself reads it, and against the daemon that it starts."""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.cli.commands import serve
from tests.daemon import ROOT

UNIT = ROOT / "manifests" / "systemd" / "sched.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    there = tmp_path / UNIT.name
    there.write_text(UNIT.read_text().replace("/opt/sched/bin/sched", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(there)], capture_output=True, text=True, check=False)
    about = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, about) == (0, [])


def test_directories_are_those_of_a_system_daemon() -> None:
    unit = read()
    assert unit["ExecStart"] == "/opt/sched/bin/sched serve --system"
    assert Path("/etc", unit["ConfigurationDirectory"], "sched.toml") == serve.SYSTEM_CONFIG
    assert Path("/var/lib", unit["StateDirectory"]) == Path(serve.SYSTEM_DEFAULTS["state_dir"])
    assert Path("/run", unit["RuntimeDirectory"], "sched.sock") == Path(serve.SYSTEM_DEFAULTS["http"]["socket"])
    assert int(unit["StateDirectoryMode"], 8) == 0o711


def test_workers_outlive_the_daemon_and_root_keeps_what_it_needs_to_look_after_them() -> None:
    unit = read()
    assert (unit["KillMode"], unit["Type"], unit["NotifyAccess"]) == ("process", "notify", "main")
    kept = set(unit["CapabilityBoundingSet"].split())
    assert {"CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_SYS_PTRACE"} <= kept
    assert "CAP_SYS_ADMIN" not in kept
    # Jobs could not be other users, see devices, or write anywhere.
    assert not {"User", "PrivateUsers", "PrivateDevices", "ProtectHome", "PrivateTmp"} & set(unit)


def read() -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return dict(parser["Service"])
