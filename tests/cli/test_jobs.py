"""Jobs on the command line: list, show, priority, scale, cancel, suspend, resume, explain, names, recurring jobs."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.render.output import show
from scheduler.cli.render.tables import job_fields
from tests.cli.calls import Call
from tests.daemon import EVENT_SECONDS_MAX, Daemon
from tests.eventually import becomes, eventually

Sched = Callable[..., Call]


def submitted(sched: Sched, name: str, *options: str, command: str = "exec sleep 60") -> int:
    words = ("submit", "-o", "json", "--name", name, "--grace", "1", *options, "-c", command)
    number: int = sched(*words).ok().document["id"]
    return number


def view(sched: Sched, job: int | str) -> dict[str, Any]:
    document: dict[str, Any] = sched("show", str(job), "-o", "json").ok().document
    return document


def until(daemon: Daemon, job: int, *states: str) -> None:
    """Wait until the daemon says that the job is in one of the states; events of it may be known a moment before."""

    def state() -> str:
        return str(daemon.client.get(f"/v1/jobs/{job}").json()["state"])

    eventually(lambda: state() in states, lambda: f"job {job} is {state()}", EVENT_SECONDS_MAX)


def test_a_listed_job_has_one_line_that_fits_and_shows_its_id(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "a-name-so-long-that-it-hardly-fits-into-eighty-columns-beside-all-the-others")
    until(daemon, job, "RUNNING")
    table = sched("list").ok().out
    assert f"{job}  a-name-so-long" in table
    assert "RUNNING" in table
    assert "1 of 1" in table
    assert "\x1b[" not in table
    sched("cancel", str(job)).ok()
    until(daemon, job, "CANCELLED")
    assert not [each for each in sched("list", "-o", "json").ok().document["jobs"] if each["id"] == job]
    assert [each for each in sched("list", "-o", "json", "--all").ok().document["jobs"] if each["id"] == job]


def test_a_job_shows_how_far_it_is_with_its_data(sched: Sched, daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: exec sleep 60\ngrace_seconds: 1\ndata: {shards: 1500, epochs: 2, max_attempts: 1}\n")
    job = sched("submit", "-o", "json", str(file)).ok().document["id"]
    until(daemon, job, "RUNNING")
    assert "0 of 3,000 shards done (0%), epoch 0, 2 in all" in sched("show", str(job)).ok().out
    sched("cancel", str(job)).ok()
    file.write_text('command: [sleep, "1"]\n\ndata:\n  shards: none\n')
    sched("submit", str(file)).failed(2, "job.yaml:4: data.shards")


def test_high_rates_are_told_in_whole_numbers(sched: Sched, capsys: pytest.CaptureFixture[str]) -> None:
    job = view(sched, submitted(sched, "fast", command="true"))
    job["progress"] |= {"samples_per_second": 123_456.7, "throughput": [[1, 98_765.4], [2, 12.3456]]}
    show(job_fields(job, 0.0))
    shown = " ".join(capsys.readouterr().out.split())
    assert "123,457 samples/s" in shown
    assert "1 workers 98,765/s, 2 workers 12.35/s" in shown


#: Reports as a worker does that has seen a checkpoint.
SAYS_SAVED = """
import json, os, urllib.request
url = "{SCHED_URL}/v1/jobs/{SCHED_JOB_ID}/workers/{SCHED_WORKER_ID}".format(**os.environ)
headers = {"Authorization": "Bearer " + os.environ["SCHED_TOKEN"], "Content-Type": "application/json"}
report = json.dumps({"generation": 1, "ready": True, "checkpoint_seconds_ago": 7200}).encode()
urllib.request.urlopen(urllib.request.Request(url, report, headers)).read()
"""


def test_a_job_shows_when_its_last_checkpoint_was_written(sched: Sched, daemon: Daemon, tmp_path: Path) -> None:
    script = tmp_path / "says_saved.py"
    script.write_text(SAYS_SAVED)
    job = submitted(sched, "saves", command=f"{sys.executable} {script} && exec sleep 60")
    eventually(lambda: view(sched, job)["progress"]["last_checkpoint_at"], "no checkpoint is known", EVENT_SECONDS_MAX)
    assert "last checkpoint 2h ago" in " ".join(sched("show", str(job)).ok().out.split())
    sched("cancel", str(job)).ok()
    until(daemon, job, "CANCELLED")


def test_filters_narrow_the_list(sched: Sched, daemon: Daemon) -> None:
    one = submitted(sched, "filtered", "--label", "team=a", "--label", "x=1", "--user", "ann", command="true")
    two = submitted(sched, "filtered", "--label", "team=b", command="true")
    until(daemon, one, "SUCCEEDED")
    until(daemon, two, "SUCCEEDED")

    def ids(*options: str) -> list[int]:
        document = sched("list", "--all", "--name", "filtered", "-o", "json", *options).ok().document
        return [each["id"] for each in document["jobs"]]

    assert ids() == [one, two]
    assert ids("--label", "team=a", "--label", "x=1") == [one]
    assert ids("--user", "ann") == [one]
    assert ids("--state", "succeeded", "--limit", "1") == [two]
    assert ids("--state", "queued") == []
    assert "1 job shown, the newest: use --limit for more" in sched("list", "--all", "--limit", "1").ok().err


def test_nothing_to_list_is_said_on_stderr(sched: Sched) -> None:
    call = sched("list", "--name", "nobody-has-this-name").ok()
    assert call.out == ""
    assert "sched list --all" in call.err


def test_show_tells_workers_and_what_was_asked_for(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "shown", "-w", "2", "--memory", "1GiB", "--label", "a=b", "--time-limit", "1h", "-e", "A=1")
    until(daemon, job, "RUNNING")
    document = view(sched, job)
    assert document["env"] == {"A": "1"}
    assert document["memory_mib_per_worker"] == 1024
    assert [worker["rank"] for worker in document["live_workers"]] == [0, 1]
    text = sched("show", "shown").ok().out
    for said in (f"{job} shown", "RUNNING", "2 of 2", "1024 MiB", "a=b", "1h", f"{job}-1", f"{job}-2"):
        assert said in text
    sched("cancel", "shown").ok()
    until(daemon, job, "CANCELLED")


def test_a_job_of_which_only_the_surplus_is_preemptible_says_so(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "safe", "--preemptible-surplus")
    assert view(sched, job)["preemptible"] == "surplus"
    assert "(preemptible beyond its minimum)" in sched("show", str(job)).ok().out


def test_priority_may_be_negative_and_scale_changes_either_bound(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "changed", "--node-selector", "zone=nowhere")
    assert sched("priority", str(job), "-5").ok().out == f"job {job}: priority set to -5\n"
    assert sched("scale", str(job), "--max", "3", "-o", "json").ok().document == {"id": job, "max_workers": 3}
    both = sched("scale", "changed", "--min", "2", "--max", "2").ok().out
    assert both == f"job {job}: bounds set to min 2 and max 2 workers\n"
    assert sched("priority", str(job), "7", "-o", "json").ok().document == {"id": job, "priority": 7}
    sched("scale", str(job)).failed(2, "nothing to change")
    sched("scale", str(job), "--min", "3", "--max", "2").failed(2, "--min: must not exceed --max (2)")
    sched("scale", str(job), "--min", "9").failed(2, "min_workers 9 must not exceed max_workers")
    sched("priority", str(job), "high").failed(2, "'N'", "sched priority --help")
    sched("cancel", str(job)).ok()
    until(daemon, job, "CANCELLED")
    sched("priority", str(job), "1").failed(4, f"job {job} has already ended")


def test_suspend_and_resume(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "paused")
    until(daemon, job, "RUNNING")
    assert sched("suspend", "paused").ok().out == f"job {job}: suspending\n"
    until(daemon, job, "SUSPENDED")
    assert sched("resume", "paused", "-o", "json").ok().document == {"accepted": [job], "refused": []}
    until(daemon, job, "RUNNING")
    sched("cancel", "paused").ok()
    until(daemon, job, "CANCELLED")


def test_one_refusal_keeps_no_other_job_from_being_cancelled(sched: Sched, daemon: Daemon) -> None:
    one, two = submitted(sched, "first"), submitted(sched, "second")
    call = sched("cancel", str(one), "999999", str(two), "-o", "json")
    assert call.status == 3
    assert call.document["accepted"] == [one, two]
    assert [each["name"] for each in call.document["refused"]] == ["999999"]
    for job in (one, two):
        until(daemon, job, "CANCELLED")
    sched("cancel", str(one)).failed(4, "has already ended")
    sched("resume", str(one)).failed(4, "has already ended")


def test_a_name_means_the_job_that_lives_else_the_newest(sched: Sched, daemon: Daemon) -> None:
    old = submitted(sched, "same", command="true")
    until(daemon, old, "SUCCEEDED")
    assert view(sched, "same")["id"] == old
    one = submitted(sched, "same")
    assert view(sched, "same")["id"] == one
    two = submitted(sched, "same")
    sched("show", "same").failed(2, f"'same' is the name of several jobs ({one}, {two}): use an id")
    sched("cancel", str(one), str(two)).ok()
    until(daemon, one, "CANCELLED")
    until(daemon, two, "CANCELLED")
    assert view(sched, "same")["id"] == two


@pytest.mark.parametrize("command", ["show", "explain", "hosts", "logs", "cancel", "suspend", "resume"])
def test_an_unknown_job_is_not_found(sched: Sched, command: str) -> None:
    sched(command, "987654").failed(3, "job 987654 not found")
    sched(command, "no-such-name").failed(3, "job 'no-such-name' not found", "sched list --all")


def test_explain_says_why_a_job_waits(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "picky", "--gpu-type", "none-has-it")
    next(event for event in daemon.events(job=job) if event["kind"] == "JOB_WAITS")
    becomes(lambda: sched("explain", "picky", "-o", "json").ok().document["reason"], "NO_MATCHING_NODE")
    text = sched("explain", "picky").ok().out
    assert "No node has" in text
    assert "NO_MATCHING_NODE" in text
    sched("cancel", "picky").ok()
    until(daemon, job, "CANCELLED")


def test_recurring_jobs_are_listed_shown_and_cancelled_like_others(sched: Sched) -> None:
    call = sched("submit", "--cron", "0 3 * * *", "--timezone", "Europe/Berlin", "--name", "nightly", "--", "true").ok()
    id = call.out.split()[2]
    assert call.out.startswith(f"recurring job {id} created, next run 2")
    assert [each["id"] for each in sched("list", "-o", "json").ok().document["recurring"]] == [id]
    line = next(line for line in sched("list").ok().out.splitlines() if "nightly" in line)
    for said in (id, "RECURRING", "in ", "0 3 * * * Europe/Berlin"):
        assert said in line
    assert sched("show", id, "-o", "json").ok().document["timezone"] == "Europe/Berlin"
    assert "0 3 * * * (Europe/Berlin)" in sched("show", id).ok().out
    assert sched("cancel", id).ok().out == f"recurring job {id} removed\n"
    sched("cancel", id).failed(3, f"recurring job {id} not found")
    sched("show", id).failed(3, f"recurring job {id} not found")
