"""What takes the planner to answer: bounded in time, one question after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scheduler.http.errors import Refusal
from scheduler.http.services import Services
from scheduler.model.world import World
from scheduler.policy.explain.held_slots import Look, look

#: How long an explanation waits for its turn to ask the planner, and how long it asks then.
ASK_SECONDS = 0.5


@contextmanager
def asking(services: Services) -> Iterator[Callable[[], bool]]:
    """Have the turn meanwhile; gives whether there is time for one more question."""
    with services.questions.turn(ASK_SECONDS):
        yield services.within(ASK_SECONDS)


def look_at(services: Services, world: World, now: float) -> Look | None:
    """What the planner makes of the world; None while too many ask."""
    try:
        with asking(services):
            return look(world, now, services.settings.policy)
    except Refusal:
        return None
