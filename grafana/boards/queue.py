"""Waiting jobs, their waits and their reasons."""

from grafana.boards import names
from grafana.dashboard import INSTANCE, PRIORITY_CLASS, Dashboard
from grafana.panel import Panel


def _wait(share: float) -> str:
    return (
        f"histogram_quantile({share}, sum by (le, priority_class) "
        '(rate(sched_job_wait_seconds_bucket{@,priority_class=~"$priority_class"}[$__rate_interval])))'
    )


_QUEUE = (
    Panel(
        "Waiting jobs by reason",
        "`sched explain JOB` shows the reason of a job, and what would change it.",
        {"{{reason}}": "sum by (reason) (sched_waiting_jobs{@})"},
        "short",
        names.JOBS,
        stacked=True,
    ),
    Panel(
        "Slots needed by waiting jobs",
        "Slots needed at the minimum, by priority class, and free slots.",
        {
            "class {{priority_class}}": "sum by (priority_class) "
            '(sched_waiting_slots{@,priority_class=~"$priority_class"})',
            "free": 'sum(sched:slots:sum{@,state="free"})',
        },
        "short",
        names.UTILIZATION,
    ),
    Panel(
        "Longest wait",
        "Wait for slots of the longest-waiting job, by priority class.",
        {
            "{{priority_class}}": "max by (priority_class) "
            '(sched_oldest_wait_seconds{@,priority_class=~"$priority_class"})'
        },
        "s",
        names.JOBS,
    ),
    Panel(
        "Slots reserved",
        "Free slots reserved for waiting jobs, and slots whose workers have been asked to leave.",
        {
            "reserved": 'sum(sched:slots:sum{@,state="reserved"})',
            "releasing": 'sum(sched:slots:sum{@,state="releasing"})',
        },
        "short",
        names.ELASTICITY,
    ),
)
_WAIT = (
    Panel(
        "Wait, median",
        "Time from queueing to start, of jobs that started in the interval.",
        {"{{priority_class}}": _wait(0.5)},
        "s",
        names.JOBS,
        examples=True,
    ),
    Panel(
        "Wait, 95th percentile",
        "Time from queueing to start, of jobs that started in the interval.",
        {"{{priority_class}}": _wait(0.95)},
        "s",
        names.JOBS,
        examples=True,
    ),
    Panel(
        "Starts and ends",
        "Jobs per second: starts, including restarts, and ends by state.",
        {
            "started": "sum(rate(sched_jobs_started_total{@}[$__rate_interval]))",
            "{{state}}": "sum by (state) (rate(sched_jobs_ended_total{@}[$__rate_interval]))",
        },
        "ops",
        names.JOBS,
    ),
    Panel(
        "Booked capacity",
        "Slots of bookings: planned ones are in the future, open ones in their window.",
        {"{{state}}": "sum by (state) (sched_booked_slots{@})", "bookings": "sum(sched_bookings{@})"},
        "short",
        names.UTILIZATION,
    ),
)

QUEUE = Dashboard(
    names.QUEUE,
    "Queue and wait",
    "Waiting jobs, their waits and their reasons.",
    {"Queue": _QUEUE, "Waiting": _WAIT},
    (INSTANCE, PRIORITY_CLASS),
)
