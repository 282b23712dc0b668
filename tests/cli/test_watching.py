"""logs, events, top and hosts."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from scheduler.cli.client.client import Client
from scheduler.cli.client.connection import find_daemon
from scheduler.cli.commands.top import watch
from tests.cli.calls import Call
from tests.cli.test_jobs import submitted, until
from tests.daemon import ROOT, Daemon

Sched = Callable[..., Call]


def test_logs_are_what_the_worker_wrote(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "wrote", command="printf 'a\\nb\\n\\377c'")
    until(daemon, job, "SUCCEEDED")
    assert sched("logs", str(job), "--tail", "2", "-o", "json").ok().document["text"] == "b\n\ufffdc"
    piece = sched("logs", "wrote", "-o", "json", "--worker", "1").ok().document
    assert piece == {"worker": f"{job}-1", "offset": 6, "text": "a\nb\n\ufffdc"}
    assert sched("logs", str(job), "--tail", "0").ok().out == ""
    assert sched("logs", str(job), "-f", "--tail", "2", "-o", "json").ok().document["text"] == "b\n\ufffdc"
    sched("logs", str(job), "--worker", f"{job}-9").failed(3, f"no worker {job}-9")
    sched("logs", str(job), "--worker", "nonsense").failed(2, "worker")


def test_carriage_returns_of_a_progress_bar_end_no_line(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "bar", command="printf 'one\\ntwo\\n 0%%\\r 50%%\\r 100%%\\nthree\\n'")
    until(daemon, job, "SUCCEEDED")
    assert sched("logs", str(job), "--tail", "3").ok().out.startswith("two\n")


def test_logs_longer_than_a_page_come_whole(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "long", command="seq 100000")
    until(daemon, job, "SUCCEEDED")
    lines = sched("logs", str(job)).ok().out.splitlines()
    assert lines == [str(number) for number in range(1, 100001)]
    assert sched("logs", str(job), "-n", "20000").ok().out.splitlines() == lines[-20000:]


def test_logs_as_json_hold_each_character_whole(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "umlauts", command=f'{sys.executable} -c \'print("a" + "\\u00fc" * 200000)\'')
    until(daemon, job, "SUCCEEDED")
    pieces = [json.loads(line) for line in sched("logs", str(job), "-o", "json").ok().out.splitlines()]
    assert len(pieces) > 1
    assert "".join(piece["text"] for piece in pieces) == "a" + "\u00fc" * 200000 + "\n"
    assert pieces[-1]["offset"] == 400002


def test_events_tell_what_happened_in_order(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "eventful", command="true")
    until(daemon, job, "SUCCEEDED")
    document = sched("events", "--job", "eventful", "-o", "json").ok().document
    kinds = [event["kind"] for event in document["events"]]
    assert kinds[0] == "JOB_SUBMITTED"
    assert kinds[-1] == "JOB_SUCCEEDED"
    newest = sched("events", "--job", str(job), "--limit", "1", "-o", "json").ok().document["events"]
    assert [event["kind"] for event in newest] == ["JOB_SUCCEEDED"]
    first = document["events"][0]["id"]
    later = sched("events", "--job", str(job), "--after", str(first), "-o", "json").ok().document["events"]
    assert later == document["events"][1:]
    assert "JOB_SUCCEEDED" in sched("events", "--job", str(job)).ok().out


def test_followed_events_come_one_a_line_until_ctrl_c(sched: Sched, daemon: Daemon) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduler.cli", "events", "-f", "-n", "1", "-o", "json"],
        cwd=ROOT,
        env={**os.environ, "SCHED_STATE_DIR": str(daemon.state_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    job = submitted(sched, "heard", command="true")
    for line in process.stdout:
        event = json.loads(line)
        if (event["job_id"], event["kind"]) == (job, "JOB_SUCCEEDED"):
            break
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert (process.returncode, said) == (130, "")


def test_top_draws_a_mark_for_every_slot(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "drawn", "-w", "2")
    until(daemon, job, "RUNNING")
    text = sched("top", "--once").ok().out
    assert "■■··  2/4" in text
    assert "2 of 4 slots used (50%)" in text
    assert "drawn" in text
    document = sched("top", "-o", "json").ok().document
    assert document["slots_used"] == 2
    assert [node["slots"] for node in document["nodes"]] == [4]
    sched("cancel", "drawn").ok()
    until(daemon, job, "CANCELLED")


def test_the_live_view_can_be_shown_from_a_program(
    alone: Sched, daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([True, True, False])
    with Client(find_daemon(daemon.url, None, None)) as client:
        watch(client, interval_seconds=0.0, go_on=lambda: next(looks))
    assert "of 4 slots used" in capsys.readouterr().out


def test_hosts_are_exactly_what_discover_hosts_answers(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "hosted", "-w", "3")
    until(daemon, job, "RUNNING")
    answer = daemon.client.get(f"/v1/jobs/{job}/discover_hosts").text
    assert sched("hosts", str(job)).ok().out == answer == "127.0.0.1:3\n"
    assert sched("hosts", "hosted").ok().out == answer
    document = sched("hosts", "hosted", "-o", "json").ok().document
    assert [worker["rank"] for worker in document["workers"]] == [0, 1, 2]
    sched("cancel", "hosted").ok()
    until(daemon, job, "CANCELLED")
    sched("hosts", str(job)).failed(4, f"job {job} has ended")


def test_a_job_without_hosts_gives_no_output_and_no_success(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "hostless", "--node-selector", "zone=nowhere")
    sched("hosts", str(job)).failed(7, f"job {job} is waiting and has no hosts yet")
    sched("cancel", "hostless").ok()
    until(daemon, job, "CANCELLED")


def test_hosts_loads_no_library_that_it_does_not_need(daemon: Daemon, sched: Sched) -> None:
    job = submitted(sched, "quick")
    until(daemon, job, "RUNNING")
    script = (
        "import sys; from scheduler.cli.main import run; "
        f"assert run(['hosts', '{job}']) == run(['hosts', 'quick']) == 0; "
        "assert not {'typer', 'httpx', 'rich', 'pydantic', 'yaml'} & set(sys.modules), 'slow start'"
    )
    environment = {**os.environ, "SCHED_STATE_DIR": str(daemon.state_dir)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout) == (0, "127.0.0.1:1\n" * 2), done.stderr
    sched("cancel", "quick").ok()
    until(daemon, job, "CANCELLED")
