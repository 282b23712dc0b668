"""A dashboard: panels in rows, the choices above them, and links to the others."""

import json
from dataclasses import dataclass, field
from typing import Any

from grafana.panel import DATASOURCE, Panel

TAG = "sched"
COLUMNS = 24
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable whose values are those of a label."""

    name: str
    label: str
    query: str


INSTANCE = Choice("instance", "Daemon", "label_values(sched_leading, instance)")
TYPE = Choice("type", "Slot type", "label_values(sched:slots:sum, type)")
PRIORITY_CLASS = Choice("priority_class", "Priority class", "label_values(sched_held_slots, priority_class)")
QUEUE = Choice("queue", "Queue", "label_values(sched_queue_slots, queue)")


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Sections of panels, from above; each begins a row."""

    uid: str
    title: str
    description: str
    sections: dict[str, tuple[Panel, ...]]
    choices: tuple[Choice, ...] = (INSTANCE,)
    annotations: tuple[Json, ...] = ()
    #: Text that the user types in, with what stands there at first.
    texts: dict[str, tuple[str, str]] = field(default_factory=dict)

    def text(self) -> str:
        """The file that Grafana reads."""
        return json.dumps(self.json(), indent=1, ensure_ascii=False) + "\n"

    def json(self) -> Json:
        """As Grafana keeps it."""
        texts = {"daemon": ("Daemon's address for links", "http://127.0.0.1:8470"), **self.texts}
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": [TAG],
            "schemaVersion": 39,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "links": [
                {
                    "type": "dashboards",
                    "tags": [TAG],
                    "title": "Scheduler",
                    "asDropdown": True,
                    "includeVars": True,
                    "keepTime": True,
                }
            ],
            "templating": {
                "list": [
                    _DATASOURCES,
                    *(_choice(each) for each in self.choices),
                    *(_text(name, label, value) for name, (label, value) in texts.items()),
                ]
            },
            "annotations": {"list": [_LEADERS, *self.annotations]},
            "panels": list(self._panels()),
        }

    def _panels(self) -> "list[Json]":
        placed: list[Json] = []
        y = 0
        for title, panels in self.sections.items():
            placed.append(_row(len(placed) + 1, title, y))
            y, x, height = y + 1, 0, 0
            for panel in panels:
                if x + panel.width > COLUMNS:
                    y, x, height = y + height, 0, 0
                placed.append(panel.json(len(placed) + 1, x, y))
                x, height = x + panel.width, max(height, panel.height)
            y += height
        return placed


_DATASOURCES: Json = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
    "current": {},
    "hide": 0,
}
_LEADERS: Json = {
    "name": "Change of leader",
    "datasource": DATASOURCE,
    "enable": True,
    "iconColor": "orange",
    # Compares samples, not the values of a subquery, which may be fewer than two in the time of one step.
    "expr": "max(sched_term) > max(max_over_time(sched_term[1h] offset $__interval))",
    "titleFormat": "Another daemon leads",
    "step": "60s",
}


def _row(number: int, title: str, y: int) -> Json:
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
        "panels": [],
    }


def _choice(choice: Choice) -> Json:
    return {
        "name": choice.name,
        "label": choice.label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": choice.query, "refId": "A"},
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
        "sort": 3,
    }


def _text(name: str, label: str, value: str) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "textbox",
        "query": value,
        "current": {"text": value, "value": value},
        "options": [{"text": value, "value": value, "selected": True}],
    }
