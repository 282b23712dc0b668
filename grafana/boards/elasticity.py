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
        "From the first worker that was asked to leave for a job until the job ran.",
        _shares("sched_preempt_to_running_seconds"),
        "s",
        names.QUEUE,
        examples=True,
    ),
    Panel(
        "Pause of a resize",
        "From the last step at the old size to the first one at the new size, as workers measured it.",
        _shares("sched_resize_pause_seconds"),
        "s",
        names.JOBS,
        examples=True,
    ),
)
_COUNT = (
    Panel(
        "Resizes",
        "Growths and shrinks of running jobs a second, by why.",
        {"{{direction}} {{cause}}": "sum by (direction, cause) (rate(sched_resizes_total{@}[$__rate_interval]))"},
        "ops",
        names.JOBS,
    ),
    Panel(
        "Preemptions",
        "Times a second that a job lost slots to another one: it shrank, or was stopped.",
        {"{{how}}": "sum by (how) (rate(sched_preemptions_total{@}[$__rate_interval]))"},
        "ops",
        names.QUEUE,
    ),
    Panel(
        "Stops and returns to the queue",
        "Jobs a second that were asked to stop, by why, and those that went back to the queue.",
        {
            "stop {{cause}}": "sum by (cause) (rate(sched_job_stops_total{@}[$__rate_interval]))",
            "back to the queue": "sum(rate(sched_job_requeues_total{@}[$__rate_interval]))",
        },
        "ops",
        names.JOBS,
    ),
    Panel(
        "Room for shrinking and growing",
        "Slots of running elastic jobs: above their minimum they can be had without stopping anybody; missing is what "
        "the jobs would use besides.",
        {"{{state}}": "sum by (state) (sched_elastic_slots{@})"},
        "short",
        names.UTILIZATION,
    ),
)
_COST = (
    Panel(
        "What held slots are spent on",
        "Slots by what their workers do: working, standby (ready, not yet members), starting, leaving.",
        {"{{spent}}": "sum by (spent) (rate(sched_slot_seconds_total{@}[$__rate_interval]))"},
        "short",
        names.UTILIZATION,
        stacked=True,
    ),
    Panel(
        "Lost work",
        "Slot-seconds a second that were lost since the last commit, by why, and in pauses of resizes.",
        {
            "{{cause}}": "sum by (cause) (rate(sched_lost_work_slot_seconds_total{@}[$__rate_interval]))",
            "pauses": "sum(rate(sched_resize_pause_slot_seconds_total{@}[$__rate_interval]))",
        },
        "short",
        names.JOBS,
    ),
    Panel(
        "Goodput",
        "Work that was kept in relation to all slots, and the share of held slots' work that was lost in an hour.",
        {"goodput": "max(sched:goodput_ratio:rate_10m{@})", "lost": "max(sched:lost_work_ratio:rate_1h)"},
        "percentunit",
        names.UTILIZATION,
        maximum=1,
    ),
    Panel(
        "Workers by state",
        "Live workers; leaving ones were asked to leave.",
        {"{{state}}": "sum by (state) (sched_workers{@})"},
        "short",
        names.JOBS,
        stacked=True,
    ),
)

ELASTICITY = Dashboard(
    names.ELASTICITY,
    "Preemption and elasticity",
    "Who gives up what for whom, how fast, and what it costs.",
    {"How fast": _SPEED, "How often": _COUNT, "What it costs": _COST},
)
