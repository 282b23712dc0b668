"""What queues may have and have, as the last plan saw it."""

from collections.abc import Iterable

from scheduler.metrics.families import Families
from scheduler.metrics.metric import Metric
from scheduler.model.plan import QueueShare
from scheduler.model.queue_tree import QUEUES_MAX

QUEUE_METRICS = (
    Metric(
        "sched_queue_slots",
        "gauge",
        ("queue", "state"),
        "Slots by queue, with those of the queues inside it: held (by its jobs), wanted (held or waited for), entitled "
        "(what it may take), guaranteed (of them, what it gets back at once). Empty: the jobs in no queue. Only "
        "queues that have jobs, and not their users, whom `GET /v1/queues/PATH` names: "
        f"{(QUEUES_MAX + 1) * 4:,} series at most.",
    ),
)


def add_queues(families: Families, shares: Iterable[QueueShare]) -> None:
    """Of each queue, without those of its users."""
    slots = families["sched_queue_slots"]
    for share in shares:
        if share.user is None:
            slots.add([share.path, "held"], share.held)
            slots.add([share.path, "wanted"], share.wanted)
            slots.add([share.path, "entitled"], share.entitled)
            slots.add([share.path, "guaranteed"], share.guaranteed)
