"""Checkpoints are whole or absent, and the newest generation wins."""

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from scheduler.elastic.errors import ElasticError
from scheduler.elastic.training.checkpoint import CheckpointDirectory
from tests.full_disk import files_limited


def test_the_newest_generation_wins_over_a_higher_step_of_an_older_one(tmp_path: Path) -> None:
    directory = CheckpointDirectory(tmp_path)
    assert directory.read() is None
    directory.write(3, 100, {"from": "three"})
    directory.write(2, 500, {"from": "a group that was given up"})
    assert directory.read() == (100, {"from": "three"})


def test_two_checkpoints_are_kept(tmp_path: Path) -> None:
    directory = CheckpointDirectory(tmp_path)
    for step in range(9, 13):
        directory.write(1, step, {"step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-1-11.pt", "checkpoint-1-12.pt"]


def test_a_checkpoint_that_cannot_be_read_gives_way_to_the_one_before(tmp_path: Path) -> None:
    directory = CheckpointDirectory(tmp_path)
    directory.write(1, 1, {"step": 1})
    whole = directory.write(1, 2, {"step": 2}).read_bytes()
    for broken in (b"", whole[: len(whole) // 2], b"nonsense"):
        (tmp_path / "checkpoint-1-2.pt").write_bytes(broken)
        assert directory.read() == (1, {"step": 1})


def test_a_full_disk_is_an_error_of_the_system_also_where_torch_writes_in_pieces(tmp_path: Path) -> None:
    directory = CheckpointDirectory(tmp_path)
    with files_limited(4096), pytest.raises(OSError, match="File too large"):
        directory.write(1, 1, {"large": torch.zeros(1_000_000)})
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_checkpoint_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = CheckpointDirectory(tmp_path)
    directory.write(1, 1, {"step": 1})

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            directory.write(1, 2, {"step": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-1-1.pt"]
    assert directory.read() == (1, {"step": 1})


def test_what_killed_writers_have_left_is_removed_by_the_next_write_and_what_is_newer_is_not(tmp_path: Path) -> None:
    for name in ("2-90", "3-5", "3-7", "4-1"):
        (tmp_path / f".checkpoint-{name}.pt.17").write_bytes(b"half")
    (tmp_path / ".checkpoint-notes").write_bytes(b"of the user")
    CheckpointDirectory(tmp_path).write(3, 6, {"step": 6})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".checkpoint-3-7.pt.17",
        ".checkpoint-4-1.pt.17",
        ".checkpoint-notes",
        "checkpoint-3-6.pt",
    ]


@contextmanager
def memory_limited(bytes_more: int) -> Iterator[None]:
    """This process can take no more than this beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + bytes_more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_a_training_does_not_begin_anew_where_the_system_withholds_its_only_checkpoint(tmp_path: Path) -> None:
    directory = CheckpointDirectory(tmp_path)
    whole = directory.write(1, 5, {"large": torch.zeros(40_000_000)})
    told = (
        rf"checkpoint {whole} cannot be read, and may be whole: [^\n]*\. Make it readable, or remove it to begin anew$"
    )
    with memory_limited(64 * 2**20), pytest.raises(ElasticError, match=told):
        directory.read()
    whole.rename(tmp_path / "elsewhere")
    whole.symlink_to(whole)
    with pytest.raises(ElasticError, match=told):
        directory.read()
    whole.unlink()
    (tmp_path / "elsewhere").rename(whole)
    found = directory.read()
    assert found is not None
    assert found[0] == 5


def test_a_checkpoint_that_the_system_withholds_gives_way_to_the_one_before(tmp_path: Path) -> None:
    directory = CheckpointDirectory(tmp_path)
    directory.write(1, 1, {"step": 1})
    withheld = tmp_path / "checkpoint-1-2.pt"
    withheld.symlink_to(withheld)
    assert directory.read() == (1, {"step": 1})


WRITER = """
import sys, torch
from pathlib import Path
from scheduler.elastic.training.checkpoint import CheckpointDirectory
directory = CheckpointDirectory(Path(sys.argv[1]))
for step in range(1, 10**6):
    directory.write(1, step, {"step": step, "payload": torch.full((200_000,), float(step))})
    print(step, flush=True)
"""


@pytest.mark.torch
def test_a_writer_killed_at_any_moment_leaves_a_readable_checkpoint(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer.stdout:
        finished = [int(writer.stdout.readline()) for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        finished += [int(line) for line in writer.stdout if line.endswith("\n")]
    writer.wait()
    found = CheckpointDirectory(tmp_path).read()
    assert found is not None
    step, tree = found
    assert step >= finished[-1]
    assert tree["step"] == step
    assert torch.equal(tree["payload"], torch.full((200_000,), float(step)))
