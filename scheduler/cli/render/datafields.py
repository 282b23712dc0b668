"""A job's data in words: how far it is, who holds what, what was set aside. Reads API documents, prints nothing."""

from typing import Any

from scheduler.bounds import NAMED_MAX
from scheduler.cli.render.times import ago

View = dict[str, Any]


def data_rows(view: View, now: float) -> list[tuple[str, str]]:
    """What there is to say about the data of a job: nothing, if it has declared none."""
    data, progress = view["data"], view.get("data_progress")
    if data is None or progress is None:
        return []
    return [("data", _progress(data, progress)), ("held by", _holders(progress, now)), ("set aside", _aside(progress))]


def _progress(data: View, progress: View) -> str:
    """`1,200 of 3,000 shards done (40%), 16 held, epoch 2, 3 in all`."""
    parts = [
        f"{progress['done']:,} of {progress['total']:,} shards done ({progress['done'] * 100 // progress['total']}%)",
        f"{progress['held']:,} held" if progress["held"] else "",
        f"{progress['set_aside']:,} set aside" if progress["set_aside"] else "",
        f"epoch {progress['epoch']}, {data['epochs']} in all" if data["epochs"] > 1 else "",
    ]
    return ", ".join(part for part in parts if part)


def _holders(progress: View, now: float) -> str:
    """The workers that have shards and are silent for longest: `7-1: 3 (last heard 2s ago)`."""
    holders = progress["holders"]
    shown = [
        f"{each['worker']}: {each['held']:,} (last heard {ago(each['heard_at'], now)})" for each in holders[:NAMED_MAX]
    ]
    return ", ".join(shown + (["and others"] if len(holders) > len(shown) else []))


def _aside(progress: View) -> str:
    """The first shards that failed too often, and why."""
    shown = progress["first_set_aside"][:NAMED_MAX]
    lines = [f"shard {each['shard']} of epoch {each['epoch']}: {each['detail']}" for each in shown]
    more = progress["set_aside"] - len(shown)
    return "; ".join(lines + ([f"and {more:,} more"] if more else []))
