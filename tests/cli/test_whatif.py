"""`sched whatif`, and the start that `sched explain` estimates."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.cli.render.forecast import forecast_facts, start_text
from scheduler.cli.render.times import stamp
from tests.cli.calls import Call
from tests.cli.test_jobs import until
from tests.daemon import Daemon
from tests.eventually import eventually

Sched = Callable[..., Call]


def test_a_job_that_fits_would_start_at_once_and_is_not_submitted(sched: Sched) -> None:
    before = sched("list", "--all", "-o", "json").ok().document["jobs"]
    call = sched("whatif", "--name", "never-stored", "--priority", "50", "--", "true").ok()
    assert call.out.splitlines()[0].split() == ["would", "start", "immediately"]
    assert call.err == ""
    assert sched("list", "--all", "-o", "json").ok().document["jobs"] == before
    sched("show", "never-stored").failed(3, "never-stored")


def test_json_is_the_answer_of_the_daemon(sched: Sched) -> None:
    document = sched("whatif", "-o", "json", "--workers", "1", "--priority", "50", "--", "true").ok().document
    assert document["forecast"]["workers"] == 1
    assert document["wait"] is None


@pytest.mark.parametrize("words", [("-f",), ()])
def test_it_takes_a_job_file(sched: Sched, tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("name: large\ncommand: [python, train.py]\nworkers: 77\n")
    call = sched("whatif", *words, str(path)).ok()
    assert "never, with the current nodes" in call.out
    assert "it needs 77 workers" in call.out
    path.write_text("name: large\ncommand: [python, train.py]\nworkers: none\n")
    sched("whatif", *words, str(path)).failed(2, f"{path}:3: workers")


def test_a_recurring_job_is_asked_about_as_if_it_ran_now(sched: Sched, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('command = "true"\npriority = 50\ncron = "*/5 * * * *"\ntimezone = "UTC"\n')
    call = sched("whatif", str(path)).ok()
    assert "immediately" in call.out
    assert "a run submitted now" in call.err
    assert sched("list", "--name", "true", "-o", "json").ok().document["recurring"] == []


def test_misuse_is_one_line(sched: Sched, alone: Sched, tmp_path: Path) -> None:
    sched("whatif").failed(2, "no command given")
    sched("whatif", "--min", "3", "--max", "2", "--", "true").failed(2, "--min: 3 exceeds --max 2")
    sched("whatif", str(tmp_path / "none.yaml")).failed(2, "none.yaml: No such file")
    sched("whatif", "job.yaml", "--priority", "3").failed(
        2, "--priority: options must come before the job file job.yaml"
    )
    sched("whatif", "--wait", "--", "true").failed(2, "--wait")


def test_explain_says_when_a_waiting_job_may_start(sched: Sched, daemon: Daemon) -> None:
    slots = sum(node["slots"] for node in sched("nodes", "-o", "json").ok().document["nodes"])
    words = ("--workers", str(slots), "--priority", "90", "--time-limit", "1h", "--grace", "0")
    full = sched("submit", "-o", "json", "--name", "full", *words, "--", "sleep", "60").ok().document["id"]
    until(daemon, full, "RUNNING")
    late = sched("submit", "-o", "json", "--priority", "80", "--", "true").ok().document["id"]

    def explained() -> str:
        return sched("explain", str(late)).ok().out

    def start_at() -> float:
        document = sched("explain", str(late), "-o", "json").ok().document
        return float((document["forecast"] or {}).get("start_at") or 0.0)

    try:
        # It goes without where there is no time for a forecast.
        start = eventually(start_at, "no start is forecast")
        told = eventually(lambda: text if "at the latest" in (text := explained()) else "", explained)
        assert "estimated start" in told
        assert f"{stamp(start)} (in 59m) at the latest" in told
        assert f"job {full} (full) ends {stamp(start)} by its time limit" in told
    finally:
        sched("cancel", str(late), str(full)).ok()
        until(daemon, full, "CANCELLED")


def forecast(**values: object) -> dict[str, object]:
    plain = {"at": 1000.0, "start_at": None, "certainty": "UNKNOWN", "losses": [], "silent": [], "silent_count": 0}
    return {**plain, "looked_until": 1060.0, "cut_off": None, **values}


def test_the_start_in_words() -> None:
    assert start_text(forecast(start_at=1000.0, certainty="CERTAIN")) == "immediately"
    assert start_text(forecast(start_at=1030.0, certainty="CERTAIN")) == "within 30s"
    held = forecast(start_at=1030.0, certainty="CERTAIN", losses=[{}])
    assert start_text(held) == "within 30s, when the workers of other jobs have left"
    assert start_text(forecast(start_at=1600.0, certainty="UPPER_BOUND")) == f"{stamp(1600)} (in 10m) at the latest"
    assert start_text(forecast(start_at=1600.0, certainty="ESTIMATE")) == f"about {stamp(1600)} (in 10m)"


def test_the_facts_in_words() -> None:
    ends = [{"id": number, "name": "n", "at": 1000.0 + number, "basis": "DECLARED"} for number in range(1, 7)]
    facts = dict(
        forecast_facts(
            forecast(
                start_at=1005.0,
                certainty="ESTIMATE",
                workers=2,
                settled_workers=4,
                placement=[["a", 1], ["b", 1]],
                shared=True,
                rests_on=ends,
                rests_on_count=7,
                losses=[
                    {"id": 7, "name": "low", "workers_before": 4, "workers_after": 2, "lost_slot_seconds": 0.0},
                    {"id": 8, "name": "rigid", "workers_before": 3, "workers_after": 0, "lost_slot_seconds": 150.0},
                ],
            ),
            "would start",
        )
    )
    assert facts["with workers"] == "2, then 4"
    assert facts["on nodes"] == "a ×1, b ×1, sharing slots with others"
    assert facts["takes workers from"] == (
        "job 7 (low): 4 → 2 workers; job 8 (rigid): stopped (3 workers), losing 2.5 slot-minutes"
    )
    assert str(facts["depends on"]).startswith("2 earlier ends; job 2 (n) ends ")
    assert str(facts["depends on"]).endswith(f"job 6 (n) ends {stamp(1006)} as declared")


def test_an_unknown_start_in_words() -> None:
    def unknown(cut_off: str, *silent: int) -> str:
        named = [{"id": number, "name": "n"} for number in silent]
        return start_text(forecast(cut_off=cut_off, silent=named, silent_count=len(named)))

    assert unknown("IMPOSSIBLE") == "never, with the current nodes"
    for cut_off in ("HORIZON", "ROUNDS", "TIME"):
        assert unknown(cut_off) == f"not before {stamp(1060)} (in 1m); the search stopped there"
    assert unknown("NOTHING_KNOWN", 7) == "unknown: job 7 (n) has no known end"
    many = unknown("NOTHING_KNOWN", 1, 2, 3, 4, 5, 6)
    assert many == "unknown: jobs 1 (n), 2 (n), 3 (n), 4 (n), 5 (n) and 1 more have no known end"
