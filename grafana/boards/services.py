"""Online services and others beside training: what they hold and want, what gives way, what is shared."""

from grafana.boards import names
from grafana.dashboard import INSTANCE, TYPE, Dashboard
from grafana.panel import Panel

_GIVE_WAY = 'cause="FOREIGN"'

_BESIDE = (
    Panel(
        "Slots of others and of training",
        "Foreign slots are held by others of the cluster, such as online services; training fills what they leave.",
        {
            "others": 'sum(sched:slots:sum{@,type=~"$type",state="foreign"})',
            "training": 'sum(sched:slots:sum{@,type=~"$type",state=~"used|releasing"})',
            "free": 'sum(sched:slots:sum{@,type=~"$type",state=~"free|reserved"})',
        },
        "short",
        names.UTILIZATION,
        stacked=True,
        width=24,
    ),
    Panel(
        "What others wait for",
        "Slots; ignored: they did not take up what was free for them.",
        {"{{state}}": "sum by (state) (sched_awaited_slots{@})"},
        "short",
        names.UTILIZATION,
    ),
    Panel(
        "Training that gives way",
        "Jobs a second that shrank or were stopped for others of the cluster.",
        {
            "shrunk": f"sum(rate(sched_resizes_total{{@,{_GIVE_WAY}}}[$__rate_interval]))",
            "stopped": f"sum(rate(sched_job_stops_total{{@,{_GIVE_WAY}}}[$__rate_interval]))",
        },
        "ops",
        names.ELASTICITY,
    ),
    Panel(
        "Jobs behind others",
        "Jobs that wait since others wait for that room.",
        {"jobs": 'sum(sched_waiting_jobs{@,reason="BEHIND_FOREIGN"})'},
        "short",
        names.QUEUE,
    ),
    Panel(
        "Work lost to others",
        "Slot-seconds a second.",
        {"lost": f"sum(rate(sched_lost_work_slot_seconds_total{{@,{_GIVE_WAY}}}[$__rate_interval]))"},
        "short",
        names.ELASTICITY,
    ),
)
_SHARED = (
    Panel(
        "Slots beyond the physical ones",
        "For jobs that accept to share; only of oversold nodes.",
        {"{{state}}": 'sum by (state) (sched_oversold_slots{@,type=~"$type"})'},
        "short",
        names.UTILIZATION,
        stacked=True,
    ),
    Panel(
        "Crowded slots",
        "Slots whose load is or was above a limit of overselling, so that who shares them leaves.",
        {"slots": "sum(sched_crowded_slots{@})"},
        "short",
        names.UTILIZATION,
    ),
    Panel(
        "Jobs that left crowded slots",
        "Jobs a second.",
        {
            "shrunk": 'sum(rate(sched_resizes_total{@,cause="OVERSOLD"}[$__rate_interval]))',
            "stopped": 'sum(rate(sched_job_stops_total{@,cause="OVERSOLD"}[$__rate_interval]))',
        },
        "ops",
        names.ELASTICITY,
    ),
)

SERVICES = Dashboard(
    names.SERVICES,
    "Online services beside training",
    "What others of the cluster hold and want, what gives way to them, and what is shared.",
    {"Beside each other": _BESIDE, "Overselling": _SHARED},
    (INSTANCE, TYPE),
)
