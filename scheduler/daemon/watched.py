"""Metrics that the parts of the daemon keep themselves, read at every scrape."""

from functools import partial

from scheduler.daemon.certificates import Certificates
from scheduler.daemon.webhooks.sender import OUTCOMES
from scheduler.daemon.webhooks.sender_threads import SenderThreads
from scheduler.engine.tick import Engine
from scheduler.engine.timing.steady_clock import SteadyClock
from scheduler.http.server.connections import Connections
from scheduler.http.server.entry import Entry
from scheduler.http.services import Services
from scheduler.metrics import Metrics
from scheduler.model.unreadable import TABLES
from scheduler.store.sqlstore import SqlStore


def watch_requests(metrics: Metrics, app: Entry, connections: Connections, services: Services) -> None:
    """Connections, requests, and those that wait."""
    metrics.watch("sched_http_connections", connections.__len__)
    for reason in connections.ended:
        metrics.watch("sched_http_ended_connections_total", partial(connections.ended.__getitem__, reason), reason)
    for caller in app.throttle.refused:
        refused = partial(app.throttle.refused.__getitem__, caller)
        metrics.watch("sched_http_throttled_requests_total", refused, caller)
    for what, notifier in (("hosts", services.hosts_bell), ("events", services.events_bell)):
        metrics.watch("sched_long_polls", notifier.listening, what)
    for outcome in app.asked:
        metrics.watch("sched_discover_hosts_requests_total", partial(app.asked.__getitem__, outcome), outcome)
    shards = services.shards
    metrics.watch("sched_shard_calls_total", lambda: shards.answered)
    for outcome in ("given", "done", "failed", "returned"):
        metrics.watch("sched_shards_total", partial(shards.shards.__getitem__, outcome), outcome)


def watch_engine(metrics: Metrics, engine: Engine, clock: SteadyClock, services: Services) -> None:
    """Who leads, and what is wrong."""

    def leaders_term() -> int:
        leader = engine.leader
        return leader.term if leader is not None else 0

    metrics.watch("sched_term", leaders_term)
    metrics.watch("sched_lease_seconds", lambda: engine.lease_seconds)
    metrics.watch("sched_clock_ahead_seconds", lambda: clock.wall() - clock.now())
    metrics.watch("sched_troubles", lambda: len(services.troubles()))


def watch_others(metrics: Metrics, store: SqlStore, senders: SenderThreads, certificates: Certificates | None) -> None:
    """Rows, webhooks, and the certificate where there is one."""

    def unreadable(table: str) -> int:
        return sum(row.table == table for row in store.unreadable)

    for table in TABLES:
        metrics.watch("sched_unreadable_rows", partial(unreadable, table), table)
    metrics.watch("sched_failing_webhooks", senders.failing)
    for outcome in OUTCOMES:
        metrics.watch("sched_webhook_tries_total", partial(senders.tries, outcome), outcome)
    if certificates is not None:
        metrics.watch("sched_tls_certificate_end_timestamp_seconds", lambda: certificates.ends_at)
