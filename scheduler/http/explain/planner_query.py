"""What takes the planner to answer: bounded in time, one question after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scheduler.config import PolicySettings
from scheduler.http.errors import Refusal
from scheduler.http.services import Services
from scheduler.model.world import World
from scheduler.policy.explain.held_slots import Look
from scheduler.policy.planner import planned

#: How long an explanation waits for its turn to ask the planner, and how long it asks then.
ASK_SECONDS = 0.5


@contextmanager
def asking(services: Services) -> Iterator[Callable[[], bool]]:
    """Have the turn meanwhile; gives whether there is time for one more question."""
    with services.compute_slot.turn(ASK_SECONDS):
        yield services.within(ASK_SECONDS)


def look(world: World, now: float, settings: PolicySettings) -> Look:
    """Make the plan for a world, and see what it keeps."""
    return Look(*planned(world, now, settings))


def look_at(services: Services, world: World, now: float) -> Look | None:
    """What the planner makes of the world; None while too many ask."""
    try:
        with asking(services):
            return look(world, now, services.settings.policy)
    except Refusal:
        return None
