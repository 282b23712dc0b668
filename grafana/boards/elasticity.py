"""Preemption and elasticity: who gives up what for whom, how fast, and what it costs."""

from grafana.boards import names
from grafana.dashboard import Dashboard
from grafana.panel import Panel


def _shares(histogram: str) -> dict[str, str]:
    rate = f"sum by (le) (rate({histogram}_bucket{{@}}[$__rate_interval]))"
    return {"median": f"histogram_quantile(0.5, {rate})", "p95": f"histogram_quantile(0.95, {rate})"}


_SPEED = (
    Panel(
        "Preemption to running",
        "Time from the first request to a worker to leave for a job until the job is running.",
        _shares("sched_preempt_to_running_seconds"),
        "s",
        names.QUEUE,
        examples=True,
    ),
    Panel(
        "Resize pause",
        "Time from the last step at the old size to the first step at the new size, as measured by workers.",
        _shares("sched_resize_pause_seconds"),
        "s",
        names.JOBS,
        examples=True,
    ),
)
_COUNT = (
    Panel(
        "Resizes",
        "Growths and shrinks of running jobs per second, by cause.",
        {"{{direction}} {{cause}}": "sum by (direction, cause) (rate(sched_resizes_total{@}[$__rate_interval]))"},
        "ops",
        names.JOBS,
    ),
    Panel(
        "Preemptions",
        "Preemptions per second: jobs that shrank or were stopped for another job.",
        {"{{how}}": "sum by (how) (rate(sched_preemptions_total{@}[$__rate_interval]))"},
        "ops",
        names.QUEUE,
    ),
    Panel(
        "Stops and requeues",
        "Jobs per second that were stopped, by cause, and that went back to the queue.",
        {
            "stop {{cause}}": "sum by (cause) (rate(sched_job_stops_total{@}[$__rate_interval]))",
            "back to the queue": "sum(rate(sched_job_requeues_total{@}[$__rate_interval]))",
        },
        "ops",
        names.JOBS,
    ),
    Panel(
        "Elastic slots",
        "Slots of running elastic jobs. Those above the minimum can be taken without stopping a job; missing are those "
        "up to the maximum.",
        {"{{state}}": "sum by (state) (sched_elastic_slots{@})"},
        "short",
        names.UTILIZATION,
    ),
)
_COST = (
    Panel(
        "Use of held slots",
        "Slots by phase of their workers: working, standby (ready, not yet members), starting, leaving.",
        {"{{spent}}": "sum by (spent) (rate(sched_slot_seconds_total{@}[$__rate_interval]))"},
        "short",
        names.UTILIZATION,
        stacked=True,
    ),
    Panel(
        "Lost work",
        "Slot-seconds per second lost since the last commit or checkpoint, by cause, and in resize pauses.",
        {
            "{{cause}}": "sum by (cause) (rate(sched_lost_work_slot_seconds_total{@}[$__rate_interval]))",
            "pauses": "sum(rate(sched_resize_pause_slot_seconds_total{@}[$__rate_interval]))",
        },
        "short",
        names.JOBS,
    ),
    Panel(
        "Goodput",
        "Work kept as a share of all slots over 10 minutes, and work lost as a share of held slots over 1 hour.",
        {"goodput": "max(sched:goodput_ratio:rate_10m{@})", "lost": "max(sched:lost_work_ratio:rate_1h)"},
        "percentunit",
        names.UTILIZATION,
        maximum=1,
    ),
    Panel(
        "Workers by state",
        "Live workers. Leaving workers have been asked to leave.",
        {"{{state}}": "sum by (state) (sched_workers{@})"},
        "short",
        names.JOBS,
        stacked=True,
    ),
)

ELASTICITY = Dashboard(
    names.ELASTICITY,
    "Preemption and elasticity",
    "Preemptions and resizes: how fast, how often and at what cost.",
    {"Latency": _SPEED, "Rate": _COUNT, "Cost": _COST},
)
