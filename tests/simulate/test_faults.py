"""Faults that a user asks the simulator for: drawn from a seed, counted, and with what they cost."""

import pytest

from scheduler.cli.commands.simulated_faults import parse_faults
from scheduler.config import EngineSettings, PolicySettings, Settings
from scheduler.errors import InvalidInput
from scheduler.model.job_state import JobState
from scheduler.model.shape import WorkerShape
from scheduler.simulate.faults import FaultCounts, Faults
from scheduler.simulate.generate import Poisson, poisson
from scheduler.simulate.nodes import read_nodes
from scheduler.simulate.result import Result
from scheduler.simulate.run import Setup, simulate
from scheduler.simulate.speed import Linear
from scheduler.simulate.summary import summarize
from scheduler.simulate.workload import Submission, Workload
from tests.simulate.runs import job

HOUR = 3600.0
#: How often workers of a run commit.
COMMIT_SECONDS = 60.0


def run(*jobs: Submission, faults: Faults | None, nodes: str = "1x4", policy: str = "elastic") -> Result:
    settings = Settings(policy=PolicySettings(name=policy))  # type: ignore[arg-type]
    setup = Setup(read_nodes(nodes, "--nodes"), settings, faults=faults, until_seconds=400 * HOUR)
    return simulate(Workload.of("test", jobs), setup)


def counts(result: Result) -> FaultCounts:
    assert result.faults is not None
    return result.faults


def test_the_same_seed_gives_the_same_run_and_another_one_does_not() -> None:
    def once(seed: int) -> Result:
        faults = Faults(seed, worker_seconds=10 * HOUR, node_seconds=20 * HOUR, daemon_seconds=5 * HOUR)
        workload = poisson(Poisson(jobs=20, resize_seconds=5.0, priorities=(0, 1)), Linear(), 0)
        return simulate(workload, Setup(read_nodes("2x4", "--nodes"), Settings(), faults=faults))

    assert once(1) == once(1)
    assert counts(once(1)) != counts(once(2))
    assert counts(once(1)).seed == 1


def test_a_lone_worker_that_fails_goes_back_to_its_last_commit() -> None:
    lone = job("a", work=5000.0, max_retries=10_000)
    result = run(lone, faults=Faults(0, worker_seconds=500.0), nodes="1x1")
    failures = counts(result).worker_failures
    assert failures >= 3
    assert result.jobs[0].state is JobState.SUCCEEDED
    pauses = failures * (COMMIT_SECONDS + Settings().engine.backoff_max_seconds)
    assert result.jobs[0].completion_seconds is not None
    assert 5000.0 < result.jobs[0].completion_seconds < 5000.0 + pauses
    lost_seconds = counts(result).lost_slot_hours * HOUR
    assert failures < lost_seconds <= failures * COMMIT_SECONDS
    assert result.jobs[0].slot_seconds == pytest.approx(5000.0 + lost_seconds, abs=failures / 2)


def test_the_others_of_a_job_go_on_without_one_that_fails_and_lose_nothing() -> None:
    result = run(job("a", work=4000.0, workers=(1, 4), max_retries=10_000), faults=Faults(1, worker_seconds=800.0))
    failures = counts(result).worker_failures
    assert failures >= 2
    assert (result.jobs[0].stops, counts(result).restarts) == (0, 0)
    assert result.jobs[0].slot_seconds == pytest.approx(4000.0, abs=2.0 * failures)


def test_a_job_whose_workers_fail_too_often_fails() -> None:
    result = run(job("a", work=5000.0, max_retries=1), faults=Faults(0, worker_seconds=100.0), nodes="1x1")
    assert result.jobs[0].state is JobState.FAILED
    assert counts(result).jobs_failed == 1


def test_a_job_that_waits_out_a_long_pause_after_a_failure_goes_on() -> None:
    pauses = EngineSettings(backoff_seconds=2 * HOUR, backoff_max_seconds=2 * HOUR)
    setup = Setup(read_nodes("1x1", "--nodes"), Settings(engine=pauses), faults=Faults(0, worker_seconds=HOUR))
    result = simulate(Workload.of("test", [job("a", work=2 * HOUR, max_retries=10_000)]), setup)
    assert counts(result).worker_failures >= 1
    assert result.jobs[0].state is JobState.SUCCEEDED


def test_a_node_in_a_long_quarantine_takes_jobs_again() -> None:
    long = 10 * HOUR
    closed = EngineSettings(
        quarantine_failures=2,
        quarantine_window_seconds=long,
        quarantine_seconds=long,
        quarantine_max_seconds=long,
    )
    setup = Setup(read_nodes("2x2:rack", "--nodes"), Settings(engine=closed), faults=Faults(0, worker_seconds=HOUR))
    first = WorkerShape(node_selector=(("rack", "1"),))
    jobs = [job(name, work=4 * HOUR, max_retries=10_000, user=name, shape=first) for name in "ab"]
    result = simulate(Workload.of("test", jobs), setup)
    assert counts(result).worker_failures >= 2
    assert [each.state for each in result.jobs] == [JobState.SUCCEEDED] * 2
    assert max(each.finished_at or 0.0 for each in result.jobs) > long


def test_a_lost_node_comes_back_and_its_job_goes_on() -> None:
    faults = Faults(0, node_seconds=2 * HOUR, node_away_seconds=HOUR)
    result = run(job("a", work=4 * 10 * HOUR, workers=(4, 4), max_retries=0), faults=faults)
    seen = counts(result)
    assert result.jobs[0].state is JobState.SUCCEEDED
    assert seen.node_losses >= 2
    assert seen.workers_lost == 4 * seen.node_losses
    assert seen.away_slot_hours == pytest.approx(4.0 * seen.node_losses)
    assert seen.restarts == seen.node_losses
    assert result.jobs[0].completion_seconds is not None
    least = (10 + seen.node_losses) * HOUR
    assert least < result.jobs[0].completion_seconds < least + seen.node_losses * (COMMIT_SECONDS + 5.0)


def test_nothing_starts_while_the_daemon_is_away_and_what_runs_goes_on() -> None:
    faults = Faults(5, daemon_seconds=HOUR, daemon_away_seconds=HOUR)
    long = job("long", work=40 * HOUR)
    short = [job(f"short {number}", number * HOUR / 4, work=1.0) for number in range(40)]
    result = run(long, *short, faults=faults, nodes="1x4")
    seen = counts(result)
    assert seen.daemon_deaths >= 3
    assert seen.daemon_away_hours == pytest.approx(seen.daemon_deaths, abs=1.0)
    assert all(each.state is JobState.SUCCEEDED for each in result.jobs)
    waits = [each.waiting_seconds or 0.0 for each in result.jobs]
    assert 600.0 < max(waits) <= HOUR + 5.0
    assert result.jobs[0].slot_seconds == pytest.approx(40 * HOUR, abs=HOUR + 5.0)
    assert result.jobs[0].finished_at == pytest.approx(40 * HOUR, abs=5.0)
    assert (seen.restarts, seen.lost_slot_hours) == (0, 0.0)


def test_policies_meet_the_same_faults() -> None:
    faults = Faults(2, node_seconds=5 * HOUR, daemon_seconds=6 * HOUR)
    seen = []
    for policy in ("elastic", "fifo"):
        late = job("late", 100 * HOUR, work=1.0)
        seen.append(counts(run(job("a", work=30 * HOUR, workers=(1, 2)), late, faults=faults, policy=policy)))
    assert seen[0].node_losses > 5
    assert [(each.node_losses, each.daemon_deaths, each.away_slot_hours) for each in seen[:1]] == [
        (each.node_losses, each.daemon_deaths, each.away_slot_hours) for each in seen[1:]
    ]


def test_a_job_that_never_fits_ends_the_run_whatever_fails_meanwhile() -> None:
    result = run(job("huge", workers=(5, 5)), faults=Faults(0, node_seconds=2 * HOUR, daemon_seconds=HOUR))
    assert result.jobs[0].state is JobState.QUEUED
    assert result.ended_at < 50 * HOUR


def test_without_faults_there_is_nothing_to_count() -> None:
    assert summarize(run(job("a"), faults=None)).faults is None
    quiet = summarize(run(job("a"), faults=Faults(7)))
    assert quiet.faults == FaultCounts(7)
    assert quiet.makespan_seconds == summarize(run(job("a"), faults=None)).makespan_seconds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' must have the form KEY=DURATION, with a key of workers, nodes, node_away, daemon, daemon_away"),
        ("workers", "'workers' must have the form"),
        ("gpus=1h", "'gpus=1h' must have the form"),
        ("workers=often", "'often' is not a valid duration"),
        ("workers=0", "workers=0 is not between 1 and 1e+09 seconds"),
        ("nodes=1d,nodes=2d", "nodes is given more than once"),
        ("node_away=1h", "node_away needs nodes"),
        ("workers=1h,daemon_away=1h", "daemon_away needs daemon"),
    ],
)
def test_what_cannot_be_asked_for_is_told(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_faults(text, 0)
    assert str(caught.value).startswith("--faults: ")
    assert said in str(caught.value)


def test_what_is_asked_for_is_understood() -> None:
    assert parse_faults(None, 3) is None
    assert parse_faults("workers=1d, nodes=7d,node_away=30m,daemon=12h,daemon_away=90", 3) == Faults(
        3, 24 * HOUR, 168 * HOUR, 1800.0, 12 * HOUR, 90.0
    )
