"""What no decision looks at, since ticks failed while they dealt with it."""

from collections import Counter as Tally

from scheduler.metrics.families import Families
from scheduler.metrics.metric import Metric
from scheduler.model.node import NodeIntent
from scheduler.model.subject import SubjectKind
from scheduler.model.world import World

#: A booking is cancelled, not held.
KINDS = (SubjectKind.JOB, SubjectKind.NODE, SubjectKind.POD)

HELD_METRICS = (
    Metric(
        "sched_held",
        "gauge",
        ("kind",),
        "Jobs, nodes and pods of others that decisions leave out, because ticks failed while they dealt with them.",
    ),
)


def add_held(families: Families, world: World) -> None:
    """How many of each kind are held."""
    held = Tally(subject.kind for subject in world.withheld)
    held[SubjectKind.JOB] += len(world.held)
    held[SubjectKind.NODE] += sum(node.intent is NodeIntent.HELD for node in world.nodes_apart())
    for kind in KINDS:
        families["sched_held"].add([kind], held[kind])
