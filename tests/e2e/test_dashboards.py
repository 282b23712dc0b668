"""What operators see of a real run: trainings on a real daemon, scraped by a real Prometheus with this project's rules.

The trainings preempt, shrink, grow and end; every panel of every dashboard then has an answer, and no alert has fired.
After that things go wrong, and the alerts for it fire.
"""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from grafana.boards import BOARDS
from tests.daemon import ROOT, Daemon, running_daemon
from tests.eventually import eventually
from tests.metrics.prometheus import Prometheus, needs_prometheus, scraping

pytestmark = [needs_prometheus, pytest.mark.torch, pytest.mark.slow]

SECONDS_MAX = 240.0
#: As Grafana would fill them in for a run of a minute.
VARIABLES = {"$__rate_interval": "10s", "$__range": "60s", "$__interval": "1s"}


class Run:
    """A daemon that trains, and the Prometheus that watches it."""

    def __init__(self, daemon: Daemon, prometheus: Prometheus) -> None:
        self.daemon = daemon
        self.prometheus = prometheus

    def train(self, priority: int, workers: tuple[int, int], epochs: int, **fields: Any) -> int:
        """Submit a training of digits."""
        program = [sys.executable, str(ROOT / "examples" / "digits.py"), "--epochs", str(epochs)]
        return self.submit(
            command=[*program, "--sample-seconds", "0.01"],
            workdir=str(ROOT),
            runtime="elastic",
            priority=priority,
            min_workers=workers[0],
            max_workers=workers[1],
            grace_seconds=10.0,
            env={"OMP_NUM_THREADS": "1"},
            **fields,
        )

    def submit(self, **body: Any) -> int:
        answer = self.daemon.client.post("/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def until(self, job: int, state: str, members: int | None = None) -> None:
        """Wait until the job is so."""

        def there() -> bool:
            view = self.daemon.client.get(f"/v1/jobs/{job}").json()
            return view["state"] == state and members in (None, view["members"])

        eventually(there, lambda: str(self.daemon.client.get(f"/v1/jobs/{job}").json()), SECONDS_MAX)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    directory = tmp_path_factory.mktemp("dashboards")
    settings: dict[str, Any] = {
        "local": {"oversell": 1.5, "slots": 4},
    }
    with running_daemon(directory, **settings) as daemon, scraping(directory, daemon.url.partition("//")[2]) as prom:
        run = Run(daemon, prom)
        tell(run)
        yield run


def tell(run: Run) -> None:
    """A training fills the machine; twice it gives way to a more important one, and gets its slots back.

    There is a queue, which has no jobs: those in none take part beside it.
    """
    run.daemon.client.post("/v1/queues", json={"path": "lab"}).raise_for_status()
    low = run.train(0, (1, 4), epochs=5000)
    run.until(low, "RUNNING", members=4)
    # Twice: the first of its kind begins a series, and only what comes after that is a rate.
    for _ in range(2):
        high = run.train(10, (2, 2), epochs=1)
        run.until(high, "SUCCEEDED")
        run.until(low, "RUNNING", members=4)
    run.prometheus.await_answer("sum(sched_job_completion_seconds_count) > 0")
    pauses = "sum(rate(sched_resize_pause_seconds_count[10s])) > 0"
    eventually(lambda: run.prometheus.ask_range(pauses), "no pause is seen", SECONDS_MAX)
    run.prometheus.await_answer("sum(sched_busy_slots) > 0")
    run.daemon.client.post(f"/v1/jobs/{low}/cancel").raise_for_status()
    run.until(low, "CANCELLED")


def filled(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return query


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_every_panel_has_an_answer(run: Run, board: Any) -> None:
    silent = []
    for panel in board.json()["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace('=~"$instance"', '=~".*"')
            for choice in board.choices:
                query = query.replace(f"${choice.name}", ".*")
            if not run.prometheus.ask_range(filled(query)):
                silent.append((panel["title"], target["legendFormat"]))
    assert not silent


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_every_choice_has_values(run: Run, board: Any) -> None:
    for choice in board.choices:
        series, _, label = choice.query.removeprefix("label_values(").removesuffix(")").partition(", ")
        assert run.prometheus.ask_range(f"count by ({label}) ({series})")


def test_examples_of_waits_name_jobs(run: Run) -> None:
    assert run.prometheus.examples("sched_job_wait_seconds_bucket") >= {"1", "2"}


def test_the_run_was_seen_as_it_was(run: Run) -> None:
    ask = run.prometheus.ask_range
    assert max(ask('sum(sched:slots:sum{state="used"})')) == 4
    assert max(ask('sum(sched_slot_seconds_total{spent="leaving"})')) > 0
    assert set(ask("sum(sched:slots:sum)")) == {4}
    assert max(ask("sum(sched_preemptions_total)")) == 2
    assert max(ask("max(sched:goodput_ratio:rate_10m)")) > 0
    assert max(ask("sum(sched:busy_slots:sum)")) > 0.2


def test_no_alert_fires_while_all_is_well(run: Run) -> None:
    assert not run.prometheus.ask_range('ALERTS{alertstate="firing"}')


def test_alerts_fire_when_a_job_fails_for_good_and_the_daemon_dies(run: Run) -> None:
    bad = run.submit(command=["false"], min_workers=1, max_workers=1, max_retries=0)
    run.until(bad, "FAILED")
    run.prometheus.await_answer('ALERTS{alertname="SchedulerRetriesExhausted",alertstate="firing"}')
    run.daemon.kill()
    run.prometheus.await_answer('ALERTS{alertname="SchedulerDoesNotLead",alertstate="firing"}', seconds=200)
