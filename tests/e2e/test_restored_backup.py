"""A daemon's database is restored from a backup and gives an id again: its new job meets nothing of the old one."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psutil

from tests.daemon import running_daemon
from tests.elastic.jobs import RunningJob
from tests.eventually import eventually

#: Tells what it finds, leaves something behind, and stays.
STAY = """
echo "found $(ls "$SCHED_CHECKPOINT_DIR" | wc -l) token $SCHED_TOKEN pid $$"
echo mine > "$SCHED_CHECKPOINT_DIR/checkpoint-9-9.pt"
exec sleep 1000000
"""


def told(job: RunningJob) -> list[str]:
    """The words that it says of what it found; none before."""
    lines = [line for line in job.log(f"{job.id}-1").splitlines() if line.startswith("found")]
    return lines[0].split() if lines else []


def test_a_job_with_the_id_of_another_gets_neither_its_checkpoint_nor_its_token_log_or_process(tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    with running_daemon(tmp_path, slots=2) as daemon:
        database = daemon.state_dir / "sched.db"
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as target:
            source.backup(target)
        request = {"command": ["sh", "-c", STAY], "grace_seconds": 1}
        former = RunningJob(daemon, **request)
        eventually(lambda: bool(told(former)), "the former job says nothing")
        first = told(former)
        pid = int(first[5])
        assert psutil.pid_exists(pid)
        daemon.stop()
        for path in daemon.state_dir.glob("sched.db*"):
            path.unlink()
        shutil.copy(backup, database)
        daemon.start()
        new = RunningJob(daemon, **request)
        assert new.id == former.id
        eventually(lambda: bool(told(new)), "the new job says nothing")
        eventually(lambda: not psutil.pid_exists(pid), "the former worker goes on")
        second = told(new)
        assert first[:2] == second[:2] == ["found", "0"]
        assert first[3] != second[3]
        assert new.log(f"{new.id}-1").count("found") == 1
        headers = {"authorization": f"Bearer {first[3]}"}
        assert daemon.client.post(f"/v1/jobs/{new.id}/workers/{new.id}-1", json={}, headers=headers).status_code == 401
