"""`sched submit`: from options and files, now and later, waiting and following."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.calls import Call
from tests.cli.test_jobs import until
from tests.daemon import ROOT, Daemon, running_daemon

Sched = Callable[..., Call]


def test_words_after_the_first_belong_to_the_command(sched: Sched) -> None:
    call = sched("submit", "--wait", "-o", "json", "--name", "words", "test", "-n", "--wait").ok()
    assert call.document["job"]["command"] == ["test", "-n", "--wait"]
    assert call.document["job"]["state"] == "SUCCEEDED"


def test_the_end_of_the_job_is_the_exit_status(sched: Sched, daemon: Daemon) -> None:
    done = sched("submit", "--wait", "--", "true").ok()
    assert done.out.splitlines()[0].endswith("submitted")
    assert done.out.splitlines()[1].endswith("SUCCEEDED")
    failed = sched("submit", "--wait", "--max-retries", "0", "--", "false")
    assert failed.status == 1
    assert "FAILED" in failed.out.splitlines()[1]


def test_a_cancelled_job_has_an_exit_status_of_its_own(sched: Sched) -> None:
    suicide = f"exec {sys.executable} -m scheduler.cli cancel --url $SCHED_URL --token '' $SCHED_JOB_ID"
    assert sched("submit", "--follow", "--grace", "1", "-C", str(ROOT), "-c", suicide).status == 8


def test_follow_prints_what_the_job_writes(sched: Sched) -> None:
    call = sched("submit", "--follow", "--max-retries", "0", "-c", "echo one; echo two >&2; exit 3")
    assert call.status == 1
    assert call.out.splitlines()[1:] == ["one", "two"]
    assert "FAILED" in call.err
    quiet = sched("submit", "--follow", "-o", "json", "-c", "echo aside").ok()
    assert quiet.document["job"]["state"] == "SUCCEEDED"
    assert "aside" in quiet.err


def test_follow_goes_on_with_the_next_attempt(sched: Sched, tmp_path: Path) -> None:
    script = "echo attempt; if [ -e seen ]; then echo again; else touch seen; exit 1; fi"
    call = sched("submit", "--follow", "-C", str(tmp_path), "-c", script).ok()
    assert call.out.splitlines()[1:] == ["attempt", "attempt", "again"]
    assert "-- output of worker" in call.err


def test_ctrl_c_detaches_and_says_how_to_cancel(daemon: Daemon) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduler.cli", "submit", "--follow", "--grace", "1", "-c", "echo up; exec sleep 60"],
        cwd=ROOT,
        env={**os.environ, "SCHED_STATE_DIR": str(daemon.state_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    job = process.stdout.readline().split()[1]
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130
    assert f'detached: job {job} keeps running; to stop it, run "sched cancel {job}"' in said
    until(daemon, int(job), "RUNNING")
    daemon.client.post(f"/v1/jobs/{job}/cancel")
    until(daemon, int(job), "CANCELLED")


def test_the_same_client_key_gives_the_same_job(sched: Sched) -> None:
    words = ("submit", "-o", "json", "--client-key", "once", "--", "true")
    assert sched(*words).ok().document["id"] == sched(*words).ok().document["id"]


def test_a_job_that_cannot_start_now_is_warned_of(sched: Sched, daemon: Daemon) -> None:
    call = sched("submit", "--workers", "99", "--name", "huge", "--", "true").ok()
    assert "it waits until nodes are added" in call.err
    sched("cancel", "huge").ok()
    nightly = sched("submit", "--cron", "0 3 * * *", "--gpu-type", "H900", "-o", "json", "--", "true").ok()
    number = nightly.document["id"]
    assert f"sched: job {number}: no node has GPU type H900: the job waits until such a node is added" in nightly.err
    sched("cancel", number).ok()


def test_a_file_and_options_make_one_job(sched: Sched, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("name: filed\ncommand: [sh, -c, 'echo $A $B $PWD']\nenv: {A: '1', B: file}\nworkdir: here\n")
    (tmp_path / "here").mkdir()
    call = sched("submit", "-f", str(path), "--env", "B=flag", "--follow").ok()
    assert call.out.splitlines()[1] == f"1 flag {tmp_path / 'here'}"


def test_a_job_file_may_stand_in_the_place_of_the_command(sched: Sched, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: [sh, -c, 'echo $A']\nenv: {A: file}\n")
    call = sched("submit", "--env", "A=flag", "--follow", str(path)).ok()
    assert call.out.splitlines()[1] == "flag"
    sched("submit", str(path), "--follow").failed(2, f"--follow: options must come before the job file {path}")


def test_a_toml_file_may_hold_a_recurring_job(sched: Sched, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('command = "true"\ncron = "*/5 * * * *"\ntimezone = "UTC"\n')
    answer = sched("submit", "-f", str(path), "-o", "json").ok().document
    sched("cancel", answer["id"]).ok()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("command: [a]\n\nmin_workers: 5\nmax_workers: 4\n", 3, "min_workers: 5 exceeds max_workers 4"),
        ("command: [a]\nworkres: 5\n", 2, "workres: "),
        ("command: [a]\nenv:\n  A: 5\n", 3, "env.A: "),
        ("command: [a]\nenv:\n  'A B': x\n", 3, "env.A B"),
        ("command: [a, 5]\n", 1, "command.1: "),
        ("name: x\ncommand: 5\n", 2, "command: "),
        ("command: [a]\npriority: high\n", 2, "priority: "),
        ("command: [a]\ntime_limit_seconds: 0\n", 2, "time_limit_seconds: "),
        ("command: [a]\ncron: nonsense or not\n", 2, "cron: "),
        ("command: [a]\ncron: 0 3 * * *\nworkers: 0\n", 3, "workers: "),
        ("command: [a]\ncron: 0 3 * * *\ntimezone: Mars/Base\n", 3, "timezone: "),
        ("command: [a]\ntimezone: UTC\n", 2, "timezone: requires --cron"),
    ],
)
def test_a_bad_field_of_a_file_is_named_with_its_line(
    sched: Sched, tmp_path: Path, text: str, line: int, said: str
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    sched("submit", "-f", str(path)).failed(2, f"{path}:{line}: {said}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--min", "3", "--max", "2"], "--min: 3 exceeds --max 2"),
        (["--workers", "5-2"], "--workers: 5 exceeds"),
        (["--max", "0"], "--max: "),
        (["--slots", "0"], "--slots-per-worker: "),
        (["--priority", "99999999"], "--priority: "),
        (["--env", "A B=1"], "--env: "),
        (["--time-limit", "0"], "--time-limit: "),
        (["--cron", "a b c d e"], "--cron: "),
        (["--data", "shards=10", "--data", "foo=1"], "--data: data.foo: unknown field"),
        (["--data", "epochs=2"], "--data: data.shards: is required"),
        (["--data", "shards=1", "--data", "epochs=0"], "--data: data.epochs: must be at least 1, not 0"),
        (
            ["--data", "shards=1000000000", "--data", "epochs=1000000"],
            "--data: data.shards: 1,000,000,000 in 1,000,000 epochs are 1,000,000,000,000,000, more than 1,000,000,000",
        ),
        (["--cron", "0 3 * * *", "--wait"], "cannot be used with a recurring job"),
        (["--runtime", "magic"], "--runtime"),
        (["-f", "missing.yaml"], "missing.yaml: No such file"),
        (["-f", "."], "the name of a job file must end in .yaml"),
    ],
)
def test_a_bad_option_is_named(sched: Sched, options: list[str], said: str) -> None:
    sched("submit", *options, "--", "true").failed(2, said)


def test_a_broken_file_is_told_before_any_daemon_is_asked(alone: Sched, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("a: [")
    alone("submit", "-f", str(path)).failed(2, f"{path}:1: not valid YAML")


def test_what_is_no_text_is_refused_in_one_line(alone: Sched, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text('{"command": ["train", "\\ud800"]}')
    alone("submit", str(path)).failed(2, r'"train","\ud800', "the request is not UTF-8 text")
    alone("submit", "--", "train", os.fsdecode(b"\xff")).failed(2, r'"train","\udcff', "cannot be sent")


def test_a_submission_outlives_a_restart_of_the_daemon(tmp_path: Path) -> None:
    with running_daemon(tmp_path) as daemon:
        os.mkfifo(tmp_path / "gate")
        process = subprocess.Popen(
            [sys.executable, "-m", "scheduler.cli", "submit", "--wait", "-C", str(tmp_path), "-c", "read line < gate"],
            cwd=ROOT,
            env={**os.environ, "SCHED_STATE_DIR": str(daemon.state_dir)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "job 1 submitted\n"
        until(daemon, 1, "RUNNING")
        daemon.kill()
        assert "retrying" in process.stderr.readline()
        daemon.start()
        (tmp_path / "gate").write_text("go on\n")
        said, _ = process.communicate(timeout=240)
        assert (process.returncode, said) == (0, "job 1 SUCCEEDED\n")


def test_two_submissions_are_two_jobs(sched: Sched) -> None:
    words = ("submit", "-o", "json", "--", "true")
    assert sched(*words).ok().document["id"] != sched(*words).ok().document["id"]
