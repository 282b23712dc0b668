"""What the daemon keeps is closed to all other users, and its directory names it."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler.config import Settings
from scheduler.daemon.opening import open_store
from scheduler.daemon.state_dir import claimed, identity, make_private
from scheduler.errors import ConfigError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
OTHER_USER = 12345


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o777, 0o701, 0o710])
def test_a_directory_that_others_can_read_is_closed_and_that_is_logged(tmp_path: Path, mode: int) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "token").write_text("secret")
    state.chmod(mode)
    (state / "token").chmod(0o644)
    with capture_logs() as logs, claimed(state):
        assert (mode_of(state), mode_of(state / "token")) == (0o700, 0o600)
    assert {line["path"] for line in logs} == {str(state), str(state / "token")}
    with capture_logs() as logs, claimed(state):
        assert not logs


def test_the_files_of_a_database_that_others_can_read_are_closed(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path, database_url=f"sqlite:///{tmp_path / 'elsewhere.db'}")
    store = open_store(settings)
    store.read_lease()
    files = [path for path in tmp_path.iterdir() if path.name.startswith("elsewhere.db")]
    assert len(files) == 3
    for path in files:
        path.chmod(0o666)
    again = open_store(settings)
    assert {mode_of(path) for path in files} == {0o600}
    again.close()
    store.close()


@needs_root
def test_a_directory_of_another_user_is_refused_in_one_line(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    os.chown(state, OTHER_USER, OTHER_USER)
    with pytest.raises(ConfigError, match=f"belongs to user {OTHER_USER}") as refused, claimed(state):
        pass
    assert "\n" not in str(refused.value)
    assert list(state.iterdir()) == []


def test_a_directory_of_all_users_is_refused_to_who_does_not_own_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `/tmp` is to everybody but root."""
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)
    with pytest.raises(ConfigError, match="use a directory of the daemon's own user"):
        make_private(Path("/tmp"))


def test_a_copy_of_a_directory_is_another_daemon_and_a_moved_one_is_not(tmp_path: Path) -> None:
    with claimed(tmp_path / "state") as state:
        name = identity(state)
    shutil.copytree(state, tmp_path / "copy")
    with claimed(tmp_path / "copy") as copy:
        assert identity(copy) != name
    state.rename(tmp_path / "moved")
    with claimed(tmp_path / "moved") as moved:
        assert identity(moved) == name


def test_the_name_that_an_older_version_gave_stays_and_a_copy_of_it_is_another_daemon(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "identity").write_text("0123abcd\n")
    assert identity(state) == identity(state) == "0123abcd"
    shutil.copytree(state, tmp_path / "copy")
    assert identity(tmp_path / "copy") != "0123abcd"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe\x00"])
def test_a_damaged_name_is_replaced(tmp_path: Path, content: bytes) -> None:
    """As a power failure or a full disk leaves it."""
    (tmp_path / "identity").write_bytes(content)
    name = identity(tmp_path)
    assert len(name) == 8
    assert identity(tmp_path) == name
