"""What the cluster's slots do: the first thing to look at."""

from grafana.boards import names
from grafana.dashboard import INSTANCE, PRIORITY_CLASS, TYPE, Dashboard
from grafana.panel import Panel


def _part_of(part: str, whole: str) -> str:
    """The sum of one series in relation to that of another; 0 where this has none."""
    return f"sum({part}) / clamp_min(sum({whole}), 1)"


_ALLOCATED = _part_of(
    'sched:slots:sum{@,type=~"$type",state=~"used|releasing"}',
    'sched:slots:sum{@,type=~"$type",state!="unhealthy"}',
)
_BUSY = _part_of('sched:busy_slots:sum{@,type=~"$type"}', 'sched:measured_slots:sum{@,type=~"$type"}')

_NOW = (
    Panel(
        "Slots",
        "Physical slots of all nodes, whatever their state.",
        {"": 'sum(sched:slots:sum{@,type=~"$type"})'},
        "short",
        names.SERVICES,
        "stat",
        width=4,
    ),
    Panel(
        "Allocated",
        "Share of the slots that workers hold; free slots of nodes that are down or quarantined do not count.",
        {"": _ALLOCATED},
        "percentunit",
        names.QUEUE,
        "stat",
        width=4,
        maximum=1,
    ),
    Panel(
        "Busy",
        "Utilization of the slots whose load is known: GPUs as NVML reads them, CPU slots by the CPU time of workers.",
        {"": _BUSY},
        "percentunit",
        names.JOBS,
        "stat",
        width=4,
        maximum=1,
    ),
    Panel(
        "Free",
        "Slots that nobody holds and that are held for nobody.",
        {"": 'sum(sched:slots:sum{@,type=~"$type",state="free"})'},
        "short",
        names.QUEUE,
        "stat",
        width=4,
    ),
    Panel(
        "Goodput, all types",
        "Work that was kept, in relation to all slots: time of members, less lost work and pauses; 10 minutes.",
        {"": "max(sched:goodput_ratio:rate_10m{@})"},
        "percentunit",
        names.ELASTICITY,
        "stat",
        width=4,
        maximum=1,
    ),
    Panel(
        "Waiting jobs, all types",
        "Jobs in the queue, whatever they wait for.",
        {"": "sum(sched_waiting_jobs{@})"},
        "short",
        names.QUEUE,
        "stat",
        width=4,
    ),
)
_TIME = (
    Panel(
        "Slots by state",
        "Every slot is in one state: used, releasing (its worker was asked to leave), foreign (others hold it), "
        "reserved (held for a job), free, unhealthy (node down or quarantined), unavailable (node closed or cordoned).",
        {"{{state}}": 'sum by (state) (sched:slots:sum{@,type=~"$type"})'},
        "short",
        names.QUEUE,
        stacked=True,
        width=24,
    ),
    Panel(
        "Held slots by priority class, all types",
        "Physical slots that jobs hold; a class is named by the lower bound of its priorities.",
        {"{{priority_class}}": 'sum by (priority_class) (sched_held_slots{@,priority_class=~"$priority_class"})'},
        "short",
        names.JOBS,
        stacked=True,
    ),
    Panel(
        "Allocated, busy, idle",
        "Allocated: held by workers. Busy: utilization of slots whose load is known. Idle: free in relation to all.",
        {
            "allocated": _ALLOCATED,
            "busy": _BUSY,
            "idle": _part_of('sched:slots:sum{@,type=~"$type",state="free"}', 'sched:slots:sum{@,type=~"$type"}'),
        },
        "percentunit",
        names.QUEUE,
        maximum=1,
    ),
)
_WHERE = (
    Panel(
        "Fragmentation",
        "Share of the free slots that lie on nodes which are partly in use: who wants whole nodes cannot have them.",
        {
            "fragmented": _part_of(
                'sched:fragmented_slots:sum{@,type=~"$type"}', 'sched:slots:sum{@,type=~"$type",state="free"}'
            )
        },
        "percentunit",
        names.QUEUE,
        width=8,
        maximum=1,
    ),
    Panel(
        "Most free slots on one node",
        "The widest worker that could start without anybody leaving.",
        {"{{type}}": 'max by (type) (sched_slots{@,type=~"$type",state="free"})'},
        "short",
        names.QUEUE,
        width=8,
    ),
    Panel(
        "Used slots by type",
        "Slots that workers hold, by the type of their GPUs.",
        {"{{type}}": 'sum by (type) (sched:slots:sum{@,type=~"$type",state=~"used|releasing"})'},
        "short",
        names.JOBS,
        stacked=True,
        width=8,
    ),
    Panel(
        "Nodes with most free slots",
        "At most twenty.",
        {"{{node}}": 'topk(20, sum by (node) (sched_slots{@,type=~"$type",state="free"}))'},
        "short",
        names.HEALTH,
        "bargauge",
    ),
    Panel(
        "Least busy nodes in use",
        "Utilization of the slots of nodes whose load is known and that workers use; at most twenty.",
        {
            "{{node}}": 'bottomk(20, sum by (node) (sched_busy_slots{@,type=~"$type"}) '
            '/ sum by (node) (sched_measured_slots{@,type=~"$type"}) and '
            'sum by (node) (sched_slots{@,type=~"$type",state="used"}) > 0)'
        },
        "percentunit",
        names.JOBS,
        "bargauge",
        maximum=1,
    ),
)

UTILIZATION = Dashboard(
    names.UTILIZATION,
    "Cluster utilization",
    "Allocated, busy and idle slots over time, by priority class, and how they lie.",
    {"Now": _NOW, "Over time": _TIME, "Where": _WHERE},
    (INSTANCE, TYPE, PRIORITY_CLASS),
)
