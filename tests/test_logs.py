"""What the daemon writes: a line for each decision, for people or as JSON; and traces of its ticks."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.daemon.decisions import REPORTS_MAX, WAITS_MAX, DecisionLog
from scheduler.daemon.tracing import TracedEngine, tracer_of
from scheduler.engine.apply.launch import LaunchContext
from scheduler.errors import ClusterError
from scheduler.model.job_state import JobState
from scheduler.model.observation import Observation
from tests.daemon import ROOT, running_daemon
from tests.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.node("a", slots=4)
    yield world
    world.close()


def decided(world: World) -> list[dict[str, Any]]:
    """The lines of all reports so far."""
    log = DecisionLog()
    return [{"what": what, **facts} for report in world.reported for what, facts in log.lines(report)]


def test_each_decision_is_a_line_with_job_generation_and_reason(world: World) -> None:
    low = world.job("low", priority=1, workers=(1, 4))
    world.settle()
    high = world.job("high", priority=9, workers=2)
    world.settle()
    lines = decided(world)
    (shrunk,) = (line for line in lines if line["what"] == "job shrank")
    assert (shrunk["job"], shrunk["reason"], shrunk["for_job"]) == (low, "PREEMPTED", high)
    assert shrunk["generation"] == world.get(low).generation
    (waits,) = (line for line in lines if line["what"] == "job waits")
    assert (waits["job"], waits["reason"]) == (high, "WAITING_FOR_VICTIMS")
    assert "for_job" not in waits
    assert [line["job"] for line in lines if line["what"] == "job started"] == [low, high]
    assert all(line["reason"] for line in lines)
    assert all("generation" in line for line in lines if "job" in line)
    world.expect(high, JobState.RUNNING)


def test_of_many_jobs_that_come_to_wait_at_once_most_are_counted(world: World) -> None:
    for number in range(WAITS_MAX + 30):
        world.job(f"job-{number}", workers=4)
    world.advance(1)
    lines = decided(world)
    assert len([line for line in lines if line["what"] == "job waits"]) == WAITS_MAX
    assert [line["jobs"] for line in lines if line["what"] == "more jobs are waiting"] == [29]


def test_lines_are_written_beside_the_engine_and_all_before_the_end(world: World) -> None:
    log = DecisionLog()
    world.job("one")
    world.settle()
    with capture_logs() as lines:
        log.start()
        for report in world.reported:
            log.see(report)
        log.stop()
    assert "job started" in [line["event"] for line in lines]


def test_who_writes_too_slowly_leaves_lines_out_and_says_so(world: World) -> None:
    log = DecisionLog()
    world.job("one")
    world.settle()
    started = next(report for report in world.reported if report.events)
    for _ in range(REPORTS_MAX + 5):
        log.see(started)
    with capture_logs() as lines:
        log.start()
        log.stop()
    assert lines[0]["ticks"] == 5


WRITE = (
    "from scheduler.daemon.logging import configure_logging; configure_logging(); "
    "import structlog, logging; structlog.get_logger('scheduler.x').info('job started', job=3, reason='FREE_SLOTS'); "
    "logging.getLogger('library').warning('careful')"
)


def test_a_pipe_gets_json_a_terminal_lines_for_people() -> None:
    piped = subprocess.run([sys.executable, "-c", WRITE], cwd=ROOT, capture_output=True, text=True, check=True)
    first, second = map(json.loads, piped.stderr.splitlines())
    assert (first["event"], first["job"], first["level"]) == ("job started", 3, "info")
    assert (second["event"], second["logger"]) == ("careful", "library")
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", WRITE], cwd=ROOT, stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "job started" in shown
    assert "{" not in shown


def test_a_daemon_writes_its_decisions_as_json(tmp_path: Path) -> None:
    with running_daemon(tmp_path) as daemon:
        job = daemon.client.post("/v1/jobs", json={"command": "true"}).json()["id"]
        after = 0
        while daemon.client.get(f"/v1/jobs/{job}").json()["state"] != "SUCCEEDED":
            after = daemon.client.get(f"/v1/events?job={job}&after={after}&wait=10").json()["next"]
        assert daemon.stop() == 0
        lines = [json.loads(line) for line in daemon.log().splitlines()]
        said = [(line["event"], line["reason"]) for line in lines if line.get("job") == job]
    assert ("job started", "FREE_SLOTS") in said
    assert said[-1] == ("job succeeded", "DONE")


class _Spans:
    """A provider that keeps what it gets, and a world whose engine is traced by it."""

    def __init__(self, world: World) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        launch = LaunchContext("http://127.0.0.1:1", lambda job: f"token-{job.id}", world.directory / "jobs")
        others = (world.clock, world.settings, launch, world.board, world.reports, "traced", None)
        world.engine = TracedEngine(tracer_of(provider), world.store, world.cluster, *others)

    def taken(self) -> list[ReadableSpan]:
        """Those since the last time, in the order in which they began."""
        spans = sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
        self._exporter.clear()
        return spans


def tree(spans: list[ReadableSpan]) -> dict[str, list[str]]:
    """Names of spans with those right below them."""
    names = {span.context.span_id: span.name for span in spans if span.context is not None}
    below: dict[str, list[str]] = {}
    for span in spans:
        if span.parent is not None:
            below.setdefault(names[span.parent.span_id], []).append(span.name)
    return below


def test_a_tick_is_a_trace_of_its_phases_and_calls(world: World) -> None:
    spans = _Spans(world)
    world.tick()
    spans.taken()
    world.job("traced")
    world.tick()
    found = spans.taken()
    assert len({span.context.trace_id for span in found if span.context is not None}) == 1
    below = tree(found)
    assert below["tick"] == ["lease", "observe", "take_inbox", "absorb", "plan", "commit", "post", "apply"]
    assert below["observe"] == ["cluster.observe"]
    assert below["take_inbox"][0] == "store.take_inbox"
    assert below["commit"] == ["store.commit"]
    assert below["apply"] == ["cluster.apply"]
    (tick,) = (span for span in found if span.name == "tick")
    assert tick.attributes is not None
    assert (tick.attributes["sched.leading"], tick.attributes["sched.jobs_changed"]) == (True, 1)


class _Away(SimulatedCluster):
    """A cluster that does not answer."""

    def observe(self) -> Observation:
        raise ClusterError("nobody answers")


def test_what_failed_is_marked_where_it_failed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cluster = _Away(world.clock, world.board, world.reports)
    spans = _Spans(world)
    assert world.engine.tick().error == "nobody answers"
    failed = [span.name for span in spans.taken() if not span.status.is_ok and span.status.description]
    assert failed == ["tick", "observe", "cluster.observe"]
    world.close()


def test_a_tick_that_follows_says_so(world: World) -> None:
    world.tick()
    spans = _Spans(world)
    assert world.engine.tick().following
    assert tree(spans.taken())["tick"] == ["follow"]


def test_without_the_extra_a_daemon_with_tracing_says_what_to_install(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    block = "import sys; sys.modules['opentelemetry.exporter'] = None; "
    run = subprocess.run(
        [sys.executable, "-c", block + "import runpy; runpy.run_module('scheduler.daemon', run_name='__main__')"],
        env={**os.environ, "SCHED_STATE_DIR": str(tmp_path), "SCHED_HTTP__PORT": "0", "SCHED_TRACING__ENABLED": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        cwd=ROOT,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].endswith("pip install 'elastic-gpu-scheduler[otel]'")
    assert "Traceback" not in run.stderr
