"""The page that `sched report --html` writes: one file, no script, nothing loaded from elsewhere, light and dark."""

from collections.abc import Iterable, Sequence
from typing import Any

from scheduler.cli.commands.report import priority_name, summary, user_rows, wait_rows
from scheduler.cli.render.output import markup
from scheduler.cli.render.plots import areas, bars, columns
from scheduler.cli.render.times import between, span, stamp, zone

View = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --paper: #ffffff; --faint: #d8d8dc; --note: #8a5a00;
  --c0: #4e79a7; --c1: #f28e2b; --c2: #59a14f; --c3: #e15759; --c4: #76b7b2; --c5: #b07aa1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ea; --paper: #17181a; --faint: #3a3b3f; --note: #f0c060;
  --c0: #6f9fd0; --c1: #f5a55a; --c2: #7cc471; --c3: #f07d7f; --c4: #8fd0cb; --c5: #c99bbb; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; margin-bottom: 0 } h2 { font-size: 1.15em; margin: 2em 0 .4em }
.note { color: var(--note); border-left: 3px solid var(--note); padding-left: .7em }
table { border-collapse: collapse; width: 100% } th { text-align: left; font-weight: 600 }
td, th { padding: .25em .6em .25em 0; border-bottom: 1px solid var(--faint); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto; display: block } svg text { font-size: 12px; fill: var(--ink) }
.grid { stroke: var(--faint) } .limit { fill: none; stroke: var(--ink); stroke-width: 1.5 }
.c0 { fill: var(--c0) } .c1 { fill: var(--c1) } .c2 { fill: var(--c2) }
.c3 { fill: var(--c3) } .c4 { fill: var(--c4) } .c5 { fill: var(--c5) }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .35em 0 1em; border-radius: 2px }
.key.c0 { background: var(--c0) } .key.c1 { background: var(--c1) } .key.c2 { background: var(--c2) }
.key.c3 { background: var(--c3) } .key.c4 { background: var(--c4) } .key.c5 { background: var(--c5) }
"""


def page(view: View, missing: Sequence[str]) -> str:
    """The whole document; `missing`: what of the span is removed, in sentences."""
    title = f"Cluster report, {stamp(view['since'])} to {stamp(view['until'])}"
    notes = [f'<p class="note">Incomplete report: {markup(sentence)}.</p>' for sentence in missing]
    facts = [[name, text] for name, text in summary(view) if name]
    body = [
        "<h1>Cluster report</h1>",
        f"<p>{between(view['since'], view['until'])}</p>",
        *notes,
        html_table(("", ""), facts, numbers=False),
        *_utilization(view),
        *_waits(view),
        *_preemptions(view),
        *_users(view),
    ]
    return document(title, body)


def document(title: str, body: Iterable[str]) -> str:
    """A whole page of these parts."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{markup(title)}</title>'
    begin = f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head><body>'
    return "\n".join([begin, *body, "</body></html>"])


def _utilization(view: View) -> Iterable[str]:
    course = view["course"]
    used = {priority_name(name): values for name, values in course["used"].items()}
    yield "<h2>Utilization</h2>"
    yield "<p>Slots held by workers, by priority. The line shows the slots of nodes that were up." + _key(used) + "</p>"
    yield areas("Slots used over time, by priority", used, course["slots"], _times(view), "slots")


def _waits(view: View) -> Iterable[str]:
    yield "<h2>Wait by priority</h2>"
    rows = [
        (
            priority_name(each["priority_class"]),
            [
                (each[f"seconds_{key}"], f"{span(each[f'seconds_{key}'])} {text}")
                for key, text in (("p50", "median"), ("p90", "90th percentile"))
            ],
        )
        for each in view["waits"]
        if each["starts"]
    ]
    if rows:
        yield bars("Wait for a start, by priority", rows)
    head = ("Priority", "Starts", "Mean", "Median", "P90", "P99", "Longest", "Waiting now")
    yield html_table(head, wait_rows(view))


def _preemptions(view: View) -> Iterable[str]:
    taken = view["preemptions"]
    series = {"shrinks": taken["shrinks_course"], "stops": taken["stops_course"]}
    yield "<h2>Preemptions</h2>"
    yield "<p>Number of times that a job gave up slots to another job." + _key(series) + "</p>"
    yield columns("Preemptions over time", series, _times(view), "times")
    hours = [slot_seconds / 3600 for slot_seconds in view["lost_work"]["course"]]
    yield "<h2>Lost work</h2>"
    yield "<p>Work lost since the last commit or checkpoint, in slot-hours.</p>"
    yield columns("Lost work over time", {"lost": hours}, _times(view), "slot-hours")


def _users(view: View) -> Iterable[str]:
    yield "<h2>Top users</h2>"
    rows = [
        (each["user"] or "-", [(each["slot_seconds"] / 3600, f"{each['slot_seconds'] / 3600:,.1f} slot-hours")])
        for each in view["users"]
    ]
    if rows:
        yield bars("Slot-hours by user", rows)
    yield html_table(("User", "Jobs", "Slot-hours", "Shared", "Share"), user_rows(view))


def _key(names: Iterable[str]) -> str:
    return "".join(f'<span class="key c{index % 6}"></span>{markup(name)}' for index, name in enumerate(names))


def _times(view: View) -> list[str]:
    since, until = view["since"], view["until"]
    marks = [since + (until - since) * index / 5 for index in range(6)]
    days = until - since > 86400
    # Where clocks are set meanwhile, a time alone may be one of two, and the zone above the plots is that of some.
    zones = [zone(at).removeprefix("UTC") or "UTC" for at in marks]
    told = [f" {each}" if len(set(zones)) > 1 else "" for each in zones]
    return [(stamp(at)[5:16] if days else stamp(at)[11:16]) + each for at, each in zip(marks, told, strict=True)]


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1, numbers: bool = True) -> str:
    """A table whose first columns, this many, are texts, and whose others are numbers unless nothing in it is."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = ["" if not numbers or index < texts else ' class="n"' for index in range(len(row))]
        return "".join(f"<{tag}{kind}>{markup(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if any(head) else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table>{top}<tbody>{body}</tbody></table>"
