"""Which place a daemon's workers run at, by its directories and its database."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scheduler.config import Settings
from scheduler.daemon.opening import open_store
from scheduler.daemon.place import place_of
from scheduler.errors import ConfigError
from scheduler.store import SqlStore


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def opened(stack: ExitStack, settings: Settings) -> SqlStore:
    store = open_store(settings)
    stack.callback(store.close)
    return store


def test_a_directory_around_that_of_the_database_is_another_place(tmp_path: Path, stack: ExitStack) -> None:
    inner = Settings(state_dir=tmp_path / "inner")
    inner.state_path.mkdir()
    store = opened(stack, inner)
    outer = Settings(state_dir=tmp_path, database_url=inner.store_url)
    assert place_of(inner, store).identity != place_of(outer, store).identity


@pytest.mark.parametrize("within", ["", "data"])
def test_a_directory_that_was_moved_or_restored_with_its_database_is_the_same_place(
    tmp_path: Path, stack: ExitStack, within: str
) -> None:
    found = set()
    for name in ("first", "restored"):
        state = tmp_path / name
        (state / within).mkdir(parents=True)
        settings = Settings(state_dir=state, database_url=f"sqlite:///{state / within / 'sched.db'}")
        found.add(place_of(settings, opened(stack, settings)).identity)
    assert len(found) == 1


@pytest.mark.parametrize("directory", ["/proc/nothing", "a file"])
def test_a_directory_that_cannot_be_had_is_told_in_one_line(tmp_path: Path, stack: ExitStack, directory: str) -> None:
    (tmp_path / "a file").write_text("")
    settings = Settings(state_dir=tmp_path, local={"directory": tmp_path / directory})
    with pytest.raises(ConfigError, match=f"local.directory .*{directory}: .*: use a directory") as refused:
        place_of(settings, opened(stack, settings))
    assert "\n" not in str(refused.value)
