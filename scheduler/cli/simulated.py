"""Simulated runs side by side: one column per variant."""

import math
from typing import TYPE_CHECKING

from scheduler.cli.output import Column, table
from scheduler.cli.times import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from scheduler.simulate.summary import Summary


def summary_table(summaries: "dict[str, Summary]") -> "RenderableType":
    """A row per number."""
    columns = [Column(""), *(Column(label, right=True) for label in summaries)]
    return table(columns, [[name, *(cell(each) for each in summaries.values())] for name, cell in _ROWS])


def _time(seconds: float) -> str:
    return "-" if math.isnan(seconds) else span(seconds)


_ROWS: "tuple[tuple[str, Callable[[Summary], str]], ...]" = (
    ("jobs done", lambda s: f"{s.succeeded} of {s.jobs}"),
    ("completion, mean", lambda s: _time(s.completion_seconds.mean)),
    ("completion, median", lambda s: _time(s.completion_seconds.median)),
    ("completion, 99 %", lambda s: _time(s.completion_seconds.p99)),
    ("waiting, mean", lambda s: _time(s.waiting_seconds.mean)),
    ("waiting, median", lambda s: _time(s.waiting_seconds.median)),
    ("waiting, 99 %", lambda s: _time(s.waiting_seconds.p99)),
    ("makespan", lambda s: _time(s.makespan_seconds)),
    ("utilization", lambda s: f"{s.utilization:.1%}"),
    ("resizes per job", lambda s: f"{s.resizes:.2f}"),
    ("preemptions per job", lambda s: f"{s.preemptions:.2f}"),
    ("stops per job", lambda s: f"{s.stops:.2f}"),
    ("lost slot-hours", lambda s: f"{s.lost_slot_hours:.1f}"),
    ("held slot-hours", lambda s: f"{s.held_slot_hours:.1f}"),
)
