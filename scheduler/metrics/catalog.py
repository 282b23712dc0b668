"""Every metric of the daemon."""

from scheduler.metrics.calls import CALL_METRICS
from scheduler.metrics.events import EVENT_METRICS
from scheduler.metrics.held import HELD_METRICS
from scheduler.metrics.jobs import JOB_METRICS
from scheduler.metrics.process import PROCESS_METRICS
from scheduler.metrics.queues import QUEUE_METRICS
from scheduler.metrics.slots import SLOT_METRICS
from scheduler.metrics.spent import SPENT_METRICS
from scheduler.metrics.ticks import TICK_METRICS

#: What the daemon measures itself, by what it is about.
CHAPTERS = {
    "Slots and nodes": SLOT_METRICS,
    "Queues": QUEUE_METRICS,
    "Jobs and workers": JOB_METRICS,
    "Events": EVENT_METRICS,
    "Use of slots": SPENT_METRICS,
    "Scheduler": TICK_METRICS + HELD_METRICS,
    "Database, cluster, HTTP": CALL_METRICS,
}
OWN_METRICS = tuple(metric for chapter in CHAPTERS.values() for metric in chapter)
METRICS = (*OWN_METRICS, *PROCESS_METRICS)
