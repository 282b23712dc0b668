"""Views of jobs, nodes and pods that decisions leave out, since ticks failed while they dealt with them."""

from collections.abc import Iterator

from typing_extensions import TypedDict

from scheduler.model.node import NodeIntent
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.world import World


class HeldView(TypedDict):
    """A job, node or pod that takes no part in decisions; its workers go on."""

    #: job, node, or pod (a pending foreign pod).
    kind: str
    #: Its name; the id of a job.
    name: str
    #: The error of the scheduler, and where it occurred.
    why: str


def held_views(world: World) -> list[HeldView]:
    """Everything that is held in this world."""
    return [{"kind": subject.kind, "name": subject.name, "why": why} for subject, why in _held(world)]


def _held(world: World) -> Iterator[tuple[Subject, str]]:
    for job in sorted(world.held.values(), key=lambda job: job.id):
        yield Subject(SubjectKind.JOB, str(job.id)), job.detail
    for node in sorted(world.nodes.values(), key=lambda node: node.name):
        if node.intent is NodeIntent.HELD:
            yield Subject(SubjectKind.NODE, node.name), node.closed.removeprefix("held: ")
    yield from world.withheld.items()
