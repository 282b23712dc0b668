"""Counters and histograms, by the names of their metrics."""

from collections.abc import Iterable, Mapping
from itertools import product
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter, Histogram

from scheduler.metrics.classes import PriorityClasses
from scheduler.metrics.metric import ANY_CLASS, Metric
from scheduler.model.ids import JobId

NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Recorder:
    """Keeps what is counted. Safe to use from any thread."""

    def __init__(self, metrics: Iterable[Metric], classes: PriorityClasses, registry: CollectorRegistry) -> None:
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in metrics:
            made: Counter | Histogram
            if metric.kind == "counter" and not metric.watched:
                base = metric.name.removesuffix("_total")
                made = self._counters[metric.name] = Counter(base, metric.help, metric.labels, registry=registry)
            elif metric.kind == "histogram":
                made = self._histograms[metric.name] = Histogram(
                    metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=registry
                )
            else:
                continue
            for series in metric.series:
                for values in product(*(classes.names if value == ANY_CLASS else (value,) for value in series)):
                    made.labels(*values)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def observe(self, name: str, value: float, labels: Mapping[str, str] = NO_LABELS, job: JobId | None = None) -> None:
        """Add to a histogram; the job is its example, for who wants to look closer."""
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(
            max(0.0, value), None if job is None else {"job": str(job)}
        )
