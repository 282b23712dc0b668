"""Metrics: what is exposed and documented, and what is counted and measured of ticks, jobs, calls and transactions."""

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.process import Behaviour
from scheduler.clusters.simulated.work import WorkerSeconds
from scheduler.engine.board import Board
from scheduler.engine.tick import Step, TickReport
from scheduler.errors import ClusterError
from scheduler.metrics import METRICS, Metric, Metrics
from scheduler.metrics.classes import PriorityClasses
from scheduler.metrics.families import Family
from scheduler.metrics.ticks import PHASES
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import StopReason
from scheduler.model.worker import ExitReason
from scheduler.policy.checks.invariants import Violation
from tests.metrics.observed import Observed, samples, value

ROOT = Path(__file__).parent.parent.parent


def report(*events: Event, **fields: Any) -> TickReport:
    return TickReport(at=0.0, leading=True, events=events, **fields)


def bare() -> Metrics:
    return Metrics(Board(), (), VirtualClock())


def test_every_documented_metric_is_exposed_and_no_other() -> None:
    families = text_string_to_metric_families(bare().render().decode())
    exposed = {f"{family.name}_total" if family.type == "counter" else family.name: family.type for family in families}
    assert exposed == {metric.name: metric.kind for metric in METRICS}


def test_names_are_in_base_units_and_no_label_names_a_job() -> None:
    for metric in METRICS:
        assert metric.name.startswith(("sched_", "process_"))
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert not {"job", "job_id", "worker", "worker_id", "user", "name"} & set(metric.labels)
        assert metric.help.endswith(".")


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
    assert PriorityClasses((0, 10, 100, 1000)).of(priority) == name


def test_a_pause_of_a_resize_is_counted_once(w: Observed) -> None:
    w.node("a", slots=4)
    w.job(
        "low",
        priority=1,
        workers=(1, 4),
        behaviour=Behaviour(runtime=Runtime.ELASTIC, work=WorkerSeconds(1e9), pause_to_form=True),
    )
    w.advance(20)
    resizes = w.value("sched_resize_pause_seconds_count")
    high = w.job("high", priority=9, workers=2)
    w.advance(20)
    assert w.value("sched_resize_pause_seconds_count") == resizes == 1
    assert w.value("sched_resize_pause_slot_seconds_total") > 0
    w.ask_cancel(high)
    w.advance(0.5)
    w.engine.forget()
    w.metrics.observe(TickReport(at=w.clock.now()))
    counted = w.value("sched_resize_pause_seconds_count")
    w.tick()
    assert w.value("sched_resize_pause_seconds_count") == counted


def test_jobs_that_succeeded_tell_how_long_it_took_from_their_submission(w: Observed) -> None:
    w.node("a", slots=1)
    job = w.job("job", workers=1, priority=10)
    w.advance(10)
    for worker in w.get(job).workers:
        w.cluster.crash(worker.id, exit_code=0)
    w.advance(5)
    assert w.value("sched_jobs_ended_total", state="SUCCEEDED", cause="DONE") == 1
    assert w.value("sched_job_completion_seconds_count", priority_class="10") == 1
    assert 10 <= w.value("sched_job_completion_seconds_sum") <= 12


def test_a_quarantine_and_spent_retries_are_counted(w: Observed) -> None:
    w.node("a", slots=4)
    w.node("b", slots=1, labels=(("other", "yes"),))
    for number in range(2):
        job = w.job(f"bad {number}", workers=1, max_retries=1, slots_per_worker=2)
        for _ in range(2):
            w.advance(5)
            for worker in w.get(job).workers:
                w.cluster.crash(worker.id, exit_code=1)
        w.advance(5)
    assert w.value("sched_jobs_ended_total", state="FAILED", cause="RETRIES_EXHAUSTED") == 2
    assert w.value("sched_node_changes_total", change="quarantined") == 1
    assert w.value("sched_slots", state="unhealthy") == 4


def test_every_step_of_a_tick_has_its_phase(w: Observed) -> None:
    w.node("a", slots=1)
    w.tick()
    phases = {labels["phase"]: count for labels, count in samples(w.metrics, "sched_tick_phase_seconds_count")}
    assert phases == dict.fromkeys(PHASES.values(), 1)
    assert set(PHASES) == set(Step)


def test_counters_with_listed_values_begin_with_zero() -> None:
    metrics = bare()
    for metric in METRICS:
        if metric.kind == "counter" and metric.series:
            assert {number for _, number in samples(metrics, metric.name)} == {0}


def test_causes_that_the_engine_knows_are_listed() -> None:
    listed = {metric.name: {series[-1] for series in metric.series} for metric in METRICS}
    assert listed["sched_job_stops_total"] == set(StopReason)
    assert listed["sched_workers_ended_total"] == listed["sched_worker_restarts_total"] == set(ExitReason)


def test_examples_name_jobs_in_openmetrics_only(w: Observed) -> None:
    w.node("a", slots=1)
    job = w.job("job", workers=1)
    w.advance(5)
    body, content_type = w.metrics.answer("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert content_type.startswith("application/openmetrics-text")
    text = body.decode()
    assert f'# {{job="{job}"}}' in text
    assert text.endswith("# EOF\n")
    families = {family.name for family in openmetrics.text_string_to_metric_families(text)}
    assert {metric.name.removesuffix("_total") for metric in METRICS} <= families
    plain, content_type = w.metrics.answer("")
    assert content_type.startswith("text/plain")
    assert b'job="' not in plain


def test_calls_of_the_cluster_are_measured_failed_ones_too(w: Observed) -> None:
    measured = w.metrics.measured(w.cluster)
    measured.observe()
    measured.apply(())
    w.cluster.observe_failures = 1
    with pytest.raises(ClusterError):
        measured.observe()
    assert w.value("sched_cluster_call_seconds_count", call="observe", outcome="ok") == 1
    assert w.value("sched_cluster_call_seconds_count", call="observe", outcome="error") == 1
    assert w.value("sched_cluster_call_seconds_count", call="apply", outcome="ok") == 1


def test_transactions_are_measured_by_kind(w: Observed) -> None:
    w.store.measure(w.metrics.stopwatch.transaction)
    w.node("a", slots=1)
    w.job("job")
    w.tick()
    for kind in ("read", "write", "urgent"):
        assert w.value("sched_store_transaction_seconds_count", kind=kind, outcome="ok") >= 1


def test_every_metric_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(metric.name for metric in METRICS)
    exposed = {family.name for family in text_string_to_metric_families(bare().render().decode())}
    assert {name.removesuffix("_total") for name in documented} == {name.removesuffix("_total") for name in exposed}


def test_the_number_of_series_does_not_grow_with_jobs(w: Observed) -> None:
    w.node("a", slots=4)
    w.job("first", workers=1)
    w.advance(5)
    before = w.metrics.render().count(b"\n")
    for number in range(50):
        w.job(f"job {number}", priority=number * 50, workers=(1, 3))
    w.advance(60)
    assert w.metrics.render().count(b"\n") == before


def test_labels_are_escaped() -> None:
    family = Family(Metric("m", "gauge", ("node",), "Meaning."))
    family.add(['a "b" \\ c\n'], 1)
    (parsed,) = text_string_to_metric_families("".join(family.text(openmetrics=False)))
    assert parsed.samples[0].labels == {"node": 'a "b" \\ c\n'}
