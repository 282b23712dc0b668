"""docs/metrics.md: every metric of the daemon."""

from collections.abc import Iterator

from docs.generate.markdown import heading, table
from scheduler.metrics.catalog import CHAPTERS
from scheduler.metrics.metric import ANY_CLASS, Metric
from scheduler.metrics.process import PROCESS_METRICS

_HEAD = """
Metrics that the daemon serves at `/metrics` for Prometheus, as text or as OpenMetrics with exemplars if requested (the
histograms of jobs then name the job of a value). Labels are bounded by the nodes and queues of the cluster or by
what is listed here, never by jobs, users or workers. A priority class is named by the lower bound of its priorities;
the bounds are `policy.aging_ceilings`, or 0, 10, 100 and 1000 where there are none. Counters begin with zero for
every listed value, so that `rate` and `increase` see the first change. A daemon that does not lead tells only of
itself.
"""


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield heading("Metrics") + _HEAD
    for title, metrics in {**CHAPTERS, "The process": PROCESS_METRICS}.items():
        yield f"## {title}\n"
        yield from table(("metric", "kind", "labels", "meaning"), map(_row, metrics))
        yield ""
        yield from _listed(metrics)


def _row(metric: Metric) -> tuple[str, ...]:
    return f"`{metric.name}`", metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.help


def _listed(metrics: tuple[Metric, ...]) -> Iterator[str]:
    for metric in metrics:
        for place, label in enumerate(metric.labels):
            values = dict.fromkeys(series[place] for series in metric.series)
            if values and ANY_CLASS not in values:
                yield f"`{metric.name}`, `{label}`: {', '.join(f'`{value}`' for value in values)}.\n"
