"""Makes a scenario smaller that shows something: whatever can be left out of it, is."""

from collections.abc import Callable
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
    before = None
    while scenario != before:
        before = scenario
        for part, least in _PARTS.items():
            scenario = _without_parts(scenario, part, least, shows)
        for field, plain in _PLAIN.items():
            plainer = replace(scenario, **{field: plain})
            if plainer != scenario and shows(plainer):
                scenario = plainer
    return scenario


def _without_parts(scenario: Scenario, part: str, least: int, shows: Callable[[Scenario], bool]) -> Scenario:
    """Leaves out what it can of one kind of parts: many at once, then ever fewer."""
    size = len(getattr(scenario, part))
    while size > 0:
        start = 0
        while start < len(things := getattr(scenario, part)):
            left = (*things[:start], *things[start + size :])
            smaller = replace(scenario, **{part: left})
            if len(left) >= least and shows(smaller):
                scenario = smaller
            else:
                start += size
        size //= 2
    return scenario
