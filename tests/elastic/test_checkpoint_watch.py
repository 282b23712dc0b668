"""What counts as a checkpoint among the files of a directory, and from when."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.elastic.membership import checkpoint_watch
from scheduler.elastic.membership.checkpoint_watch import (
    AHEAD_SECONDS_MAX,
    COMPLETE_SECONDS,
    SECONDS_MAX,
    CheckpointWatch,
)
from tests.elastic.processes import environment, python
from tests.eventually import eventually

WALL = 1_000_000.0
SETTLED = COMPLETE_SECONDS + 0.5


class Watched:
    """A directory of a job, whose files have the times of a clock that the test sets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 50.0
        self.watch = CheckpointWatch(directory, lambda: self.now, lambda: WALL + self.now)

    def write(self, name: str, content: str = "state", *, ago: float = 0.0) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        self.touch(path, ago)
        return path

    def touch(self, path: Path, ago: float = 0.0) -> None:
        moment = WALL + self.now - ago
        os.utime(path, (moment, moment))

    def replace(self, name: str, content: str) -> None:
        """As scripts should: under another name first."""
        self.write(f"{name}.new", content).rename(self.directory / name)

    def look(self, after: float = 0.0) -> float | None:
        """Seconds since the last checkpoint, as known after one more look `after` seconds later."""
        self.now += after
        self.watch.look()
        return self.watch.seconds_ago()

    def settle(self) -> float | None:
        """Seconds since the last checkpoint, as known once the files have stayed unchanged."""
        self.look()
        return self.look(SETTLED)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    found = Watched(tmp_path / "checkpoint")
    found.directory.mkdir()
    return found


def test_nothing_is_known_of_an_empty_directory_or_of_none(watched: Watched) -> None:
    assert watched.settle() is None
    watched.directory.rmdir()
    assert watched.settle() is None


def test_a_directory_that_cannot_be_read_is_no_error_and_is_looked_at_again(watched: Watched) -> None:
    watched.write("a.pt")
    assert watched.settle() == SETTLED
    moved = watched.directory.rename(watched.directory.with_name("moved"))
    watched.directory.write_text("no directory")
    assert watched.look(10.0) == SETTLED + 10.0
    watched.directory.unlink()
    moved.rename(watched.directory)
    watched.look(1.0)
    watched.write("b.pt")
    assert watched.settle() == SETTLED


def test_a_file_that_appears_counts_from_then_on_once_it_stays_as_it_is(watched: Watched) -> None:
    watched.look()
    watched.now += 7.0
    watched.write("a.pt")
    assert watched.look() is None
    assert watched.look(COMPLETE_SECONDS / 2) is None
    assert watched.look(COMPLETE_SECONDS) == 1.5 * COMPLETE_SECONDS
    assert watched.look(60.0) == 1.5 * COMPLETE_SECONDS + 60.0


def test_a_file_that_is_written_again_counts_again(watched: Watched) -> None:
    path = watched.write("a.pt")
    watched.settle()
    watched.now += 100.0
    watched.touch(path)
    assert watched.settle() == SETTLED


def test_a_file_that_grows_does_not_count_before_it_is_complete(watched: Watched) -> None:
    watched.write("1.pt")
    watched.settle()
    for size in range(1, 9):
        watched.write("2.pt", "x" * size)
        assert watched.look(3.0) == SETTLED + 3.0 * size
    assert watched.settle() == SETTLED


@pytest.mark.parametrize(
    "name",
    [
        ".a.pt.123",
        "a.pt.tmp",
        "a.tmp.77",
        "a_tmp.pt",
        "a.pt.part",
        "a.pt.partial",
        "a.pt.new",
        "a.pt~",
        "tmp-checkpoint-500",
        "tmpk3x_90ab",
        "train.log",
        "events.out.tfevents.1700000000.host",
        "a.lock",
        "tmp-checkpoint-500/a.pt",
        ".cache/a.pt",
        "deep/deeper/a.pt",
    ],
)
def test_temporary_files_and_logs_do_not_count(watched: Watched, name: str) -> None:
    watched.write(name)
    assert watched.settle() is None


@pytest.mark.parametrize("name", ["template.pt", "logits.pt", "part-1.pt", "temperature", "step-7/a.pt", "news.pt"])
def test_other_names_count(watched: Watched, name: str) -> None:
    watched.write(name)
    assert watched.settle() == SETTLED


def test_an_empty_file_and_a_link_do_not_count(watched: Watched) -> None:
    watched.write("empty.pt", "")
    (watched.directory / "latest").symlink_to(__file__)
    assert watched.settle() is None


def _replaced(watched: Watched, content: str) -> None:
    watched.replace("a.pt", content)


def _overwritten(watched: Watched, content: str) -> None:
    watched.write("a.pt", content)


@pytest.mark.parametrize(("write", "sizes"), [(_replaced, (5, 6, 7)), (_overwritten, (5, 5, 5))])
def test_a_file_that_is_written_more_often_than_it_is_looked_at_counts(
    watched: Watched, write: Callable[[Watched, str], None], sizes: tuple[int, ...]
) -> None:
    kept = watched.directory.parent / "kept"
    for number, size in enumerate(sizes):
        if (watched.directory / "a.pt").exists():
            kept.unlink(missing_ok=True)
            kept.hardlink_to(watched.directory / "a.pt")  # else the next file may get its inode
        write(watched, str(number) * size)
        last = watched.look(1.0)
    assert last == 1.0


def test_an_older_file_under_another_name_does_not_count(watched: Watched) -> None:
    path = watched.write("last.pt")
    watched.settle()
    watched.now += 50.0
    path.rename(watched.directory / "before-last.pt")
    assert watched.settle() == SETTLED + 50.0 + SETTLED


def test_a_file_that_was_there_before_counts_by_its_own_time(watched: Watched) -> None:
    watched.write("a.pt", ago=400.0)
    assert watched.settle() == 400.0 + SETTLED


def test_a_file_from_the_future_counts_once_it_is_written_again(watched: Watched) -> None:
    path = watched.write("a.pt", ago=-30.0)
    assert watched.settle() is None
    watched.now += 100.0
    watched.touch(path)
    assert watched.settle() == SETTLED


def test_a_file_with_a_wrong_time_does_not_hide_later_ones(watched: Watched) -> None:
    watched.write("copied.pt", ago=-2.0 * AHEAD_SECONDS_MAX)
    assert watched.settle() is None
    watched.write("a.pt")
    assert watched.settle() == SETTLED


def test_a_large_directory_is_looked_at_in_part_and_the_newest_directories_first(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_watch, "ENTRIES_MAX", 30)
    for number in range(20):
        path = watched.write(f"step-{number}/a.pt", ago=1000.0 - number)
        watched.touch(path.parent, ago=1000.0 - number)
    assert watched.settle() == 981.0 + SETTLED
    for number in range(500):
        watched.write(f"file-{number}", ago=2000.0)
    watched.settle()
    assert watched.watch._files is not None
    assert len(watched.watch._files) <= 30


def test_what_is_told_is_no_longer_than_a_scheduler_takes(watched: Watched) -> None:
    watched.write("a.pt")
    watched.settle()
    watched.now = 1e18
    assert watched.watch.seconds_ago() == SECONDS_MAX


#: Writes one checkpoint, in one of the ways that scripts have, for each line that it reads.
PROGRAM = """
import os, sys
directory = sys.argv[1]
for number, line in enumerate(sys.stdin):
    way, target = line.strip(), os.path.join(directory, f"step-{number}.pt")
    if way == "renamed":
        with open(target + ".tmp", "wb") as file:
            file.write(bytes(1000))
        os.rename(target + ".tmp", target)
    elif way == "direct":
        with open(target, "wb") as file:
            file.write(bytes(1000))
    elif way == "directory":
        os.makedirs(target)
        with open(os.path.join(target, "model.pt"), "wb") as file:
            file.write(bytes(1000))
    print(way, flush=True)
"""


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """A real process that writes checkpoints as told."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def write(running: "subprocess.Popen[str]", way: str) -> None:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(f"{way}\n")
        running.stdin.flush()
        assert running.stdout.readline().strip() == way

    with python([str(program), str(tmp_path)], env=[environment()]) as [process]:
        yield lambda way: write(process, way)


def test_the_checkpoints_of_a_process_are_noticed_by_the_thread(
    tmp_path: Path, writing: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_watch, "COMPLETE_SECONDS", 0.1)
    monkeypatch.setattr(checkpoint_watch, "_LOOK_SECONDS", 0.02)
    (tmp_path / "program.py").touch()
    watch = CheckpointWatch(tmp_path)
    watch.start()
    eventually(lambda: watch.seconds_ago() is not None, "the program's own file is not noticed")
    for way in ("renamed", "direct", "directory"):
        before = watch._written_at
        writing(way)
        eventually(lambda before=before: watch._written_at != before, f"not noticed: {way}")  # type: ignore[misc]
    watch.stop()
