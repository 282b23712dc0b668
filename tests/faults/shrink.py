"""Makes a scenario smaller that shows something: whatever can be left out of it, is."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from scheduler.config import EngineSettings, PolicySettings
from tests.faults.plan import Scenario

#: What is left out one by one, or many at once, and how many have to stay.
_PARTS = {"faults": 0, "arrivals": 1, "nodes": 1}
_PLAIN: dict[str, Any] = {
    "policy": PolicySettings(),
    "engine": EngineSettings(),
    "replicas": 1,
    "ahead_seconds": (),
    "others_leave": True,
}


def shrink(scenario: Scenario, shows: Callable[[Scenario], bool]) -> Scenario:
    """A scenario of which nothing more can be left out so that it still `shows` the same."""
    while True:
        smaller = next((each for each in _smaller(scenario) if shows(each)), None)
        if smaller is None:
            return scenario
        scenario = smaller


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario without some of its parts, largest steps first."""
    for part, least in _PARTS.items():
        things = getattr(scenario, part)
        size = len(things)
        while size := size // 2 if size > 1 else 0:
            for start in range(0, len(things), size):
                left = (*things[:start], *things[start + size :])
                if len(left) >= least:
                    yield replace(scenario, **{part: left})
    for field, plain in _PLAIN.items():
        if getattr(scenario, field) != plain:
            yield replace(scenario, **{field: plain})
