"""One panel of a dashboard: what it asks Prometheus, and how it shows the answer."""

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["timeseries", "stat", "bargauge", "table"]
Json = dict[str, Any]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: Stands in queries for the daemons that are chosen.
DAEMONS = "@"
_CHOSEN = 'instance=~"$instance"'
#: Documentation and details of jobs: the daemon's own pages.
_DAEMON_LINK = {"title": "The daemon", "url": "${daemon}/", "targetBlank": True}


@dataclass(frozen=True, slots=True)
class Panel:
    """`queries` by legend. `unit` is one of Grafana's; `to` the dashboard that tells more."""

    title: str
    description: str
    queries: dict[str, str]
    unit: str
    to: str
    kind: Kind = "timeseries"
    stacked: bool = False
    #: As wide as this many of 24 columns.
    width: int = 12
    maximum: float | None = None
    #: From here on it is bad.
    limit: float | None = None
    #: Show examples of jobs beside the curves.
    examples: bool = False

    @property
    def height(self) -> int:
        return 4 if self.kind == "stat" else 8

    def json(self, number: int, x: int, y: int) -> Json:
        """As Grafana keeps it."""
        return {
            "id": number,
            "title": self.title,
            "description": self.description,
            "type": self.kind,
            "datasource": DATASOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "links": [
                {"title": "More", "url": f"/d/{self.to}?${{__url_time_range}}&${{__all_variables}}"},
                _DAEMON_LINK,
            ],
            "fieldConfig": {"defaults": self._field(), "overrides": []},
            "options": self._options(),
            "targets": [
                self._target(chr(ord("A") + place), legend, query)
                for place, (legend, query) in enumerate(self.queries.items())
            ],
        }

    def _target(self, name: str, legend: str, query: str) -> Json:
        instant = self.kind in ("table", "bargauge")
        return {
            "datasource": DATASOURCE,
            "refId": name,
            "expr": query.replace(DAEMONS, _CHOSEN),
            "legendFormat": legend,
            "exemplar": self.examples,
            "instant": instant,
            "range": not instant,
            "format": "table" if self.kind == "table" else "time_series",
        }

    def _field(self) -> Json:
        steps: list[Json] = [{"color": "green" if self.limit is not None else "blue", "value": None}]
        if self.limit is not None:
            steps.append({"color": "red", "value": self.limit})
        field: Json = {
            "unit": self.unit,
            "min": 0,
            "color": {"mode": "palette-classic" if self.kind == "timeseries" else "thresholds"},
            "thresholds": {"mode": "absolute", "steps": steps},
        }
        if self.maximum is not None:
            field["max"] = self.maximum
        if self.kind == "timeseries":
            field["custom"] = {
                "fillOpacity": 40 if self.stacked else 5,
                "lineWidth": 1,
                "showPoints": "never",
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "line" if self.limit is not None else "off"},
            }
        return field

    def _options(self) -> Json:
        if self.kind == "timeseries":
            return {
                "legend": {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"]},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        if self.kind == "table":
            return {"showHeader": True}
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "textMode": "auto"}
