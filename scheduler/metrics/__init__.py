"""Prometheus metrics. `METRICS` names and explains all of them; the only package that uses prometheus_client."""

from scheduler.metrics.catalog import METRICS
from scheduler.metrics.classes import DEFAULT_CLASSES, LOWEST_CLASS
from scheduler.metrics.metric import Metric
from scheduler.metrics.registry import Metrics

__all__ = ["DEFAULT_CLASSES", "LOWEST_CLASS", "METRICS", "Metric", "Metrics"]
