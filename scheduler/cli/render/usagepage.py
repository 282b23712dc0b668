"""The page that `sched usage --format html` writes: one file, no script, nothing loaded from elsewhere."""

from typing import Any

from scheduler.cli.commands.usage import cells, titles, total
from scheduler.cli.render.output import markup
from scheduler.cli.render.plots import bars
from scheduler.cli.render.reportpage import document, html_table
from scheduler.cli.render.times import between, stamp
from scheduler.model.account import HOUR_SECONDS

#: Rows that have a bar: those that held most.
BARS_MAX = 20


def page(view: dict[str, Any]) -> str:
    """The whole document."""
    since, until, names = stamp(view["since"]), stamp(view["until"]), len(view["by"])
    head = [title.capitalize() for title in titles(view)]
    rows = [cells(view, row) for row in view["rows"]]
    body = ["<h1>Usage in slot-hours</h1>", f"<p>{between(view['since'], view['until'])}</p>"]
    if names and rows:
        most = sorted(view["rows"], key=lambda row: -row["held_slot_seconds"])[:BARS_MAX]
        labels = [" ".join(cells(view, row)[:names]) for row in most]
        hours = [row["held_slot_seconds"] / HOUR_SECONDS for row in most]
        body.append(
            bars(
                "Slot-hours held",
                [(label, [(each, f"{each:,.1f} slot-hours")]) for label, each in zip(labels, hours, strict=True)],
            )
        )
    if rows:
        body.append(html_table(head, [*rows, total(view)] if names else rows, texts=names))
    else:
        body.append(f"<p>{markup('Nothing was held in this range.')}</p>")
    return document(f"Usage, {since} to {until}", body)
