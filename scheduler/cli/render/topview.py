"""The picture that `sched top` shows: slots by node as a coloured map, and the jobs. Draws, and asks nobody."""

from typing import TYPE_CHECKING, Any

from scheduler.cli.render.output import Cell, Column, printable, table
from scheduler.cli.render.tables import since, size, state_cell, why
from scheduler.cli.render.times import ago, span

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

View = dict[str, Any]

#: Colours of jobs on the map, given out by id, so that a job keeps its colour.
_COLOURS = ("green", "blue", "magenta", "cyan", "yellow", "red", "bright_green", "bright_blue", "bright_magenta")
_TAKEN, _FREE, _SHARED, _FOREIGN, _CLOSED = "■", "·", "□", "▒", "×"
_WAITING_ROWS_MAX = 15
_WAITING = ("QUEUED", "SUSPENDED")
#: Order of the jobs that have not ended.
_ORDER = {"RUNNING": 0, "RESIZING": 0, "STARTING": 1, "STOPPING": 2, "QUEUED": 3, "SUSPENDED": 4, "HELD": 0}


def draw(
    cluster: View, now: float, utilization: str, *, nodes_max: int | None = None, jobs_max: int = 200
) -> "RenderableType":
    """The cluster at one moment, from an answer of `/v1/cluster`, under a line of recent utilization."""
    from rich.console import Group
    from rich.text import Text

    jobs: list[View] = cluster["jobs"]
    nodes: list[View] = cluster["nodes"]
    parts: list[RenderableType] = [headline(cluster), Text(utilization), Text(), slot_map(nodes[:nodes_max])]
    left = [] if nodes_max is None else nodes[nodes_max:]
    if left:
        used, total = (sum(node[name] for node in left) for name in ("slots_used", "slots"))
        parts.append(Text(f"and {len(left):,} more nodes with {used:,} of {total:,} slots used", style="dim"))
    return Group(*parts, Text(), _jobs(jobs, now, jobs_max, cluster["jobs_by_state"]))


def headline(cluster: View) -> "Text":
    from rich.text import Text

    used, total = cluster["slots_used"], cluster["slots_total"]
    states = "  ".join(f"{count} {state.lower()}" for state, count in cluster["jobs_by_state"].items() if count)
    share = f" ({used / total:.0%})" if total else ""
    line = Text.assemble((f"{used} of {total} slots used{share}", "bold"), f"   jobs: {states or 'none'}")
    if cluster["term"] is None and cluster["leader"]:
        line.append(f"\nthis answer is from a standby; {printable(cluster['leader']['name'])} leads", style="dim")
    if cluster["not_ready"]:
        line.append(f"\nthe scheduler is not making decisions: {printable(cluster['not_ready'])}", style="red")
    return line


def slot_map(nodes: list[View]) -> "RenderableType":
    """One line a node, one mark a slot: coloured by the job that holds it; behind them those that are shared."""
    from rich.table import Table
    from rich.text import Text

    result = Table(box=None, pad_edge=False, show_header=False)
    result.add_column(no_wrap=True)
    result.add_column(overflow="fold")
    result.add_column(no_wrap=True)
    for node in nodes:
        marks = Text()
        _mark(marks, _TAKEN, node["held"])
        marks.append(_FOREIGN * node["slots_foreign"], style="dim")
        closed = sum(each["closure"] != "FOREIGN" for each in node["closed_slots"])
        marks.append(_CLOSED * min(closed, max(0, node["slots"] - len(marks))), style="red")
        marks.append(_FREE * max(0, node["slots"] - len(marks)), style="dim")
        _mark(marks, _SHARED, node["shared"])
        result.add_row(Text(printable(node["name"]), style="bold"), marks, _node_state(node))
    return result


def _mark(marks: "Text", mark: str, held: list[tuple[int, int]]) -> None:
    for job, slots in held:
        marks.append(mark * slots, style=colour(job))


def colour(job_id: int) -> str:
    return _COLOURS[job_id % len(_COLOURS)]


def _node_state(node: View) -> "Text":
    from rich.text import Text

    words = [word for word in (node["health"], node["intent"]) if word not in ("UP", "ACTIVE")]
    return Text(f"{node['slots_used']}/{node['slots']} {' '.join(words)}".rstrip(), style="red" if words else "dim")


def _jobs(jobs: list[View], now: float, jobs_max: int, by_state: dict[str, int]) -> "RenderableType":
    """The first of these jobs, which may be a part of all, and the number of the others."""
    columns = (
        Column("ID", right=True),
        Column("NAME", fold=True),
        Column("STATE"),
        Column("PRIO", right=True),
        Column("WORKERS"),
        Column("SINCE"),
        Column("STEP", right=True),
        Column("WHY", fold=True),
    )
    ordered = sorted(jobs, key=lambda job: (_ORDER.get(job["state"], 9), -job["priority"], job["id"]))
    counts = {state: by_state.get(state, 0) for state in _ORDER}
    waiting_number = sum(counts[state] for state in _WAITING)
    active_number = sum(counts.values()) - waiting_number
    rows_max = jobs_max if active_number + waiting_number <= jobs_max else jobs_max - 2
    active = [job for job in ordered if job["state"] not in _WAITING][:rows_max]
    waiting = [job for job in ordered if job["state"] in _WAITING][: min(_WAITING_ROWS_MAX, rows_max - len(active))]
    rows = [_row(job, now) for job in active + waiting]
    for left, what in ((active_number - len(active), "active"), (waiting_number - len(waiting), "waiting")):
        if left > 0:
            rows.append(["", f"and {left:,} more {what}", "", "", "", "", "", ""])
    return table(columns, rows)


def _row(job: View, now: float) -> list[Cell]:
    return [
        (str(job["id"]), colour(job["id"]) if job["workers"] else ""),
        job["name"],
        state_cell(job["state"]),
        str(job["priority"]),
        size(job),
        ago(since(job), now).removesuffix(" ago"),
        str(job["progress"]["step"] if job["progress"]["step"] is not None else "-"),
        _pace(job) or why(job),
    ]


def _pace(job: View) -> str:
    """What a running job says of its speed and its last resize."""
    progress = job["progress"]
    if job["state"] not in ("RUNNING", "RESIZING"):
        return ""
    rate, resize = progress["samples_per_second"], progress["resize_seconds"]
    parts = [f"{rate:.0f}/s" if rate else "", f"resized in {span(resize)}" if resize else ""]
    return " ".join(part for part in parts if part)
