"""`sched simulate` as a user runs it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from scheduler.simulate.picture import COLUMN_INCHES, HEIGHT_INCHES, POINTS_PER_INCH
from tests.cli.calls import Call
from tests.simulate.profiles import write_profile

JOBS = """\
name,at_seconds,work_seconds,min_workers,max_workers,resize_seconds,priority
long,0,4000,1,4,10,0
urgent,100,200,2,2,10,5
"""
Sched = Callable[..., Call]


@pytest.fixture
def sched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Call]:
    """Runs a command line in a directory that holds the workload `jobs.csv`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return lambda *words: Call.run(["simulate", *words], capsys)


def test_numbers_of_policies_stand_side_by_side(sched: Sched) -> None:
    words = ("jobs.csv", "--nodes", "1x4", "--compare", "policy.grow_cooldown_seconds=1", "--policy", "elastic")
    lines = sched(*words).ok().out.splitlines()
    assert lines[0].split() == ["elastic", "policy.grow_cooldown_seconds=1"]
    cells = {line[:22].strip(): line[22:].split() for line in lines[1:]}
    assert cells["jobs succeeded"] == ["2", "of", "2", "2", "of", "2"]
    assert cells["preemptions per job"] == ["0.50", "0.50"]


def test_json_holds_the_summary_and_every_job(sched: Sched) -> None:
    document = sched("jobs.csv", "--nodes", "1x4", "-o", "json").ok().document["elastic"]
    assert document["summary"]["succeeded"] == 2
    long, urgent = document["jobs"]
    assert (long["name"], urgent["name"]) == ("long", "urgent")
    assert urgent["waiting_seconds"] == pytest.approx(0.0, abs=0.1)
    assert urgent["completion_seconds"] == pytest.approx(110.0, abs=0.1)
    assert document["summary"]["utilization"] == pytest.approx(1.0, abs=0.01)


def test_json_holds_what_was_used_over_time(sched: Sched) -> None:
    uses = sched("jobs.csv", "--nodes", "1x4", "-o", "json").ok().document["elastic"]["usage"]
    assert uses[0].keys() == {"at", "slots", "shared_slots", "waiting_jobs"}
    assert max(use["slots"] for use in uses) == 4
    assert uses[-1]["slots"] == uses[-1]["waiting_jobs"] == 0


def test_faults_are_drawn_with_the_seed_and_counted_in_the_summary(sched: Sched) -> None:
    asked = ("jobs.csv", "--nodes", "1x4", "--faults", "workers=20m,nodes=1h,daemon=1h", "--seed", "5")
    lines = sched(*asked, "--policy", "elastic", "--policy", "easy").ok().out.splitlines()
    cells = {line[:26].strip(): line[26:].split() for line in lines[1:]}
    assert cells["faults: seed"] == ["5", "5"]
    assert int(cells["worker failures"][0]) > 0
    document = sched(*asked, "-o", "json").ok().document["elastic"]["summary"]["faults"]
    assert document["seed"] == 5
    assert document["worker_failures"] == int(cells["worker failures"][0])
    assert sched("jobs.csv", "--nodes", "1x4", "-o", "json").ok().document["elastic"]["summary"]["faults"] is None
    sched("jobs.csv", "--faults", "workers").failed(2, "--faults: 'workers' must have the form KEY=DURATION")


def test_what_fails_is_told(sched: Sched, tmp_path: Path) -> None:
    (tmp_path / "limited.csv").write_text("name,at_seconds,work_seconds,time_limit_seconds\na,0,100,10\nb,0,5,\n")
    call = sched("limited.csv", "--nodes", "1x4").ok()
    assert "elastic: 1 of 2 jobs failed, first a (FAILED)" in call.err


def test_what_never_ends_is_told(sched: Sched) -> None:
    call = sched("jobs.csv", "--nodes", "1x1", "-o", "json").ok()
    assert call.document["elastic"]["summary"]["unfinished"] == 1
    assert "1 of 2 jobs did not end, first urgent (QUEUED)" in call.err


def test_nothing_ends_within_a_limit_that_is_too_short(sched: Sched) -> None:
    call = sched("jobs.csv", "--nodes", "1x4", "--until", "50s", "-o", "json").ok()
    assert call.document["elastic"]["summary"]["completion_seconds"] is None
    assert sched("jobs.csv", "--nodes", "1x4", "--until", "50s").ok().out


def test_declared_knowledge_reaches_the_scheduler_and_noise_does_not(sched: Sched, tmp_path: Path) -> None:
    profiles = str(write_profile(tmp_path / "profiles"))
    (tmp_path / "a.csv").write_text("name,time,application,num_replicas,batch_size\na,5,toy,3,160\n")
    words = ("a.csv", "--profiles", profiles, "--declare", "durations", "--declare", "speedups", "-o", "json")
    plain = sched(*words).ok().document["elastic"]["jobs"][0]["completion_seconds"]
    tuned = sched(*words, "--batch", "tuned").ok().document["elastic"]["jobs"][0]["completion_seconds"]
    noisy = sched(*words, "--noise", "0.3", "--seed", "4").ok().document["elastic"]["jobs"][0]["completion_seconds"]
    assert tuned <= plain * 1.01
    assert noisy != pytest.approx(plain, rel=0.001)


@pytest.mark.parametrize("columns", [1, 2])
def test_a_picture_has_one_column_per_run(sched: Sched, tmp_path: Path, columns: int) -> None:
    comparisons = [f"policy.grow_cooldown_seconds={number}" for number in range(columns)]
    words = [word for text in comparisons for word in ("--compare", text)]
    sched("jobs.csv", "--nodes", "1x4", *words, "--picture", "out.png").ok()
    height, width, _ = imread(tmp_path / "out.png").shape
    assert (width, height) == (columns * COLUMN_INCHES * POINTS_PER_INCH, HEIGHT_INCHES * POINTS_PER_INCH)


def test_a_drawing_is_the_same_each_time(sched: Sched, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        sched("jobs.csv", "--nodes", "1x4", "--picture", name).ok()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text())
    assert root.get("viewBox") == f"0 0 {COLUMN_INCHES * 72:g} {HEIGHT_INCHES * 72:g}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.csv",), "none.csv: No such file"),
        (("jobs.csv", "--nodes", "many"), "--nodes: 'many' is neither a file nor a size such as 16x4"),
        (("jobs.csv", "--policy", "best"), "setting policy.name: "),
        (
            ("jobs.csv", "--compare", "policy.aging_per_hour=inf"),
            "setting policy.aging_per_hour: must be a finite",
        ),
        (("jobs.csv", "--compare", "policy"), "--compare: 'policy' must have the form"),
        (("jobs.csv", "--compare", "policy.speed=1"), "setting policy.speed: "),
        (("jobs.csv", "--compare", "policy=1,policy.name=fifo"), "--compare: "),
        (("jobs.csv", "--speed", "fast"), "--speed: 'fast' must be linear"),
        (("jobs.csv", "--noise", "nan"), "--noise: nan is not between 0 and 10"),
        (("jobs.csv", "--every", "soon"), "--every: 'soon' is not a valid duration"),
        (("jobs.csv", "--every", "1e-320"), "--every: '1e-320' is shorter than 0.001 s"),
        (("jobs.csv", "--picture", "a.gif"), "--picture: a.gif: the file name must end in .png or .svg"),
        (("jobs.csv", "--picture", "none/a.png"), "--picture: none: no such directory"),
        (("jobs.csv", "--picture", "a" * 300 + "/a.png"), "no such directory"),
        (("jobs.csv", "--config", "none.toml"), "none.toml: No such file"),
    ],
)
def test_a_mistake_is_told_in_one_line(sched: Sched, words: tuple[str, ...], said: str) -> None:
    sched(*words).failed(2, said)


def test_the_command_is_there_without_loading_what_only_it_needs() -> None:
    loaded = "import sys, scheduler.cli.root; print([m for m in ('scipy', 'matplotlib', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.strip() == "[]"
