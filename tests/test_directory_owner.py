"""Workers of a directory belong to one database, whatever happens to its mark."""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scheduler.clock import SystemClock
from scheduler.clusters.local.records import Records, WorkerSpec
from scheduler.config import Settings
from scheduler.daemon.directory_owner import LOCK_FILE, MARK_FILE, disown, owned
from scheduler.daemon.opening import open_store
from scheduler.daemon.place import place_of
from scheduler.engine.ports import Place
from scheduler.errors import ConfigError, Conflict, NotFound
from scheduler.store import SqlStore

needs_other_user = pytest.mark.skipif(os.geteuid() == 0, reason="root can write to every directory")
WORKERS = "has workers of another database"


class Site:
    """Daemons of some databases that have one directory for their workers."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path, self.directory, self._stack = path, path / "workers here", stack

    def settings(self, name: str, directory: Path | None = None) -> Settings:
        state = self.path / name
        state.mkdir(exist_ok=True)
        return Settings(state_dir=state, local={"directory": directory or self.directory})

    def open(self, settings: Settings) -> tuple[SqlStore, Place]:
        store = open_store(settings)
        self._stack.callback(store.close)
        return store, place_of(settings, store)

    def start(self, name: str, directory: Path | None = None) -> ExitStack:
        """A daemon of this database; it ends when what is returned is closed."""
        settings = self.settings(name, directory)
        store, place = self.open(settings)
        daemon = ExitStack()
        self._stack.callback(daemon.close)
        daemon.enter_context(owned(settings, store, place, SystemClock().monotonic))
        return daemon

    def record_worker(self) -> None:
        spec = WorkerSpec("1-1", "1", "local", (0,), 1.0, 64, 30.0)
        Records(self.directory).create(spec)

    def leads(self, name: str) -> None:
        store, place = self.open(self.settings(name))
        assert store.acquire_lease(name, 0.0, 10.0, place=place) is not None


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


def refused(start: Callable[[], object], match: str) -> str:
    with pytest.raises(Conflict, match=match) as told:
        start()
    assert "\n" not in str(told.value)
    return str(told.value)


def test_workers_of_another_database_are_left_to_it_also_once_they_have_ended(site: Site) -> None:
    """What they ended with is kept until their own daemon has seen it."""
    site.start("first").close()
    site.record_worker()
    told = refused(lambda: site.start("second"), WORKERS)
    assert str(site.path / "first" / "sched.db") in told
    assert f"sched db disown --directory '{site.directory}'" in told
    site.start("first")


def test_a_directory_in_use_is_refused_to_another_database_and_free_without_workers_afterwards(site: Site) -> None:
    first = site.start("first")
    refused(lambda: site.start("second"), "another daemon uses .* with another database, .*first/sched.db: use that")
    first.close()
    site.start("second")
    refused(lambda: site.start("first"), "with another database, .*second/sched.db")


def test_replicas_of_one_database_share_a_directory(site: Site) -> None:
    leader = site.start("first")
    site.start("first")
    leader.close()
    site.record_worker()
    site.start("first")
    refused(lambda: site.start("second"), "another daemon uses")


def test_a_directory_by_another_path_is_the_same_one(site: Site) -> None:
    site.start("first")
    link = site.path / "link"
    link.symlink_to(site.directory)
    refused(lambda: site.start("second", link), "another daemon uses")


@pytest.mark.parametrize("backup", [False, True])
def test_a_database_that_was_moved_or_restored_keeps_its_workers(site: Site, backup: bool) -> None:
    site.start("first").close()
    site.record_worker()
    (shutil.copytree if backup else shutil.move)(site.path / "first", site.path / "elsewhere")
    site.start("elsewhere").close()
    assert "elsewhere" in refused(lambda: site.start("second"), WORKERS)


def test_a_copy_of_a_database_is_refused_while_the_other_one_is_in_use(site: Site) -> None:
    site.start("first")
    shutil.copytree(site.path / "first", site.path / "copy")
    refused(lambda: site.start("copy"), "with a copy of this database, .*first/sched.db")


def test_a_database_of_an_older_version_takes_its_directory_with_all_workers(site: Site) -> None:
    site.directory.mkdir(mode=0o700)
    site.record_worker()
    site.start("first").close()
    refused(lambda: site.start("second"), WORKERS)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe\x00", "whole", "a part", b"9" * 6000 + b"\n"])
def test_a_damaged_mark_keeps_workers_for_the_database_that_led_there(site: Site, content: bytes | str) -> None:
    """As a broken disk or an editor leaves it."""
    site.start("first").close()
    site.leads("first")
    mark = site.directory / MARK_FILE
    if isinstance(content, str):
        content = mark.read_bytes()[:20] if content == "a part" else mark.read_bytes() + b"and more\n"
    mark.write_bytes(content)
    site.start("second").close()  # nothing is lost without workers
    mark.write_bytes(content)
    site.record_worker()
    refused(lambda: site.start("second"), "unknown since the file 'database' there is damaged")
    site.start("first").close()
    assert "first" in refused(lambda: site.start("second"), WORKERS)


@pytest.mark.parametrize("damage", ["removed", "overwritten"])
def test_a_directory_in_use_without_a_mark_is_refused(site: Site, damage: str) -> None:
    site.start("first")
    mark = site.directory / MARK_FILE
    mark.write_text("") if damage == "overwritten" else mark.unlink()
    refused(lambda: site.start("second"), "another daemon uses .* unknown since the file 'database' there is ")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_mark_that_cannot_be_written_leaves_the_former_one(
    site: Site, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.start("first").close()
    known = (site.directory / MARK_FILE).read_bytes()
    (site.directory / f"{MARK_FILE}.new").write_text("torn by a crash")

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store, place = site.open(site.settings("second"))
    with monkeypatch.context() as disk:
        disk.setattr(os, call, full)
        with (
            pytest.raises(ConfigError, match="workers here: No space left on device: use a directory"),
            owned(site.settings("second"), store, place, SystemClock().monotonic),
        ):
            pass
    assert (site.directory / MARK_FILE).read_bytes() == known
    site.start("first").close()
    site.start("second")


@pytest.mark.parametrize("name", [MARK_FILE, LOCK_FILE])
def test_a_directory_that_cannot_be_marked_is_told_in_one_line(site: Site, name: str) -> None:
    (site.directory / name).mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"local\.directory .*workers here: Is a directory: use a") as told:
        site.start("first")
    assert "\n" not in str(told.value)


@needs_other_user
def test_a_directory_that_can_only_be_read_is_told_in_one_line(site: Site) -> None:
    site.start("first").close()
    (site.directory / LOCK_FILE).unlink()
    site.directory.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="workers here: Permission denied: use a"):
            site.start("first")
    finally:
        site.directory.chmod(0o700)


def test_of_daemons_that_start_at_one_moment_those_of_one_database_have_the_directory(site: Site) -> None:
    names = ["first", "second", "third"] * 3
    settings = [site.settings(name) for name in names]
    opened = [site.open(each) for each in settings]
    together, over = threading.Barrier(len(names)), threading.Barrier(len(names))
    got: list[str] = []
    told: list[str] = []

    def run(number: int) -> None:
        store, place = opened[number]
        with ExitStack() as stack:
            together.wait()
            try:
                stack.enter_context(owned(settings[number], store, place, SystemClock().monotonic))
                got.append(names[number])
            except Conflict as error:
                told.append(str(error))
            over.wait()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 3
    assert len(set(got)) == 1
    assert len(told) == 6
    assert all("another daemon uses" in line for line in told)


def test_a_directory_whose_database_is_lost_can_be_forgotten(site: Site) -> None:
    first = site.start("first")
    site.record_worker()
    refused(lambda: disown(site.directory), "a daemon uses .*: stop it first")
    first.close()
    disown(site.directory)
    site.start("second").close()
    refused(lambda: site.start("first"), WORKERS)


def test_only_a_directory_of_workers_can_be_forgotten(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    for each in (tmp_path, tmp_path / "nothing", tmp_path / "a file"):
        with pytest.raises(NotFound, match="no database is known to have workers there"):
            disown(each)
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


def test_workers_in_pods_need_no_directory(site: Site) -> None:
    settings = site.settings("first").model_copy(update={"cluster": "kubernetes"})
    store = open_store(settings)
    with owned(settings, store, place_of(settings, store), SystemClock().monotonic):
        assert not site.directory.exists()
    store.close()
