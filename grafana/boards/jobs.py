"""Jobs: how they do, how they end, and what happened to one of them as marks on every panel."""

from grafana.boards import names
from grafana.dashboard import INSTANCE, PRIORITY_CLASS, Dashboard
from grafana.panel import Panel

#: Written by `python -m grafana.annotate`, which follows the daemon's events.
_EVENTS = {
    "name": "Events of the job",
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "iconColor": "purple",
    "target": {"type": "tags", "tags": ["sched", "$job"], "matchAny": False, "limit": 500},
}

_STATES = (
    Panel(
        "Jobs by state",
        "Jobs that have not ended.",
        {"{{state}}": 'sum by (state) (sched_jobs{@,priority_class=~"$priority_class"})'},
        "short",
        names.QUEUE,
        stacked=True,
    ),
    Panel(
        "Jobs by priority class",
        "Jobs that have not ended.",
        {"{{priority_class}}": 'sum by (priority_class) (sched_jobs{@,priority_class=~"$priority_class"})'},
        "short",
        names.QUEUE,
        stacked=True,
    ),
    Panel(
        "Slots used by jobs",
        "Slot-seconds per second, by priority class.",
        {
            "{{priority_class}}": "sum by (priority_class) "
            '(rate(sched_slot_seconds_total{@,priority_class=~"$priority_class"}[$__rate_interval]))'
        },
        "short",
        names.UTILIZATION,
        stacked=True,
    ),
    Panel(
        "Time to completion",
        "Time from submission to success, of jobs that succeeded in the interval.",
        {
            f"{label} {{{{priority_class}}}}": f"histogram_quantile({share}, sum by (le, priority_class) "
            '(rate(sched_job_completion_seconds_bucket{@,priority_class=~"$priority_class"}[$__rate_interval])))'
            for label, share in (("median", 0.5), ("p95", 0.95))
        },
        "s",
        names.QUEUE,
        examples=True,
    ),
)
_ENDS = (
    Panel(
        "Ended jobs",
        "In the selected time range, by state and cause.",
        {"{{state}} {{cause}}": "sum by (state, cause) (increase(sched_jobs_ended_total{@}[$__range]))"},
        "short",
        names.ELASTICITY,
        "bargauge",
    ),
    Panel(
        "Ended workers",
        "In the selected time range, by cause.",
        {"{{cause}}": "sum by (cause) (increase(sched_workers_ended_total{@}[$__range]))"},
        "short",
        names.ELASTICITY,
        "bargauge",
    ),
    Panel(
        "Replaced workers",
        "Failed workers per second that were replaced while the others continued, by cause.",
        {"{{cause}}": "sum by (cause) (rate(sched_worker_restarts_total{@}[$__rate_interval]))"},
        "ops",
        names.HEALTH,
    ),
    Panel(
        "Refused requests",
        "User requests per second that could no longer be carried out.",
        {"{{intent}}": "sum by (intent) (rate(sched_requests_refused_total{@}[$__rate_interval]))"},
        "ops",
        names.HEALTH,
    ),
)
_DATA = (
    Panel(
        "Shards of data queues",
        "Shards per second given to readers, and reported done, failed or returned.",
        {"{{outcome}}": "sum by (outcome) (rate(sched_shards_total{@}[$__rate_interval]))"},
        "ops",
        names.HEALTH,
    ),
    Panel(
        "Data queues",
        "Active jobs that take shards from a data queue, and calls of their readers per second.",
        {"jobs": "sum(sched_data_jobs{@})", "calls": "sum(rate(sched_shard_calls_total{@}[$__rate_interval]))"},
        "short",
        names.HEALTH,
    ),
)

JOBS = Dashboard(
    names.JOBS,
    "Jobs",
    "Progress and outcome of jobs. Select a job to mark its events on every panel.",
    {"Jobs": _STATES, "Ends": _ENDS, "Data": _DATA},
    (INSTANCE, PRIORITY_CLASS),
    (_EVENTS,),
    {"job": ("Job whose events are marked", "")},
)
