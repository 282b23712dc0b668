"""What the cluster's slots do: the first thing to look at."""

from grafana.boards import names
from grafana.dashboard import INSTANCE, PRIORITY_CLASS, QUEUE, TYPE, Dashboard
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
        "Physical slots of all nodes, in any state.",
        {"": 'sum(sched:slots:sum{@,type=~"$type"})'},
        "short",
        names.SERVICES,
        "stat",
        width=4,
    ),
    Panel(
        "Allocated",
        "Share of slots held by workers; free slots of nodes that are down or quarantined do not count.",
        {"": _ALLOCATED},
        "percentunit",
        names.QUEUE,
        "stat",
        width=4,
        maximum=1,
    ),
    Panel(
        "Busy",
        "Utilization of slots with known load: GPUs by NVML or DCGM exporter, CPU slots by the CPU time of workers.",
        {"": _BUSY},
        "percentunit",
        names.JOBS,
        "stat",
        width=4,
        maximum=1,
    ),
    Panel(
        "Free",
        "Slots neither used nor reserved.",
        {"": 'sum(sched:slots:sum{@,type=~"$type",state="free"})'},
        "short",
        names.QUEUE,
        "stat",
        width=4,
    ),
    Panel(
        "Goodput, all types",
        "Work kept as a share of all slots: time of members without lost work and pauses, over 10 minutes.",
        {"": "max(sched:goodput_ratio:rate_10m{@})"},
        "percentunit",
        names.ELASTICITY,
        "stat",
        width=4,
        maximum=1,
    ),
    Panel(
        "Waiting jobs, all types",
        "Jobs in the queue, for any reason.",
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
        "Each slot is in one state: used, releasing (its worker has been asked to leave), foreign (used outside this "
        "scheduler), reserved (for a job), free, unhealthy (or its node down or quarantined), unavailable (unreadable, "
        "or its node closed or cordoned).",
        {"{{state}}": 'sum by (state) (sched:slots:sum{@,type=~"$type"})'},
        "short",
        names.QUEUE,
        stacked=True,
        width=24,
    ),
    Panel(
        "Held slots by priority class, all types",
        "Physical slots held by jobs. A class is named by its lowest priority.",
        {"{{priority_class}}": 'sum by (priority_class) (sched_held_slots{@,priority_class=~"$priority_class"})'},
        "short",
        names.JOBS,
        stacked=True,
    ),
    Panel(
        "Allocated, busy, idle",
        "Allocated: held by workers. Busy: utilization of slots with known load. Idle: share of free slots.",
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
        "Share of free slots on partly used nodes, which jobs that need whole nodes cannot use.",
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
        "Slots of the largest worker that could start without preemption.",
        {"{{type}}": 'max by (type) (sched_slots{@,type=~"$type",state="free"})'},
        "short",
        names.QUEUE,
        width=8,
    ),
    Panel(
        "Used slots by type",
        "Slots held by workers, by GPU type.",
        {"{{type}}": 'sum by (type) (sched:slots:sum{@,type=~"$type",state=~"used|releasing"})'},
        "short",
        names.JOBS,
        stacked=True,
        width=8,
    ),
    Panel(
        "Nodes with most free slots",
        "The top 20.",
        {"{{node}}": 'topk(20, sum by (node) (sched_slots{@,type=~"$type",state="free"}))'},
        "short",
        names.HEALTH,
        "bargauge",
    ),
    Panel(
        "Least busy nodes in use",
        "Utilization of nodes in use with known load; the 20 lowest.",
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


def _of_queues(state: str) -> str:
    """Their slots in this state, of the queues that are chosen."""
    return f'sum by (queue) (sched_queue_slots{{@,queue=~"$queue",state="{state}"}})'


_QUEUES = (
    Panel(
        "Held slots by queue, all types",
        "Slots that the jobs of each queue hold, with those of the queues inside it; of those that are chosen above "
        "the 20 that hold the most. Empty without queues.",
        {"{{queue}}": f"topk(20, {_of_queues('held')})"},
        "short",
        names.QUEUE,
    ),
    Panel(
        "Held slots ÷ what queues are entitled to, all types",
        "Above 1 a queue has borrowed, and gives back what others need; below 1 it takes from those above. The 20 "
        "queues with the most. Where users share a queue, sched queue show tells of each.",
        {"{{queue}}": f"topk(20, {_of_queues('held')} / ({_of_queues('entitled')} > 0))"},
        "short",
        names.QUEUE,
    ),
    Panel(
        "Slots that queues wait for, all types",
        "What jobs want beyond what they hold: waiting jobs, and elastic ones that would grow. The 20 queues that want "
        "the most.",
        {"{{queue}}": f"topk(20, {_of_queues('wanted')} - {_of_queues('held')})"},
        "short",
        names.QUEUE,
    ),
    Panel(
        "Guaranteed slots by queue, all types",
        "What each queue gets back at once, as far as its jobs can use it; the 20 queues with the most.",
        {"{{queue}}": f"topk(20, {_of_queues('guaranteed')})"},
        "short",
        names.QUEUE,
    ),
)

UTILIZATION = Dashboard(
    names.UTILIZATION,
    "Cluster utilization",
    "Allocated, busy and idle slots over time, by priority class and by node.",
    {"Now": _NOW, "Over time": _TIME, "Where": _WHERE, "Queues": _QUEUES},
    (INSTANCE, TYPE, PRIORITY_CLASS, QUEUE),
)
