"""Metrics: what is counted, what is read, and that dashboards and alerts ask for nothing else."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scheduler.clusters.simulated_process import Behaviour
from scheduler.engine.board import Board
from scheduler.engine.tick import TickReport
from scheduler.metrics import METRICS, Metrics, priority_class
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.observation import SlotLoad
from scheduler.policy.invariants import Violation
from tests.world import World

ROOT = Path(__file__).parent.parent
GRAFANA = ROOT / "grafana"


class Observed(World):
    """A world whose ticks are measured."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.metrics = Metrics(self.board, (), self.clock.now)

    def tick(self) -> TickReport:
        report = super().tick()
        self.metrics.observe(report)
        return report

    def value(self, name: str, **labels: str) -> float:
        return value(self.metrics, name, **labels)


@pytest.fixture
def w(tmp_path: Path) -> Iterator[Observed]:
    world = Observed(tmp_path)
    yield world
    world.close()


def value(metrics: Metrics, name: str, **labels: str) -> float:
    """The sum of the samples that have these labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def report(*events: Event, **fields: Any) -> TickReport:
    return TickReport(at=0.0, leading=True, events=events, **fields)


def test_shared_slots_are_counted_apart_and_their_owners_slots_once(w: Observed) -> None:
    w.node("a", slots=2, oversell=2.0)
    w.job("owner", workers=2, priority=5)
    w.settle()
    busy = Behaviour(runtime=Runtime.ELASTIC, load=SlotLoad(memory=0.5))
    w.job("sharer", workers=1, oversell=True, behaviour=busy)
    w.settle()
    assert w.value("sched_slots", node="a", state="used") == w.value("sched_slots", node="a") == 2
    assert w.value("sched_oversold_slots", node="a", state="used") == 1
    assert w.value("sched_oversold_slots", node="a", state="free") == 1
    assert w.value("sched_utilization_ratio") == 1
    assert w.value("sched_crowded_slots") == 0
    w.job("too much", workers=1, oversell=True, behaviour=replace(busy, load=SlotLoad(memory=0.95)))
    w.settle()
    assert w.value("sched_crowded_slots", node="a") == 1
    assert w.value("sched_job_requeues_total", cause="OVERSOLD") == 1


def bare() -> Metrics:
    return Metrics(Board(), (), lambda: 0.0)


def test_every_documented_metric_is_exposed_and_no_other() -> None:
    families = text_string_to_metric_families(bare().render().decode())
    exposed = {f"{family.name}_total" if family.type == "counter" else family.name: family.type for family in families}
    assert exposed == {metric.name: metric.kind for metric in METRICS}


def test_names_are_in_base_units_and_no_label_names_a_job() -> None:
    for metric in METRICS:
        assert metric.name.startswith("sched_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert not {"job", "job_id", "worker", "worker_id", "user", "name"} & set(metric.labels)
        assert metric.help.endswith(".")


def test_levels_are_those_of_the_world(w: Observed) -> None:
    w.node("a", slots=4)
    w.job("running", priority=12, workers=3)
    w.job("waiting", priority=-1, workers=2)
    w.advance(5)
    assert w.value("sched_slots", node="a", state="used") == 3
    assert w.value("sched_slots", node="a", state="free") + w.value("sched_slots", node="a", state="reserved") == 1
    assert w.value("sched_slots") == 4
    assert w.value("sched_utilization_ratio") == 0.75
    assert w.value("sched_jobs", state="RUNNING", priority_class="10") == 1
    assert w.value("sched_jobs", state="QUEUED", priority_class="below") == 1
    assert w.value("sched_waiting_jobs") == 1
    assert w.value("sched_workers", state="READY") == 3
    assert w.value("sched_oldest_wait_seconds") >= 4
    assert w.value("sched_nodes", health="UP", intent="ACTIVE") == 1
    assert w.value("sched_leading") == 1


def test_slots_of_a_cordoned_node_are_unavailable(w: Observed) -> None:
    name = w.node("a", slots=4)
    w.tick()
    w.ask(IntentKind.CORDON, node=name)
    w.tick()
    assert w.value("sched_slots", state="unavailable") == 4
    assert w.value("sched_slots", state="free") == 0


def test_a_preemption_is_measured_from_the_first_request_to_leave_until_the_job_runs(w: Observed) -> None:
    w.node("a", slots=4)
    w.job("low", priority=1, workers=(1, 4))
    w.advance(10)
    high = w.job("high", priority=9, workers=2)
    w.advance(10)
    w.ask_cancel(high)
    w.advance(60)
    assert w.value("sched_preemptions_total", how="shrink") >= 1
    assert w.value("sched_resizes_total", direction="shrink") >= 1
    assert w.value("sched_resizes_total", direction="grow") >= 1
    assert w.value("sched_preempt_to_running_seconds_count") == 1
    assert 0 < w.value("sched_preempt_to_running_seconds_sum") < 10
    assert w.value("sched_job_wait_seconds_count") == w.value("sched_jobs_started_total") == 2


def test_restarts_lost_work_and_ends_are_counted_by_cause() -> None:
    metrics = bare()
    job = JobId(1)
    metrics.observe(
        report(
            Event(0.0, EventKind.WORKER_ENDED, job, cause="FAILED", amount=12.5),
            Event(0.0, EventKind.WORKER_REPLACED, job, cause="FAILED"),
            Event(0.0, EventKind.JOB_STOPPING, job, cause="PREEMPTED", for_job=JobId(2), amount=3.0),
            Event(0.0, EventKind.JOB_REQUEUED, job, cause="PREEMPTED"),
            Event(0.0, EventKind.JOB_FAILED, job, cause="RETRIES_EXHAUSTED"),
            Event(0.0, EventKind.REQUEST_REFUSED, job, cause="SCALE"),
        )
    )
    assert value(metrics, "sched_worker_restarts_total", cause="FAILED") == 1
    assert value(metrics, "sched_lost_work_slot_seconds_total", cause="FAILED") == 12.5
    assert value(metrics, "sched_lost_work_slot_seconds_total", cause="PREEMPTED") == 3.0
    assert value(metrics, "sched_preemptions_total", how="stop") == 1
    assert value(metrics, "sched_job_requeues_total", cause="PREEMPTED") == 1
    assert value(metrics, "sched_jobs_ended_total", state="FAILED") == 1
    assert value(metrics, "sched_requests_refused_total", intent="SCALE") == 1


def test_a_cause_that_is_not_known_does_not_make_a_label_of_its_own() -> None:
    metrics = bare()
    for number in range(50):
        metrics.observe(report(Event(0.0, EventKind.WORKER_ENDED, JobId(1), cause=f"cause {number}")))
    assert value(metrics, "sched_workers_ended_total", cause="other") == 50


def test_ticks_violations_and_standby_are_counted() -> None:
    metrics = bare()
    metrics.observe(report(duration_seconds=0.02, violations=(Violation("I1", "x"),)))
    metrics.observe(report(error="disk full"))
    metrics.observe(TickReport(at=0.0, followed=7))
    assert value(metrics, "sched_tick_duration_seconds_count") == 3
    assert value(metrics, "sched_invariant_violations_total", invariant="I1") == 1
    assert [value(metrics, "sched_ticks_total", result=result) for result in ("ok", "error", "standby")] == [1, 1, 1]
    assert value(metrics, "sched_leading") == 0


@pytest.mark.parametrize(("priority", "name"), [(-5, "below"), (0, "0"), (9, "0"), (10, "10"), (5000, "1000")])
def test_priorities_fall_into_classes_by_their_lower_bound(priority: int, name: str) -> None:
    assert priority_class(priority, (0, 10, 100, 1000)) == name


# What Grafana and Prometheus ask for


def queries() -> Iterator[str]:
    for path in sorted(GRAFANA.glob("dashboards/*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            yield from (target["expr"] for target in panel.get("targets", ()))
        yield from (variable["query"]["query"] for variable in dashboard["templating"]["list"] if "refresh" in variable)
    for rule in rules():
        yield rule["expr"]


def rules() -> Iterator[dict[str, Any]]:
    for name in ("rules.yaml", "alerts.yaml"):
        for group in yaml.safe_load((GRAFANA / "prometheus" / name).read_text())["groups"]:
            yield from group["rules"]


def exposed_names() -> set[str]:
    names = {metric.name for metric in METRICS if metric.kind != "histogram"}
    histograms = [metric.name for metric in METRICS if metric.kind == "histogram"]
    return names | {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}


def test_every_query_asks_for_documented_metrics_only() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    asked = {name for query in queries() for name in re.findall(r"\bsched[_:][a-z0-9_:]+", query)}
    assert asked
    assert asked <= exposed_names() | recorded


def test_labels_in_queries_are_those_of_the_metric() -> None:
    labels = {metric.name: {*metric.labels, "le", "instance"} for metric in METRICS}
    for query in queries():
        for name, selector in re.findall(r"\b(sched_[a-z0-9_]+)\{([^}]*)\}", query):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            used = set(re.findall(r"([a-z_]+)\s*=", selector))
            assert used <= labels[base], query


def test_every_metric_is_on_a_dashboard_or_in_a_rule() -> None:
    text = " ".join(queries())
    unseen = [metric.name for metric in METRICS if metric.name not in text]
    assert set(unseen) <= {
        "sched_jobs_started_total",
        "sched_workers_ended_total",
        "sched_action_failures_total",
        "sched_requests_refused_total",
    }


def test_panels_have_titles_ids_and_places_of_their_own() -> None:
    for path in GRAFANA.glob("dashboards/*.json"):
        panels = json.loads(path.read_text())["panels"]
        assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
        assert len(set(places)) == len(places)


def test_alerts_say_what_is_wrong_and_how_urgent_it_is() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("page", "ticket")
            assert rule["annotations"]["summary"]


def test_every_configuration_file_is_valid_yaml() -> None:
    files = sorted(GRAFANA.rglob("*.yaml"))
    assert len(files) >= 5
    assert all(yaml.safe_load(path.read_text()) for path in files)
