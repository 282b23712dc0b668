"""Whether the scheduler is well, and how long it takes for what it does."""

from grafana.boards import names
from grafana.dashboard import Dashboard
from grafana.panel import Panel


def _p99(histogram: str, by: str, also: str = "") -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({histogram}_bucket{{@{also}}}[$__rate_interval])))"


_NOW = (
    Panel(
        "Leaders",
        "Daemons that lead; one is right.",
        {"": "sum(sched_leading{@})"},
        "short",
        names.JOBS,
        "stat",
        width=4,
    ),
    Panel(
        "Term", "Number of the present leadership.", {"": "max(sched_term{@})"}, "short", names.JOBS, "stat", width=4
    ),
    Panel(
        "Violated invariants",
        "Plans that were dropped in the time that is shown.",
        {"": "sum(increase(sched_invariant_violations_total{@}[$__range]))"},
        "short",
        names.JOBS,
        "stat",
        width=4,
        limit=1,
    ),
    Panel(
        "Crashed ticks",
        "Ticks that ended by a defect in the time that is shown; the daemon's log has the trace.",
        {"": "sum(increase(sched_tick_crashes_total{@}[$__range]))"},
        "short",
        names.JOBS,
        "stat",
        width=4,
        limit=1,
    ),
    Panel(
        "Version",
        "What the daemons run.",
        {"{{version}}": "count by (version) (sched_build_info{@})"},
        "short",
        names.JOBS,
        "stat",
        width=4,
    ),
    Panel(
        "Running since",
        "How long the daemon runs that was started last.",
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
        "Ticks a second by result; error: the database or the cluster is away.",
        {"{{result}}": "sum by (result) (rate(sched_ticks_total{@}[$__rate_interval]))"},
        "ops",
        names.UTILIZATION,
    ),
    Panel(
        "Duration of a tick",
        "The 99th percentile by daemon.",
        {"{{instance}}": _p99("sched_tick_duration_seconds", "instance")},
        "s",
        names.UTILIZATION,
        limit=1,
    ),
    Panel(
        "Phases of a tick",
        "The mean of each phase, one above the other.",
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
        "Starts and stops of workers a second that the cluster could not do at once.",
        {"{{action}}": "sum by (action) (rate(sched_action_failures_total{@}[$__rate_interval]))"},
        "ops",
        names.JOBS,
    ),
)
_OTHERS = (
    Panel(
        "Transactions of the database",
        "The 99th percentile by kind, waiting for their turn included; urgent are the engine's own writes.",
        {"{{kind}} {{outcome}}": _p99("sched_store_transaction_seconds", "kind, outcome")},
        "s",
        names.UTILIZATION,
    ),
    Panel(
        "Calls of the cluster",
        "The 99th percentile by call.",
        {"{{call}} {{outcome}}": _p99("sched_cluster_call_seconds", "call, outcome")},
        "s",
        names.UTILIZATION,
    ),
    Panel(
        "Questions for hosts",
        "Answers of discover_hosts a second by outcome, and requests that wait for news.",
        {
            "{{outcome}}": "sum by (outcome) (rate(sched_discover_hosts_requests_total{@}[$__rate_interval]))",
            "waiting for {{what}}": "sum by (what) (sched_long_polls{@})",
        },
        "short",
        names.JOBS,
    ),
    Panel(
        "Webhooks",
        "Deliveries to webhooks a second, and webhooks whose receiver has not taken the next event.",
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
        "What happened to nodes",
        "In the time that is shown.",
        {"{{change}}": "sum by (change) (increase(sched_node_changes_total{@}[$__range]))"},
        "short",
        names.UTILIZATION,
        "bargauge",
    ),
    Panel(
        "Nodes with unhealthy slots",
        "Nodes that are down or quarantined with the slots that nobody holds there; at most twenty, and the sum.",
        {
            "{{node}}": 'topk(20, sum by (node) (sched_slots{@,state="unhealthy"}))',
            "all": 'sum(sched:slots:sum{@,state="unhealthy"})',
        },
        "short",
        names.UTILIZATION,
        "bargauge",
    ),
    Panel(
        "CPU of the daemon",
        "Cores.",
        {"{{instance}}": "rate(process_cpu_seconds_total{@}[$__rate_interval]) and on (instance) sched_leading"},
        "short",
        names.UTILIZATION,
    ),
    Panel(
        "Memory of the daemon",
        "What is in RAM.",
        {"{{instance}}": "process_resident_memory_bytes{@} and on (instance) sched_leading"},
        "bytes",
        names.UTILIZATION,
    ),
    Panel(
        "Open files and connections",
        "In relation to how many there may be.",
        {"{{instance}}": "process_open_fds{@} / process_max_fds and on (instance) sched_leading"},
        "percentunit",
        names.UTILIZATION,
        maximum=1,
    ),
    Panel(
        "Duration of a scrape",
        "How long Prometheus waits for the metrics.",
        {"{{instance}}": "scrape_duration_seconds{@} and on (instance) sched_leading"},
        "s",
        names.UTILIZATION,
    ),
)

HEALTH = Dashboard(
    names.HEALTH,
    "Scheduler health",
    "Whether the scheduler is well, and how long it takes for what it does.",
    {"Now": _NOW, "Ticks": _TICKS, "Database, cluster, nodes, process": _OTHERS},
)
