"""Logs of local workers: whole where they are small, bounded where they are not, with offsets that stay true."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.clusters.logs.files import log_path, save_log, trim_log
from scheduler.clusters.logs.reader import LocalLogs, WorkerLog
from scheduler.config import LocalSettings
from scheduler.model.ids import JobId, WorkerId, job_key
from tests.clusters.local_world import LocalWorld, Signpost
from tests.full_disk import files_limited

W = WorkerId("7-1")
LIMIT = 64 * 1024


def lines(first: int, last: int) -> bytes:
    return b"".join(b"%015d\n" % number for number in range(first, last))


def write(state_dir: Path, data: bytes, worker: WorkerId = W) -> str:
    path = log_path(state_dir, int(worker.partition("-")[0]), worker)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        file.write(data)
    return path


def disk_bytes(path: str) -> int:
    return os.stat(path).st_blocks * 512


def test_stdout_and_stderr_come_in_the_order_they_were_written(world: LocalWorld) -> None:
    world.shell("7-1", "echo one; echo two >&2; echo three; echo four >&2")
    world.ended("7-1")
    assert world.cluster.logs.read(W) == (b"one\ntwo\nthree\nfour\n", 19)


def test_a_log_is_read_piece_by_piece_and_from_its_end(tmp_path: Path) -> None:
    write(tmp_path, b"0123456789")
    logs = LocalLogs(tmp_path)
    assert logs.read(W, 0, 4) == (b"0123", 4)
    assert logs.read(W, 4, 100) == (b"456789", 10)
    assert logs.read(W, 10, 100) == (b"", 10)
    assert logs.read(W, -3, 100) == (b"789", 10)
    assert logs.read(W, -300, 100) == (b"0123456789", 10)
    assert logs.read(W, 300, 100) == (b"", 10)
    write(tmp_path, b"ab")
    assert logs.read(W, 10, 100) == (b"ab", 12)


@pytest.mark.parametrize("worker", ["8-1", "7-2", "", "7", "-", "../7-1", "7-../../7-1", "7-1/../7-1", "²-1", "7-1\0"])
def test_an_unknown_worker_has_an_empty_log(tmp_path: Path, worker: str) -> None:
    write(tmp_path, b"0123456789")
    assert LocalLogs(tmp_path).read(WorkerId(worker)) == (b"", 0)


def test_a_trimmed_log_keeps_its_end_and_its_offsets(tmp_path: Path) -> None:
    path = write(tmp_path, lines(0, 16384))  # 256 KiB
    assert trim_log(path, 2 * LIMIT, LIMIT) == 262144
    logs = LocalLogs(tmp_path)
    (log,) = logs.of_job(job_key(JobId(7), ""))
    assert (log.worker_id, log.end) == (W, 262144)
    assert LIMIT <= log.end - log.start < LIMIT + 4096
    assert disk_bytes(path) <= LIMIT + 4096
    assert logs.read(W, 0, 16) == (lines(log.start // 16, log.start // 16 + 1), log.start + 16)
    assert logs.read(W, 262144 - 32, 100) == (lines(16382, 16384), 262144)
    write(tmp_path, lines(16384, 16385))
    assert logs.read(W, 262144, 100) == (lines(16384, 16385), 262160)


def test_a_log_within_its_limit_is_left_whole(tmp_path: Path) -> None:
    path = write(tmp_path, lines(0, 1000))
    trim_log(path, 16000, 8000)
    assert LocalLogs(tmp_path).read(W, 0, 100_000) == (lines(0, 1000), 16000)


def test_offsets_stay_true_where_the_file_system_has_no_holes(tmp_path: Path) -> None:
    path = write(tmp_path, lines(0, 16384))
    assert trim_log(path, 2 * LIMIT, LIMIT, punch=lambda descriptor, size: False) == 262144
    logs = LocalLogs(tmp_path)
    assert logs.read(W, 0, 100) == (b"", 262144)
    write(tmp_path, lines(16384, 16386))
    assert os.path.getsize(path) == 32
    assert logs.read(W, 262160, 100) == (lines(16385, 16386), 262176)
    write(tmp_path, lines(16386, 32770))
    trim_log(path, 2 * LIMIT, LIMIT, punch=lambda descriptor, size: False)
    assert logs.of_job(job_key(JobId(7), "")) == (WorkerLog(W, 524320, 524320),)


def test_a_jobs_logs_are_listed_oldest_first_and_removed_together(tmp_path: Path) -> None:
    for worker in ("7-10", "7-9", "8-1"):
        write(tmp_path, b"x", WorkerId(worker))
    logs = LocalLogs(tmp_path)
    assert [log.worker_id for log in logs.of_job(job_key(JobId(7), ""))] == ["7-9", "7-10"]
    logs.remove(job_key(JobId(7), ""))
    logs.remove(job_key(JobId(7), ""))
    assert logs.of_job(job_key(JobId(7), "")) == ()
    assert logs.read(WorkerId("8-1")) == (b"x", 1)


@pytest.mark.parametrize("watched", [True, False])
def test_a_flood_stays_within_its_limit_whether_the_daemon_is_there_or_not(
    tmp_path: Path, signpost: Callable[[str], Signpost], watched: bool
) -> None:
    flooded, go = signpost("flooded"), signpost("go")
    total = 400 * 1024 * 1024
    world = LocalWorld(tmp_path / "state", LocalSettings(slots=4, log_bytes_max=1024 * 1024, log_files_max=4))
    try:
        flood = f"yes 0123456789abcde | head -c {total}; echo flooded > {flooded.path}; read -r _ < {go.path}; echo end"
        world.shell("7-1", flood)
        if not watched:
            world.cluster.close()
        flooded.read()
        path = log_path(world.state_dir, 7, W)
        assert os.path.getsize(path) == total
        if not watched:
            world.open()
        go.write()
        world.ended("7-1")
        (log,) = world.cluster.logs.of_job(job_key(JobId(7), ""))
        assert log.end == total + 4
        assert disk_bytes(path) <= 5 * 1024 * 1024
        assert world.cluster.logs.read(W, -20) == (b"0123456789abcde\nend\n", total + 4)
        assert world.cluster.logs.read(W, 0, 16)[1] == log.start + 16
        world.cluster.logs.remove(job_key(JobId(7), ""))
        assert world.cluster.logs.of_job(job_key(JobId(7), "")) == ()
    finally:
        world.tear_down()


def test_a_log_that_a_full_disk_refuses_leaves_no_half_of_it(tmp_path: Path) -> None:
    path = log_path(tmp_path, job_key(JobId(1), ""), W)
    with files_limited(4096), pytest.raises(OSError, match="File too large"):
        save_log(path, b"x" * 10_000, 0)
    assert list(Path(path).parent.iterdir()) == []
