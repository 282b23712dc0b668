"""How tests call `sched`: in this process, with an environment of their own."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from tests.cli.calls import Call
from tests.daemon import Daemon, SharedDaemon

Sched = Callable[..., Call]


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that serves sets logging up for its whole process: here that of all tests."""
    root, ours = logging.getLogger(), logging.getLogger("scheduler")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], root.level, ours.level = before
    structlog.reset_defaults()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Sched:
    """`alone("list", "-o", "json")` runs a command line where no daemon is known."""
    for name in ("SCHED_URL", "SCHED_TOKEN", "SCHED_DATABASE_URL", "SCHED_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCHED_STATE_DIR", str(tmp_path / "no-daemon-here"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *words: Call.run(words, capsys)


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDaemon]:
    """In place of the one of all tests: four slots, and no other policy."""
    shared = SharedDaemon(lambda: tmp_path_factory.mktemp("cli"), slots=4)
    yield shared
    shared.close()


@pytest.fixture
def sched(alone: Sched, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Sched:
    """Runs a command line that finds the daemon by its state directory."""
    monkeypatch.setenv("SCHED_STATE_DIR", str(daemon.state_dir))
    return alone


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local zone: one hour ahead of UTC in winter, two in summer."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
