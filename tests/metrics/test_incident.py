"""Alerts in a staged incident: the real engine over virtual time, its metrics judged by Prometheus' own rule engine."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.tick import Step
from scheduler.model.ids import JobId
from tests.full_disk import files_limited
from tests.metrics.observed import Observed
from tests.metrics.prometheus import RULES, judge, needs_prometheus

#: Hours of virtual time, each tick of which is checked, on a machine that may be busy with other tests.
pytestmark = [needs_prometheus, pytest.mark.slow]

ASKED = set(re.findall(r"\bsched_[a-z_]+", (RULES / "alerts.yaml").read_text() + (RULES / "rules.yaml").read_text()))


class Watched(Observed):
    """A world that is scraped every minute."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.metrics.watch("sched_term", lambda: self.engine.lease.term if self.engine.lease else 0)
        self._scrapes: list[dict[str, float]] = []

    @property
    def minute(self) -> int:
        return len(self._scrapes) - 1

    def pass_minutes(self, minutes: int) -> None:
        for _ in range(minutes):
            self.advance(5)
            self._end_minute(55)

    def pass_minutes_without_a_disk(self, minutes: int) -> None:
        with files_limited(1):
            for _ in range(minutes):
                assert self.tick().error is not None
                self._end_minute(60)

    def _end_minute(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._scrapes.append(dict(self._scrape()))

    def pass_slow_minutes(self, minutes: int) -> None:
        """In each the engine stands still for three seconds amid a tick."""
        for _ in range(minutes):
            for step in self.engine.steps():
                if step is Step.OBSERVED:
                    self.stand_still(3.0)
            self.metrics.observe(self.engine.report)
            self.pass_minutes(1)

    def fail(self, job: JobId) -> None:
        """Its workers fail until it is given up."""
        while not self.get(job).state.terminal:
            for worker in self.get(job).workers:
                self.cluster.crash(worker.id, exit_code=1)
            self.advance(5)

    def _scrape(self) -> Iterator[tuple[str, float]]:
        asked = (line for line in self.metrics.render().decode().splitlines() if re.split("[{ ]", line)[0] in ASKED)
        for family in text_string_to_metric_families("\n".join(asked)):
            for sample in family.samples:
                labels = {**sample.labels, "instance": "a"}
                text = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
                yield f"{sample.name}{{{text}}}", sample.value

    def judge(self, directory: Path, expected: dict[int, set[str]]) -> None:
        """Promtool has to find these alerts firing at these minutes, and no others."""
        names = sorted({name for scrape in self._scrapes for name in scrape})
        series = [
            {"series": name, "values": " ".join(str(scrape.get(name, "_")) for scrape in self._scrapes)}
            for name in names
        ]
        tests: list[dict[str, Any]] = [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)],
            }
            for minute, alerts in expected.items()
        ]
        judge(directory, series, tests, ("rules.yaml", "alerts.yaml"))


@pytest.fixture
def w(tmp_path: Path) -> Iterator[Watched]:
    world = Watched(tmp_path)
    yield world
    world.close()


def test_alerts_of_an_incident_fire_one_after_the_other_and_none_before(w: Watched, tmp_path: Path) -> None:
    expected: dict[int, set[str]] = {}
    for name in ("a", "b", "c"):
        w.node(name, slots=8)
    elastic = w.job("elastic", workers=(1, 24))
    w.pass_minutes(10)
    urgent = w.job("urgent", workers=4, priority=10)
    w.pass_minutes(10)
    w.ask_cancel(urgent)
    w.pass_minutes(15)
    expected[w.minute] = set()

    w.ask_cancel(elastic)
    for name in ("a", "b", "c"):
        w.job(f"small {name}", workers=1, slots_per_worker=2, priority=5)
    w.job("wide", workers=3, slots_per_worker=8)
    w.pass_minutes(1)
    for number in range(2):
        w.fail(w.job(f"bad {number}", workers=1, slots_per_worker=3, max_retries=1, priority=20))
    w.pass_minutes(2)
    expected[w.minute] = {"SchedulerRetriesExhausted", "SchedulerNodeQuarantined"}

    w.pass_minutes(30)
    expected[w.minute] = {"SchedulerSlotsIdleWhileJobsWait"}
    w.cluster.lose_node(w.node_name("c"))
    w.pass_minutes(8)
    expected[w.minute] = {"SchedulerNodeDown"}

    w.judge(tmp_path, expected)


def test_alerts_of_jobs_that_wait_lose_slots_and_lose_work(w: Watched, tmp_path: Path) -> None:
    expected: dict[int, set[str]] = {}
    w.node("a", slots=8)
    crashing = Behaviour(crash_after_seconds=200.0)
    unlucky = w.job("unlucky", workers=1, max_retries=100_000, behaviour=crashing)
    w.pass_minutes(50)
    expected[w.minute] = {"SchedulerWorkIsLost"}

    w.ask_cancel(unlucky)
    for number in range(8):
        w.job(f"small {number}", priority=1)
    w.job("wide", workers=8)
    w.pass_minutes(90)
    expected[w.minute] = set()
    for _ in range(15):
        urgent = w.job("urgent", workers=8, priority=10)
        w.pass_minutes(1)
        w.ask_cancel(urgent)
        w.pass_minutes(1)
    expected[w.minute] = {"SchedulerPreemptionStorm"}

    w.pass_minutes(60)
    expected[w.minute] = set()
    w.clock.advance(86_400)
    w.pass_minutes(7)
    expected[w.minute] = {"SchedulerJobStarves"}

    w.judge(tmp_path, expected)


def test_alerts_of_a_scheduler_that_fails_changes_or_is_slow(w: Watched, tmp_path: Path) -> None:
    expected: dict[int, set[str]] = {}
    w.node("a", slots=8)
    w.job("elastic", workers=(1, 8))
    w.pass_minutes(10)
    expected[w.minute] = set()
    w.pass_minutes_without_a_disk(10)
    expected[w.minute] = {"SchedulerTicksFail", "SchedulerDoesNotLead"}

    w.pass_minutes(10)
    expected[w.minute] = set()
    for _ in range(6):
        w.kill_engine()
        w.pass_minutes(1)
    expected[w.minute] = {"SchedulerLeaderChangesOften"}

    w.pass_minutes(40)
    expected[w.minute] = set()
    w.pass_slow_minutes(20)
    expected[w.minute] = {"SchedulerSlowTicks", "SchedulerActsLate"}

    w.judge(tmp_path, expected)
