"""Metrics that are read at scrapes, written as text at once.

There are thousands of them on a large cluster, one for each node and state: prometheus_client, which checks every label
of every sample, would take most of a scrape for them.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from scheduler.metrics.metric import Metric

_LABELS_KEPT = 65_536


class Family:
    """All samples of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        labels = ",".join(f'{label}="%s"' for label in metric.labels)
        self._template = f"{metric.name}{{{labels}}} %s\n" if labels else f"{metric.name} %s\n"
        self._samples: list[str] = []

    def add(self, labels: Sequence[str], value: float) -> None:
        """One sample; labels in the order of the metric's."""
        self._samples.append(self._template % (*map(_escaped, labels), value))

    def text(self, *, openmetrics: bool) -> Iterator[str]:
        """Its part of a scrape."""
        metric = self._metric
        name = metric.name.removesuffix("_total") if openmetrics else metric.name
        yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
        yield from self._samples


#: By name.
Families = dict[str, Family]


def empty_families(metrics: Iterable[Metric]) -> Families:
    """A family without samples of each of these that is read at scrapes."""
    return {metric.name: Family(metric) for metric in metrics if metric.kind == "gauge" or metric.watched}


@lru_cache(_LABELS_KEPT)
def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
