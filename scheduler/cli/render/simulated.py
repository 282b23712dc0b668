"""Simulated runs side by side: one column per variant."""

from typing import TYPE_CHECKING

from scheduler.cli.render.output import Column, table
from scheduler.cli.render.times import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from scheduler.simulate.faults import FaultCounts
    from scheduler.simulate.summary import Spread, Summary

    _Row = tuple[str, Callable[[Summary], str]]


def summary_table(summaries: "dict[str, Summary]") -> "RenderableType":
    """A row per number."""
    columns = [Column(""), *(Column(label, right=True) for label in summaries)]
    rows = [[name, *(cell(each) for each in summaries.values())] for name, cell in _ROWS]
    suffered = [each.faults for each in summaries.values() if each.faults is not None]
    return table(columns, [*rows, *([name, *map(cell, suffered)] for name, cell in _FAULT_ROWS if suffered)])


def _spread(name: str, of: "Callable[[Summary], Spread | None]") -> "list[_Row]":
    def cell(part: "Callable[[Spread], float]") -> "Callable[[Summary], str]":
        return lambda summary: "-" if (spread := of(summary)) is None else span(part(spread))

    return [
        (f"{name}, mean", cell(lambda spread: spread.mean)),
        (f"{name}, median", cell(lambda spread: spread.median)),
        (f"{name}, p99", cell(lambda spread: spread.p99)),
    ]


#: Of runs in which something was asked to go wrong: then it does so in all that are compared.
_FAULT_ROWS: "list[tuple[str, Callable[[FaultCounts], str]]]" = [
    ("faults: seed", lambda f: f"{f.seed}"),
    ("worker failures", lambda f: f"{f.worker_failures:,}"),
    ("node losses", lambda f: f"{f.node_losses:,}"),
    ("workers lost with them", lambda f: f"{f.workers_lost:,}"),
    ("daemon deaths", lambda f: f"{f.daemon_deaths:,}"),
    ("restarts by faults", lambda f: f"{f.restarts:,}"),
    ("jobs failed by faults", lambda f: f"{f.jobs_failed:,}"),
    ("slot-hours lost by them", lambda f: f"{f.lost_slot_hours:.1f}"),
    ("slot-hours of lost nodes", lambda f: f"{f.away_slot_hours:.1f}"),
    ("hours without daemon", lambda f: f"{f.daemon_away_hours:.1f}"),
]
_ROWS: "list[_Row]" = [
    ("jobs succeeded", lambda s: f"{s.succeeded} of {s.jobs}"),
    *_spread("completion", lambda s: s.completion_seconds),
    *_spread("waiting", lambda s: s.waiting_seconds),
    ("makespan", lambda s: span(s.makespan_seconds)),
    ("utilization", lambda s: f"{s.utilization:.1%}"),
    ("resizes per job", lambda s: f"{s.resizes:.2f}"),
    ("preemptions per job", lambda s: f"{s.preemptions:.2f}"),
    ("stops per job", lambda s: f"{s.stops:.2f}"),
    ("lost slot-hours", lambda s: f"{s.lost_slot_hours:.1f}"),
    ("held slot-hours", lambda s: f"{s.held_slot_hours:.1f}"),
    ("shared slot-hours", lambda s: f"{s.shared_slot_hours:.1f}"),
]
