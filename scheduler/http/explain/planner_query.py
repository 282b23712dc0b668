"""Questions that only the planner can answer: bounded in time, one after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scheduler.config import PolicySettings
from scheduler.http.errors import Refusal
from scheduler.http.services import Services
from scheduler.model.world import World
from scheduler.policy.explain.held_slots import Look
from scheduler.policy.planner import planned

#: How long an explanation waits for its turn to ask the planner, and the time limit of its questions.
ASK_SECONDS = 0.5


@contextmanager
def asking(services: Services) -> Iterator[Callable[[], bool]]:
    """Hold the turn; yields a function that tells whether there is time for one more question."""
    with services.compute_slot.turn(ASK_SECONDS):
        yield services.within(ASK_SECONDS)


def look(world: World, now: float, settings: PolicySettings) -> Look:
    """Make the plan for a world, and record what it keeps."""
    return Look(*planned(world, now, settings))


def look_at(services: Services, world: World, now: float) -> Look | None:
    """The planner's look at the world; None while too many requests ask for one."""
    try:
        with asking(services):
            return look(world, now, services.settings.policy)
    except Refusal:
        return None
