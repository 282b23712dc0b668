"""State of the scheduler, and the duration of its operations."""

from grafana.boards import names
from grafana.dashboard import Dashboard
from grafana.panel import Panel


def _p99(histogram: str, by: str, also: str = "") -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({histogram}_bucket{{@{also}}}[$__rate_interval])))"


_NOW = (
    Panel(
        "Leaders",
        "Number of leading daemons; must be 1.",
        {"": "sum(sched_leading{@})"},
        "short",
        names.JOBS,
        "stat",
        width=4,
    ),
    Panel(
        "Term",
        "Number of the current leadership term.",
        {"": "max(sched_term{@})"},
        "short",
        names.JOBS,
        "stat",
        width=4,
    ),
    Panel(
        "Lease",
        "Time after which a standby replaces the leader; longer than set while writes are slow.",
        {"": "max(sched_lease_seconds{@})"},
        "s",
        names.JOBS,
        "stat",
        width=4,
    ),
    Panel(
        "Clock ahead",
        "Clock of the machine, less the clock that durations are measured by.",
        {"": "max(sched_clock_ahead_seconds{@})"},
        "s",
        names.JOBS,
        "stat",
        width=4,
    ),
    Panel(
        "Violated invariants",
        "Plans dropped in the selected time range.",
        {"": "sum(increase(sched_invariant_violations_total{@}[$__range]))"},
        "short",
        names.JOBS,
        "stat",
        width=4,
        limit=1,
    ),
    Panel(
        "Crashed ticks",
        "Ticks that failed with an internal error in the selected time range; see the log of the daemon.",
        {"": "sum(increase(sched_tick_crashes_total{@}[$__range]))"},
        "short",
        names.JOBS,
        "stat",
        width=4,
        limit=1,
    ),
    Panel(
        "Version",
        "Versions of the daemons.",
        {"{{version}}": "count by (version) (sched_build_info{@})"},
        "short",
        names.JOBS,
        "stat",
        width=4,
    ),
    Panel(
        "Running since",
        "Time since the last start of a daemon.",
        {"": "min(time() - process_start_time_seconds{@} and on (instance) sched_leading)"},
        "s",
        names.JOBS,
        "stat",
        width=4,
    ),
)
_TICKS = (
    Panel(
        "Ticks",
        "Ticks per second by result; error: the database or the cluster is unavailable.",
        {"{{result}}": "sum by (result) (rate(sched_ticks_total{@}[$__rate_interval]))"},
        "ops",
        names.UTILIZATION,
    ),
    Panel(
        "Tick duration",
        "99th percentile by daemon.",
        {"{{instance}}": _p99("sched_tick_duration_seconds", "instance")},
        "s",
        names.UTILIZATION,
        limit=1,
    ),
    Panel(
        "Tick phases",
        "Mean duration of each phase, stacked.",
        {
            "{{phase}}": "sum by (phase) (rate(sched_tick_phase_seconds_sum{@}[$__rate_interval])) / "
            "sum by (phase) (rate(sched_tick_phase_seconds_count{@}[$__rate_interval]))"
        },
        "s",
        names.UTILIZATION,
        stacked=True,
    ),
    Panel(
        "Failed actions",
        "Starts and stops of workers per second that failed and are retried.",
        {"{{action}}": "sum by (action) (rate(sched_action_failures_total{@}[$__rate_interval]))"},
        "ops",
        names.JOBS,
    ),
)
_OTHERS = (
    Panel(
        "Database transactions",
        "99th percentile by kind, including the wait for a turn; urgent are the writes of the engine.",
        {"{{kind}} {{outcome}}": _p99("sched_store_transaction_seconds", "kind, outcome")},
        "s",
        names.UTILIZATION,
    ),
    Panel(
        "Cluster calls",
        "99th percentile by call.",
        {"{{call}} {{outcome}}": _p99("sched_cluster_call_seconds", "call, outcome")},
        "s",
        names.UTILIZATION,
    ),
    Panel(
        "discover_hosts requests",
        "discover_hosts answers per second by outcome, and requests waiting for news.",
        {
            "{{outcome}}": "sum by (outcome) (rate(sched_discover_hosts_requests_total{@}[$__rate_interval]))",
            "waiting for {{what}}": "sum by (what) (sched_long_polls{@})",
        },
        "short",
        names.JOBS,
    ),
    Panel(
        "HTTP connections",
        "Open connections, and connections that the daemon ended and requests that it refused (429) per second.",
        {
            "open": "sum(sched_http_connections{@})",
            "ended: {{reason}}": "sum by (reason) (rate(sched_http_ended_connections_total{@}[$__rate_interval]))",
            "refused: {{caller}}": "sum by (caller) (rate(sched_http_throttled_requests_total{@}[$__rate_interval]))",
        },
        "short",
        names.JOBS,
    ),
    Panel(
        "Webhooks",
        "Webhook deliveries per second, and webhooks whose receiver has not accepted the next event.",
        {
            "tried: {{outcome}}": "sum by (outcome) (rate(sched_webhook_tries_total{@}[$__rate_interval]))",
            "failing": "sum(sched_failing_webhooks{@})",
        },
        "short",
        names.JOBS,
    ),
    Panel(
        "Nodes",
        "Nodes by health and intent.",
        {"{{health}} {{intent}}": "sum by (health, intent) (sched_nodes{@})"},
        "short",
        names.UTILIZATION,
        stacked=True,
    ),
    Panel(
        "Node changes",
        "In the selected time range.",
        {"{{change}}": "sum by (change) (increase(sched_node_changes_total{@}[$__range]))"},
        "short",
        names.UTILIZATION,
        "bargauge",
    ),
    Panel(
        "Nodes with unhealthy slots",
        "Unused slots that are unhealthy, or on nodes that are down or quarantined: the top 20, and the sum.",
        {
            "{{node}}": 'topk(20, sum by (node) (sched_slots{@,state="unhealthy"}))',
            "all": 'sum(sched:slots:sum{@,state="unhealthy"})',
        },
        "short",
        names.UTILIZATION,
        "bargauge",
    ),
    Panel(
        "Slots closed to new workers",
        "Slots that others use (FOREIGN), that are broken or gone (UNHEALTHY), or of which nothing can be read "
        "(UNREADABLE): the top 20.",
        {"{{closure}} {{node}}": "topk(20, max by (closure, node) (sched_closed_slots{@})) > 0 or on () vector(0)"},
        "short",
        names.UTILIZATION,
    ),
    Panel(
        "Daemon CPU",
        "Cores.",
        {"{{instance}}": "rate(process_cpu_seconds_total{@}[$__rate_interval]) and on (instance) sched_leading"},
        "short",
        names.UTILIZATION,
    ),
    Panel(
        "Daemon memory",
        "Resident memory.",
        {"{{instance}}": "process_resident_memory_bytes{@} and on (instance) sched_leading"},
        "bytes",
        names.UTILIZATION,
    ),
    Panel(
        "Open files and connections",
        "Share of the limit.",
        {"{{instance}}": "process_open_fds{@} / process_max_fds and on (instance) sched_leading"},
        "percentunit",
        names.UTILIZATION,
        maximum=1,
    ),
    Panel(
        "Scrape duration",
        "Time Prometheus waits for the metrics.",
        {"{{instance}}": "scrape_duration_seconds{@} and on (instance) sched_leading"},
        "s",
        names.UTILIZATION,
    ),
)

HEALTH = Dashboard(
    names.HEALTH,
    "Scheduler health",
    "State of the scheduler, and the duration of its operations.",
    {"Now": _NOW, "Ticks": _TICKS, "Database, cluster, nodes, process": _OTHERS},
)
