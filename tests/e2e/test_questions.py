"""A stranger's ten questions, each asked by one command in a staged situation of a real daemon."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.calls import Call
from tests.cli.test_jobs import submitted, until
from tests.daemon import Daemon, running_daemon

Sched = Callable[..., Call]
#: Longer than a test lives.
STAY = "exec sleep 1000"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """With four slots."""
    with running_daemon(tmp_path, slots=4) as running:
        yield running


@pytest.fixture
def sched(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sched:
    for name in ("SCHED_URL", "SCHED_TOKEN", "SCHED_DATABASE_URL", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCHED_STATE_DIR", str(daemon.state_dir))
    return lambda *words: Call.run(words, capsys)


def said(call: Call) -> dict[str, str]:
    """Names and values of what a command printed, one pair a line."""
    pairs = (line.split("  ", 1) for line in call.ok().out.splitlines() if "  " in line)
    return {name.strip(): value.strip() for name, value in pairs}


def test_ten_questions_are_answered_by_one_command_each(sched: Sched, daemon: Daemon) -> None:
    broken = submitted(sched, "broken", "--max-retries", "0", command="exit 3")
    until(daemon, broken, "FAILED")
    shape = ("--min", "1", "--max", "4", "--time-limit", "1h")
    low = submitted(sched, "low", "--user", "ann", "--priority", "1", *shape, command=STAY)
    until(daemon, low, "RUNNING")
    high = submitted(sched, "high", "--user", "bob", "--priority", "9", "-w", "2", "--time-limit", "1h", command=STAY)
    until(daemon, high, "RUNNING")
    waits = submitted(sched, "waits", "--priority", "1", "-w", "2", command=STAY)
    until_waits(daemon, waits)

    # Why is my job waiting, and what would change that?
    answer = sched("explain", str(waits)).ok().out
    assert "Waits for free slots: it needs 2 workers of 1 slot each, and 0 of 4 suitable slots" in answer
    assert "since" in said(sched("explain", str(waits)))
    assert f'"sched priority {waits} 2 --dry-run"' in answer
    # When will it start?
    assert "at the latest" in said(sched("explain", str(waits)))["estimated start"]
    # Why did I lose workers?
    assert said(sched("explain", str(low)))["gave up"].endswith(f"4 → 2 workers for job {high}")
    assert f"PREEMPTED for job {high}" in sched("events", "--job", str(low)).ok().out
    # Who uses the GPUs?
    assert "■■■■  4/4" in sched("top", "--once").ok().out
    users = sched("report", "--since", "1h").ok().out.partition("USER")[2]
    assert {"ann", "bob"} <= set(users.split())
    # What would happen if I raised the priority?
    asked = said(sched("priority", str(waits), "5", "--dry-run"))
    assert asked["takes workers from"].startswith(f"job {low} (low): stopped (2 workers), losing ")
    asked = said(sched("priority", str(low), "0", "--dry-run"))
    assert asked["would settle at"] == "none (it would be stopped, and wait)"
    assert asked["would gain"] == f"job {waits} (waits): 0 → 2 workers"
    sched("priority", str(waits), "5", "--dryrun").failed(2, "--dryrun")
    assert daemon.client.get(f"/v1/jobs/{waits}").json()["priority"] == 1
    # Did anything fail tonight? How much work did preemption cost?
    report = said(sched("report", "--since", "12h"))
    assert "1 failed" in report["jobs"]
    assert "RETRIES_EXHAUSTED" in sched("report", "--since", "12h").ok().out
    assert "slot-hours" in report["lost work"]
    assert report["preemptions"] == "1 shrinks, 0 stops"
    # Are GPUs idle, and why? Which node is bad? Is the scheduler healthy?
    assert sched("explain").ok().out == "0 of 4 slots are idle.\n"
    health = said(sched("health"))
    assert (health["decides"], health["nodes"]) == ("yes", "1 of 1 accept workers")
    name = daemon.client.get("/v1/nodes").json()["nodes"][0]["name"]
    sched("cordon", name).ok()
    sched("cancel", str(high)).ok()
    until(daemon, high, "CANCELLED")
    assert sched("explain").ok().out.splitlines()[1] == (
        f"2 slots are on nodes closed to new workers: {name} (CORDONED)."
    )
    assert "CORDONED" in sched("nodes").ok().out
    assert sched("health", "-o", "json").ok().document["nodes_away"] == {name: "CORDONED"}
    assert sched("explain", "-o", "json").ok().document["slots_idle"] == 2
    assert said(sched("health"))["nodes"] == f"1 of 1 accept no workers: {name} (CORDONED)"


def until_waits(daemon: Daemon, job: int) -> None:
    """Wait, by the daemon's events, until a tick has looked at the job and left it in the queue."""
    next(event for event in daemon.events(job=job) if event["kind"] == "JOB_WAITS")
