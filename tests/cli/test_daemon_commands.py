"""`sched serve` and `sched db`."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from scheduler import __version__
from tests.cli.calls import Call
from tests.daemon import ROOT

Sched = Callable[..., Call]


def test_serve_runs_the_daemon_that_its_options_describe(alone: Sched, tmp_path: Path) -> None:
    state, token = tmp_path / "state", tmp_path / "users"
    token.write_text("0123456789abcdef\n")
    database = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    command = [sys.executable, "-m", "scheduler.cli", "serve", "--port", "0", "--slots", "3", "--state-dir", str(state)]
    process = subprocess.Popen(
        [*command, "--token-file", str(token), "--database-url", database],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith("SCHED_")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        url = next(json.loads(line)["url"] for line in process.stderr if '"serving"' in line)
        assert (tmp_path / "elsewhere.db").exists()
        alone("list", "--url", url).failed(6)
        assert alone("list", "--state-dir", str(state)).ok()
        alone("serve", "--port", "0", "--state-dir", str(state)).failed(4, f"pid {process.pid}")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=240)
    assert process.returncode == 0
    assert not (state / "daemon.json").exists()


def test_db_upgrade_makes_what_check_asks_for(alone: Sched, tmp_path: Path) -> None:
    state = str(tmp_path / "fresh")
    alone("db", "check", "--state-dir", state).failed(4, "sched db upgrade")
    assert alone("db", "version", "--state-dir", state, "-o", "json").ok().document["schema"] == "other"
    document = alone("db", "upgrade", "--state-dir", state, "-o", "json").ok().document
    assert document["version"] == __version__
    assert document["database"].endswith("sched.db")
    assert "up to date" in alone("db", "check", "--state-dir", state).ok().out
    assert alone("db", "version", "--state-dir", state).ok().out.startswith(f"sched {__version__}: the database is up")
    assert "up to date" in alone("db", "upgrade", "--state-dir", state).ok().out


def test_db_disown_asks_for_the_upgrade_of_an_older_database(alone: Sched, tmp_path: Path) -> None:
    state = str(tmp_path / "older")
    alone("db", "upgrade", "--state-dir", state).ok()
    with sqlite3.connect(tmp_path / "older" / "sched.db") as database:
        for column in ("anchor_now", "anchor_wall", "anchor_booted", "anchor_boot", "place", "place_name"):
            database.execute(f"ALTER TABLE lease DROP COLUMN {column}")
        database.execute("UPDATE alembic_version SET version_num = '0018'")
    database.close()
    alone("db", "disown", "--state-dir", state).failed(4, "sched db upgrade")
    alone("db", "upgrade", "--state-dir", str(tmp_path / "newest")).ok()
    assert "any state directory" in alone("db", "disown", "--state-dir", str(tmp_path / "newest")).ok().out


def test_version(alone: Sched) -> None:
    assert alone("--version").ok().out == f"sched {__version__}\n"
