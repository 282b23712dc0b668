"""Metrics of calls: to the database and the cluster, requests over HTTP, and webhooks."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from scheduler.engine.ports import ActionFailure, Clock, Cluster, ClusterAction
from scheduler.metrics.metric import Metric, each
from scheduler.metrics.recorder import Recorder
from scheduler.metrics.ticks import TICK_BUCKETS
from scheduler.model.observation import Observation
from scheduler.model.unreadable import TABLES

_OUTCOMES = ("ok", "error")

CALL_METRICS = (
    Metric(
        "sched_store_transaction_seconds",
        "histogram",
        ("kind", "outcome"),
        "Duration of database transactions, including the wait for a turn: read, write, urgent (writes of the engine); "
        "error includes those that were refused or rolled back.",
        TICK_BUCKETS,
        each(("read", "write", "urgent"), _OUTCOMES),
    ),
    Metric(
        "sched_cluster_call_seconds",
        "histogram",
        ("call", "outcome"),
        "Duration of cluster calls: observe, apply (all actions of a tick at once).",
        TICK_BUCKETS,
        each(("observe", "apply"), _OUTCOMES),
    ),
    Metric(
        "sched_discover_hosts_requests_total",
        "counter",
        ("outcome",),
        "Answered discover_hosts requests: given, unchanged (the client has the list), none (nothing is "
        "published, or the job has ended or does not exist), refused.",
        watched=True,
    ),
    Metric(
        "sched_long_polls",
        "gauge",
        ("what",),
        "Requests waiting for news: of hosts, of events.",
    ),
    Metric("sched_http_connections", "gauge", (), "Open HTTP connections."),
    Metric(
        "sched_http_ended_connections_total",
        "counter",
        ("reason",),
        "HTTP connections that the daemon ended: head, body (the request, or the handshake of TLS before its head, did "
        "not arrive in time), untaken (its answers were not read), crowded (silent for longest when there were too "
        "many), refused (all others were at work).",
        watched=True,
    ),
    Metric(
        "sched_tls_certificate_end_timestamp_seconds",
        "gauge",
        (),
        "End of the daemon's certificate, or of the one that its workers show if that ends before, in Unix seconds; "
        "absent without `http.tls_certificate`.",
    ),
    Metric(
        "sched_http_throttled_requests_total",
        "counter",
        ("caller",),
        "Requests that were answered with status 429: of users, of workers, of others (without a token).",
        watched=True,
    ),
    Metric(
        "sched_shard_calls_total",
        "counter",
        (),
        "Answered calls of readers of data queues.",
        watched=True,
    ),
    Metric(
        "sched_shards_total",
        "counter",
        ("outcome",),
        "Shards of data queues: given to readers, or reported done, failed or returned.",
        watched=True,
    ),
    Metric(
        "sched_webhook_tries_total",
        "counter",
        ("outcome",),
        "Webhook delivery attempts: ok, error (not accepted by the receiver; retried).",
        watched=True,
    ),
    Metric(
        "sched_unreadable_rows",
        "gauge",
        ("table",),
        "Rows of the database that cannot be read and are set aside, as far as this daemon has met them.",
        series=each(TABLES),
    ),
    Metric("sched_failing_webhooks", "gauge", (), "Webhooks whose receiver has not accepted the next event."),
)


class Stopwatch:
    """Measures how long blocks take."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    @contextmanager
    def transaction(self, kind: str) -> Iterator[None]:
        """A transaction of the database."""
        with self._timed("sched_store_transaction_seconds", kind=kind):
            yield

    @contextmanager
    def call(self, call: str) -> Iterator[None]:
        """A call of the cluster."""
        with self._timed("sched_cluster_call_seconds", call=call):
            yield

    @contextmanager
    def _timed(self, name: str, **labels: str) -> Iterator[None]:
        began, outcome = self._clock.monotonic(), "error"
        try:
            yield
            outcome = "ok"
        finally:
            self._recorder.observe(name, self._clock.monotonic() - began, {**labels, "outcome": outcome})


class MeasuredCluster:
    """A cluster whose calls are measured."""

    def __init__(self, cluster: Cluster, stopwatch: Stopwatch) -> None:
        self._cluster = cluster
        self._stopwatch = stopwatch

    def observe(self) -> Observation:
        """As the cluster's own."""
        with self._stopwatch.call("observe"):
            return self._cluster.observe()

    def apply(self, actions: Sequence[ClusterAction], until: float = math.inf) -> Sequence[ActionFailure]:
        """As the cluster's own."""
        with self._stopwatch.call("apply"):
            return self._cluster.apply(actions, until)

    def on_change(self, wake: Callable[[], None]) -> None:
        """As the cluster's own."""
        self._cluster.on_change(wake)
