"""Kinds of poisoned jobs, drawn at random: what they ask for, what stands in their row, who raises at them."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

from tests.poison import POINTS

#: Numbers at the edges of floats, and some that are none.
NUMBERS = (5e-324, 1e-320, 2.2e-308, 1e-300, 1e300, 1.7e308, 1e15, 2.0**63, 0.0, -0.0, -1.0, float("inf"), float("nan"))
FIELDS = ("expected_seconds", "time_limit_seconds", "grace_seconds", "heartbeat_seconds")
#: Of the row, where a number may stand that is no number of a job.
COLUMNS = ("cpus_per_worker", "expected_seconds", "time_limit_seconds", "grace_seconds", "not_before", "waited_seconds")
PROGRESS = ("samples_per_second", "fraction", "whole_slot_seconds", "efficiency", "resize_seconds", "slot_seconds")


@dataclass(frozen=True, slots=True)
class Poisoned:
    """One job: the fields of its request, columns that are overwritten later, and whether the code raises at it."""

    fields: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)
    hook: bool = False


def poisons(r: random.Random, count: int) -> list[Poisoned]:
    """That many kinds."""
    draws = (_hooked, _asking, _speeding, _overwritten, _progressed, _speedup_row)
    return [draws[number % len(draws)](r) for number in range(count)]


def _hooked(r: random.Random) -> Poisoned:
    # It does not end by itself, and so is handled everywhere, however long a tick that fails at others takes.
    return Poisoned({"name": f"poison-raise-{r.randrange(len(POINTS))}", "command": "sleep infinity"}, hook=True)


def _asking(r: random.Random) -> Poisoned:
    return Poisoned({name: r.choice(NUMBERS) for name in r.sample(FIELDS, r.randint(1, 2))})


def _speeding(r: random.Random) -> Poisoned:
    return Poisoned({"speedup": _curve(r), "min_workers": 1, "max_workers": r.choice([2, 8, 300])})


def _overwritten(r: random.Random) -> Poisoned:
    numbers = [number for number in NUMBERS if number == number]  # SQL stores no NaN
    return Poisoned(columns={name: r.choice(numbers) for name in r.sample(COLUMNS, r.randint(1, 2))})


def _progressed(r: random.Random) -> Poisoned:
    progress: dict[str, Any] = {name: r.choice(NUMBERS) for name in r.sample(PROGRESS, r.randint(1, 3))}
    written = {"throughput": _curve(r), "metrics": [], **progress}
    return Poisoned({"min_workers": 1, "max_workers": 4}, {"progress": json.dumps(written)})


def _speedup_row(r: random.Random) -> Poisoned:
    return Poisoned({"min_workers": 1, "max_workers": 8}, {"speedup": json.dumps(_curve(r))})


def _curve(r: random.Random) -> list[tuple[int, float]]:
    sizes = sorted(r.sample([1, 2, 3, 4, 8, 100, 200], r.randint(1, 4)))
    return [(size, r.choice(NUMBERS)) for size in sizes]
