"""A daemon whose engine hangs starts anew, also where nothing can be written that would tell of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.config import Settings
from scheduler.daemon import serve
from scheduler.daemon.watchdog import STACKS_FILE
from scheduler.engine.ports import Inbox, TickInputs
from scheduler.model.observation import Observation
from scheduler.model.world import World


@pytest.mark.parametrize("writable", [True, False])
def test_it_starts_anew_whether_or_not_its_state_can_be_kept(
    tmp_path: Path, writable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = tmp_path / STACKS_FILE
    if not writable:
        stacks.mkdir()
    began: list[bool] = []
    monkeypatch.setattr(serve, "start_anew", lambda: began.append(True))
    daemon: Any = SimpleNamespace(_settings=Settings(state_dir=tmp_path), _state=tmp_path)
    inputs = TickInputs(0.0, World(), Observation({}, {}), Inbox((), ()))
    try:
        serve.Daemon._hangs(daemon, inputs)
    except OSError:
        assert not writable  # the process is replaced before anybody sees it
    assert began == [True]
    assert stacks.is_file() is writable
