"""Where the daemon's UNIX socket is made, and what is told where it cannot be."""

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler.config import HttpSettings
from scheduler.daemon.local_socket import local_socket
from scheduler.errors import ConfigError


def test_the_file_is_private_while_it_listens_and_gone_after(tmp_path: Path) -> None:
    path = tmp_path / "sched.sock"
    with local_socket(HttpSettings(), tmp_path) as listening:
        assert listening is not None
        assert listening.getsockname() == str(path)
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_a_leftover_is_replaced_and_a_socket_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "other.sock"
    settings = HttpSettings(socket=path)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        left.listen()
        refused = rf"^cannot listen on {path}: another process listens there: use another path with http\.socket"
        with pytest.raises(ConfigError, match=refused), local_socket(settings, tmp_path):
            pass
    with local_socket(settings, tmp_path) as listening:
        assert listening is not None


def test_another_file_is_never_removed(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("dear diary")
    with (
        pytest.raises(ConfigError, match="a file that is no socket is there"),
        local_socket(HttpSettings(socket=path), tmp_path),
    ):
        pass
    assert path.read_text() == "dear diary"


def test_a_state_directory_in_which_there_can_be_no_socket_is_told_and_served_without(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with capture_logs() as logs, local_socket(HttpSettings(), deep) as listening:
        assert listening is None
    assert ["AF_UNIX path too long" in line["reason"] for line in logs] == [True]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (HttpSettings(socket_group="root"), "no other user reaches the state directory: set http.socket too"),
        (HttpSettings(socket=Path("/tmp/x"), socket_group="no-such"), "there is no group no-such on this machine"),
    ],
)
def test_a_group_needs_a_path_that_it_reaches_and_has_to_exist(
    settings: HttpSettings, told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"^http.socket_group: {told}"), local_socket(settings, tmp_path):
        pass


def test_a_path_is_told_as_others_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with local_socket(HttpSettings(socket=Path("here.sock")), tmp_path / "state") as listening:
        assert listening is not None
        assert listening.getsockname() == str(tmp_path / "here.sock")


def test_a_daemon_that_ends_leaves_the_socket_of_its_successor(tmp_path: Path) -> None:
    settings = HttpSettings(socket=tmp_path / "shared.sock")
    with ExitStack() as successor:
        with local_socket(settings, tmp_path) as first:
            assert first is not None
            first.close()
            successor.enter_context(local_socket(settings, tmp_path))
        assert (tmp_path / "shared.sock").is_socket()
    assert not (tmp_path / "shared.sock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_daemon_outside_the_group_is_told_to_join_it() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        path = Path(directory) / "s"
        said = _as_nobody(path)
        assert f"the daemon's user must be a member of daemon to give it {path}" in said
        assert not path.exists()


def _as_nobody(path: Path) -> str:
    """What is said where another user listens there for a group that it is not in."""
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from scheduler.config import HttpSettings\n"
        "from scheduler.daemon.local_socket import local_socket\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"local_socket(HttpSettings(socket=Path({str(path)!r}), socket_group='daemon'), Path('/')).__enter__()"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
