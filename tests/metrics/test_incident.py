"""Alerts in a staged incident: the real engine over virtual time, its metrics judged by Prometheus' own rule engine."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scheduler.model.ids import JobId
from tests.metrics.observed import Observed
from tests.metrics.prometheus import RULES, needs_prometheus

ASKED = set(re.findall(r"\bsched_[a-z_]+", (RULES / "alerts.yaml").read_text() + (RULES / "rules.yaml").read_text()))


class Watched(Observed):
    """A world that is scraped every minute."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._scrapes: list[dict[str, float]] = []

    @property
    def minute(self) -> int:
        return len(self._scrapes) - 1

    def pass_minutes(self, minutes: int) -> None:
        for _ in range(minutes):
            self.advance(5)
            self.clock.advance(55)
            self._scrapes.append(dict(self._scrape()))

    def fail(self, job: JobId) -> None:
        """Its workers fail until it is given up."""
        while not self.get(job).state.terminal:
            for worker in self.get(job).workers:
                self.cluster.crash(worker.id, exit_code=1)
            self.advance(5)

    def _scrape(self) -> Iterator[tuple[str, float]]:
        for family in text_string_to_metric_families(self.metrics.render().decode()):
            for sample in family.samples:
                if sample.name in ASKED:
                    labels = {**sample.labels, "instance": "a"}
                    text = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
                    yield f"{sample.name}{{{text}}}", sample.value

    def judged(self, directory: Path, expected: dict[int, set[str]]) -> subprocess.CompletedProcess[str]:
        """What promtool says of the alerts that are expected to fire at these minutes."""
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
        document = {
            "rule_files": [str(RULES / "rules.yaml"), str(RULES / "alerts.yaml")],
            "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}],
        }
        path = directory / "incident_test.yaml"
        path.write_text(yaml.safe_dump(document))
        return subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)


@pytest.fixture
def w(tmp_path: Path) -> Iterator[Watched]:
    world = Watched(tmp_path)
    yield world
    world.close()


@needs_prometheus
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

    done = w.judged(tmp_path, expected)
    assert done.returncode == 0, done.stdout + done.stderr
