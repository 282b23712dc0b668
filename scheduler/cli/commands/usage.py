"""`sched usage`: slot-hours that queues, users and jobs held, were lent and lost, and what they cost."""

import csv
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from scheduler.cli.command import CLIENT, WATCH, Session, command
from scheduler.cli.input.prices import read_prices
from scheduler.cli.input.quantities import past_moment
from scheduler.cli.render.output import Column, csv_cell, emit_json, note, show, table
from scheduler.cli.render.times import stamp
from scheduler.errors import InvalidInput
from scheduler.model.account import HOUR_SECONDS, KEYS, AccountSum, folded, priced

if TYPE_CHECKING:
    from rich.console import RenderableType

View = dict[str, Any]

_OWN = tuple(each for each in CLIENT if each.name != "output")
_TITLES = {"queue": "QUEUE", "user": "USER", "gpu_type": "GPU TYPE", "job": "JOB"}


class UsageFormat(StrEnum):
    """How the accounts are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    HTML = "html"


def usage(
    session: Session,
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="TIME", help="Start, rounded down to the whole hour: an age such as 30d, or 2030-05-01."
        ),
    ] = "30d",
    until: Annotated[
        str,
        typer.Option("--until", metavar="TIME", help="End, rounded down as well, in the same form; now is rounded up."),
    ] = "now",
    by: Annotated[
        str,
        typer.Option(
            "--by", metavar="WORDS", help="What to sum by: any of queue, user, gpu_type and job, with commas."
        ),
    ] = "queue",
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            metavar="FILE",
            help="Prices of a slot for an hour by GPU type, in TOML or YAML (default: usage.prices of the daemon).",
        ),
    ] = None,
    format: Annotated[
        UsageFormat,
        typer.Option("--format", "-o", "--output", case_sensitive=False, help="Output format."),
    ] = UsageFormat.TABLE,
) -> None:
    """Show the slot-hours that workers held, those lent by others, and those whose work was lost.

    Hours count as a whole, in UTC. Lent: beyond the guarantees of the queue and of those around it. Lost: since the
    last save, when workers failed or jobs were stopped for others.
    """
    keys = _keys(by)
    now = session.clock.now()
    own_prices = None if prices is None else read_prices(prices)
    asked = keys if own_prices is None or "gpu_type" in keys else [*keys, "gpu_type"]
    query: View = {"since": past_moment(since, "--since", now), "by": ",".join(asked)}
    if until.strip().lower() != "now":  # the daemon knows best when that is
        query["until"] = past_moment(until, "--until", now)
    view = session.client.get("/v1/usage", query)
    if own_prices is not None:
        sums = folded(priced(map(_sum, view["rows"]), own_prices), keys)
        view = {**view, "by": [key for key in KEYS if key in keys], "rows": list(map(_row, sums))}
    _print(view, format)
    if view["begins_at"] is not None and view["begins_at"] > view["since"] + HOUR_SECONDS:
        note(f"sched: accounts begin at {stamp(view['begins_at'])}: nothing is known of the time before")


def _keys(by: str) -> list[str]:
    words = [word.strip() for word in by.split(",") if word.strip()]
    for word in words:
        if word not in KEYS:
            raise InvalidInput("--by", f"must be some of {', '.join(KEYS)}, not {word!r}")
    return list(dict.fromkeys(words))


def _print(view: View, format: UsageFormat) -> None:
    match format:
        case UsageFormat.JSON:
            emit_json(view)
        case UsageFormat.CSV:
            write_csv(view, sys.stdout)
        case UsageFormat.HTML:
            from scheduler.cli.render.usagepage import page

            sys.stdout.write(page(view))
        case UsageFormat.TABLE if view["rows"]:
            show(_table(view))
        case UsageFormat.TABLE:
            note("nothing was held in this range")


def write_csv(view: View, file: TextIO) -> None:
    """The rows for spreadsheets and programs."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*view["by"], "held_slot_hours", "lent_slot_hours", "lost_slot_hours", *_cost_of(view, ["cost"])])
    writer.writerows(_csv_row(view, row) for row in view["rows"])


def titles(view: View) -> list[str]:
    """Titles of the columns: names, then numbers."""
    return [*(_TITLES[key] for key in view["by"]), "HELD", "LENT", "LOST", *_cost_of(view, ["COST"])]


def cells(view: View, row: View) -> list[str]:
    """Names, then slot-hours and their cost, for people."""
    hours = [f"{hours:,.1f}" for hours in _hours(row)]
    return [*(_name(key, row[key]) for key in view["by"]), *hours, *_cost_of(view, [f"{row['cost'] or 0.0:,.2f}"])]


def total(view: View) -> list[str]:
    """The sum of all rows; it needs a name to stand under."""
    sums = (AccountSum(None, None, None, None, *_sum(row)[4:]) for row in view["rows"])
    row = next(map(_row, folded(sums, ())))
    names = ["TOTAL", *("" for _ in view["by"][1:])]
    return [*names, *cells({**view, "by": []}, row)]


def _table(view: View) -> "RenderableType":
    names = len(view["by"])
    columns = [Column(title, right=k >= names, fold=k < names) for k, title in enumerate(titles(view))]
    rows = [cells(view, row) for row in view["rows"]]
    return table(columns, [*rows, total(view)] if names and len(rows) > 1 else rows)


def _cost_of(view: View, cost: Sequence[str]) -> Sequence[str]:
    """The cell where there are prices."""
    return cost if any(row["cost"] is not None for row in view["rows"]) else ()


def _csv_row(view: View, row: View) -> list[object]:
    hours = [round(hours, 6) for hours in _hours(row)]
    cost = [str(round(row["cost"] or 0.0, 6))]
    return [*(csv_cell(str(row[key])) for key in view["by"]), *hours, *_cost_of(view, cost)]


def _hours(row: View) -> list[float]:
    return [row[f"{name}_slot_seconds"] / HOUR_SECONDS for name in ("held", "lent", "lost")]


def _name(key: str, value: object) -> str:
    if key == "job":
        return "removed" if value == 0 else str(value)
    return str(value) or "-"


def _sum(row: View) -> AccountSum:
    held, lent, lost = (row[f"{name}_slot_seconds"] for name in ("held", "lent", "lost"))
    return AccountSum(row["queue"], row["user"], row["gpu_type"], row["job"], held, lent, lost, row["cost"])


def _row(each: AccountSum) -> View:
    return {
        **dict(zip(KEYS, each, strict=False)),
        "held_slot_seconds": each.held,
        "lent_slot_seconds": each.lent,
        "lost_slot_seconds": each.lost,
        "cost": each.cost,
    }


def register(app: typer.Typer) -> None:
    command(app, "usage", WATCH, common=_OWN)(usage)
