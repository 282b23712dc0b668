"""Online services and others beside training: what they hold and want, what gives way, what is shared."""

from grafana.boards import names
from grafana.dashboard import INSTANCE, TYPE, Dashboard
from grafana.panel import Panel

_GIVE_WAY = 'cause="FOREIGN"'

_BESIDE = (
    Panel(
        "Slots of services and of training",
        "Foreign slots are used by workloads outside this scheduler, such as online services; training uses the rest.",
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
        "Slots awaited by services",
        "Slots that workloads outside this scheduler wait for; ignored: they did not use what was free.",
        {"{{state}}": "sum by (state) (sched_awaited_slots{@})"},
        "short",
        names.UTILIZATION,
    ),
    Panel(
        "Training preempted for services",
        "Jobs per second that shrank or were stopped for workloads outside this scheduler.",
        {
            "shrunk": f"sum(rate(sched_resizes_total{{@,{_GIVE_WAY}}}[$__rate_interval]))",
            "stopped": f"sum(rate(sched_job_stops_total{{@,{_GIVE_WAY}}}[$__rate_interval]))",
        },
        "ops",
        names.ELASTICITY,
    ),
    Panel(
        "Jobs behind services",
        "Jobs that wait because workloads outside this scheduler wait for the same slots.",
        {"jobs": 'sum(sched_waiting_jobs{@,reason="BEHIND_FOREIGN"})'},
        "short",
        names.QUEUE,
    ),
    Panel(
        "Work lost to services",
        "Slot-seconds per second.",
        {"lost": f"sum(rate(sched_lost_work_slot_seconds_total{{@,{_GIVE_WAY}}}[$__rate_interval]))"},
        "short",
        names.ELASTICITY,
    ),
)
_SHARED = (
    Panel(
        "Oversold slots",
        "Slots beyond the physical ones, on oversold nodes, for jobs that allow sharing.",
        {"{{state}}": 'sum by (state) (sched_oversold_slots{@,type=~"$type"})'},
        "short",
        names.UTILIZATION,
        stacked=True,
    ),
    Panel(
        "Crowded slots",
        "Slots whose load exceeded a limit of overselling, so that jobs that share them leave.",
        {"slots": "sum(sched_crowded_slots{@})"},
        "short",
        names.UTILIZATION,
    ),
    Panel(
        "Jobs that left crowded slots",
        "Jobs per second.",
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
    "Slots that services hold and need, training preempted for them, and shared slots.",
    {"Services and training": _BESIDE, "Overselling": _SHARED},
    (INSTANCE, TYPE),
)
