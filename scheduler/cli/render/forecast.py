"""A forecast in words: when a job starts, at what cost for others, and what that rests on."""

from typing import Any

from scheduler.bounds import NAMED_MAX
from scheduler.cli.render.times import ago, lost_work, span, stamp

View = dict[str, Any]

_BASES = {
    "TIME_LIMIT": "by its time limit",
    "DECLARED": "as declared",
    "REPORTED": "by its progress",
    "FINISHING": "now (it is finishing)",
}


def forecast_facts(forecast: View, title: str) -> list[tuple[str, str | None]]:
    """Names and values, None for what is not known; the start itself goes under `title`."""
    return [
        (title, start_text(forecast)),
        ("with workers", _sizes(forecast)),
        ("on nodes", _nodes(forecast)),
        ("takes workers from", "; ".join(map(_loss, forecast["losses"])) or None),
        ("depends on", _rests_on(forecast)),
    ]


def start_text(forecast: View) -> str:
    """When the job starts, and how sure that is."""
    at, start_at = forecast["at"], forecast["start_at"]
    if start_at is None:
        return _unknown(forecast)
    when = _when(start_at, at)
    match forecast["certainty"]:
        case "UPPER_BOUND":
            return f"{when} at the latest"
        case "ESTIMATE":
            return f"about {when}"
        case _:
            if start_at <= at:
                return "immediately"
            left = ", when the workers of other jobs have left" if forecast["losses"] else ""
            return f"within {span(start_at - at)}{left}"


def _when(moment: float, now: float) -> str:
    return f"{stamp(moment)} ({ago(moment, now)})"


def _unknown(forecast: View) -> str:
    match forecast["cut_off"]:
        case "IMPOSSIBLE":
            return "never, with the current nodes"
        case "HORIZON" | "ROUNDS" | "TIME":
            return f"not before {_when(forecast['looked_until'], forecast['at'])}; the search stopped there"
        case _ if forecast["silent"]:
            names = [f"{each['id']} ({each['name']})" for each in forecast["silent"][:NAMED_MAX]]
            others = forecast["silent_count"] - len(names)
            if forecast["silent_count"] == 1:
                return f"unknown: job {names[0]} has no known end"
            more = f" and {others} more" if others else ""
            return f"unknown: jobs {', '.join(names)}{more} have no known end"
        case _:
            return "unknown: it cannot be predicted when the resources become free"


def _sizes(forecast: View) -> str | None:
    first, settled = forecast["workers"], forecast["settled_workers"]
    if not first:
        return None
    return str(first) if settled in (first, 0) else f"{first}, then {settled}"


def _nodes(forecast: View) -> str | None:
    where = ", ".join(f"{node} ×{count}" for node, count in forecast["placement"])
    return f"{where}, sharing slots with others" if forecast["shared"] else where or None


def _loss(loss: View) -> str:
    after = loss["workers_after"]
    change = f"{loss['workers_before']} → {after} workers" if after else f"stopped ({loss['workers_before']} workers)"
    return f"job {loss['id']} ({loss['name']}): {change}{lost_work(loss['lost_slot_seconds'])}"


def _rests_on(forecast: View) -> str | None:
    named = forecast["rests_on"][-NAMED_MAX:]
    ends = [
        f"job {each['id']} ({each['name']}) ends "
        + (_BASES[each["basis"]] if each["basis"] == "FINISHING" else f"{stamp(each['at'])} {_BASES[each['basis']]}")
        for each in named
    ]
    others = forecast["rests_on_count"] - len(named)
    return "; ".join([f"{others} earlier ends", *ends] if others else ends) or None
