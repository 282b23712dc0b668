"""Dashboards, recording rules and alerts: that they ask for what there is, and are what they are made from."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana.boards import BOARDS
from grafana.boards.utilization import UTILIZATION
from grafana.dashboard import Dashboard
from grafana.panel import Panel
from scheduler.metrics import METRICS
from tests.metrics.prometheus import RULES, judge, needs_prometheus, run_promtool

GRAFANA = Path(__file__).parent.parent.parent / "grafana"

#: Of Prometheus itself.
SCRAPES = {"scrape_duration_seconds"}
UNITS = {"short", "percentunit", "s", "ops", "bytes"}


def panels(board: Dashboard) -> Iterator[Panel]:
    for section in board.sections.values():
        yield from section


def queries() -> Iterator[str]:
    for board in BOARDS:
        yield from (query for panel in panels(board) for query in panel.queries.values())
        yield from (choice.query for choice in board.choices)
        yield from (mark["expr"] for mark in board.json()["annotations"]["list"] if "expr" in mark)
    for rule in rules():
        yield rule["expr"]


def rules() -> Iterator[dict[str, Any]]:
    for name in ("rules.yaml", "alerts.yaml"):
        for group in yaml.safe_load((RULES / name).read_text())["groups"]:
            yield from group["rules"]


def recorded() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


def exposed_names() -> set[str]:
    names = {metric.name for metric in METRICS if metric.kind != "histogram"}
    histograms = [metric.name for metric in METRICS if metric.kind == "histogram"]
    return names | {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}


def asked_names() -> set[str]:
    pattern = r"\b(?:sched[_:][a-z0-9_:]+|(?:process|scrape)_[a-z_]+)"
    return {name for query in queries() for name in re.findall(pattern, query)}


def test_the_dashboards_are_those_that_the_boards_make() -> None:
    made = {f"{board.uid}.json": board.text() for board in BOARDS}
    assert made == {path.name: path.read_text() for path in (GRAFANA / "dashboards").iterdir()}


def test_every_query_asks_for_documented_metrics_only() -> None:
    assert asked_names() <= exposed_names() | recorded() | SCRAPES


def test_every_metric_and_every_rule_is_used() -> None:
    text = " ".join(queries())
    assert [metric.name for metric in METRICS if metric.name not in text] == ["process_virtual_memory_bytes"]
    # for users' own alerts
    own = {"sched:job_wait_seconds:p95_10m", "sched:preempt_to_running_seconds:p95_10m"}
    assert recorded() - asked_names() <= own | {"sched:utilization_ratio:avg_1h"}


def test_labels_in_queries_are_those_of_the_metric() -> None:
    labels = {metric.name: {*metric.labels, "le", "instance"} for metric in METRICS}
    for query in queries():
        for name, selector in re.findall(r"\b(sched_[a-z0-9_]+)\{([^}]*)\}", query):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            used = set(re.findall(r"([a-z_]+)\s*=", selector))
            assert used <= labels[base], query


def test_values_of_labels_in_queries_are_listed() -> None:
    for query in queries():
        for name, label, value in re.findall(r"\b(sched_[a-z0-9_]+)\{[^}]*?\b(cause|spent|change)=\"([^\"]*)\"", query):
            (metric,) = (each for each in METRICS if each.name == name)
            place = metric.labels.index(label)
            assert value in {series[place] for series in metric.series}, query


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_every_panel_tells_what_it_shows_in_which_unit_and_where_there_is_more(board: Dashboard) -> None:
    boards = {each.uid for each in BOARDS}
    document = json.loads(board.text())
    names = [panel["title"] for panel in document["panels"] if panel["type"] != "row"]
    assert len(set(names)) == len(names)
    assert len({panel["id"] for panel in document["panels"]}) == len(document["panels"])
    for panel in panels(board):
        assert panel.description.endswith(".")
        assert panel.unit in UNITS
        assert panel.to in boards - {board.uid}
        assert panel.queries
    for placed in document["panels"]:
        assert placed["type"] == "row" or len(placed["links"]) == 2


def test_panels_tell_over_what_time_their_ratios_are() -> None:
    words = {"10m": "over 10 minutes", "1h": "over 1 hour"}
    for panel in (each for board in BOARDS for each in panels(board)):
        spans = re.findall(r"\bsched:[a-z_]+:rate_(\w+)", " ".join(panel.queries.values()))
        assert [span for span in spans if words[span] not in panel.description] == [], panel.title


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_panels_do_not_overlap_and_stay_inside(board: Dashboard) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board.json()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_panels_beside_a_choice_of_slot_types_obey_it_or_say_that_they_do_not() -> None:
    for panel in panels(UTILIZATION):
        obeys = all('type=~"$type"' in selector for query in panel.queries.values() for selector in _selectors(query))
        assert obeys != panel.title.endswith(", all types"), panel.title


def _selectors(query: str) -> list[str]:
    """What stands in braces behind the names of series."""
    return re.findall(r"\bsched[_:][a-z0-9_:]+\{([^}]*)\}", query)


def test_panels_over_nodes_or_queues_show_a_few_of_them() -> None:
    for board in BOARDS:
        for panel in panels(board):
            for legend, query in panel.queries.items():
                if "{{node}}" in legend or "{{queue}}" in legend:
                    assert re.match(r"(top|bottom)k\(20, ", query), panel.title


def test_alerts_say_what_is_wrong_and_how_urgent_it_is() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("page", "ticket")
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["description"].endswith(".")


def test_every_configuration_file_is_valid_yaml() -> None:
    files = sorted(GRAFANA.rglob("*.yaml"))
    assert len(files) >= 5
    assert all(yaml.safe_load(path.read_text()) for path in files)


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tested = [
        (test["alertname"], bool(test["exp_alerts"]))
        for group in yaml.safe_load((RULES / "alerts_test.yaml").read_text())["tests"]
        for test in group.get("alert_rule_test", ())
    ]
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    assert {name for name, fires in tested if fires} == alerts
    assert {name for name, fires in tested if not fires} == alerts


@needs_prometheus
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "rules.yaml", "alerts.yaml"),
        ("check", "config", "prometheus.yaml"),
        ("test", "rules", "alerts_test.yaml"),
    ],
    ids=" ".join,
)
def test_promtool_agrees(arguments: tuple[str, ...]) -> None:
    run_promtool(*arguments)


@needs_prometheus
def test_each_change_of_the_leader_is_marked_once(tmp_path: Path) -> None:
    """Whether steps begin with whole minutes or not, and also after a time without a daemon."""
    marks = BOARDS[0].json()["annotations"]["list"]
    (query,) = (mark["expr"].replace("$__interval", "1m") for mark in marks if mark["name"] == "Change of leader")
    series = [
        {"series": 'sched_term{instance="a"}', "values": "1x9 _x30"},
        {"series": 'sched_term{instance="b"}', "values": "0x9 2x10 _x9 3x10"},
    ]
    marked = {"10m": 2, "10m30s": 2, "30m": 3, "30m30s": 3}
    times = ("5m", "9m", "9m30s", *marked, "11m", "11m30s", "15m", "25m", "31m", "35m")
    tests = [
        {
            "expr": query,
            "eval_time": time,
            "exp_samples": [{"labels": "{}", "value": marked[time]}] if time in marked else [],
        }
        for time in times
    ]
    judge(tmp_path, series, tests)
