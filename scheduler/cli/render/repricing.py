"""What another priority of a job would change, in words."""

from typing import Any

from scheduler.bounds import NAMED_MAX
from scheduler.cli.render.forecast import forecast_facts, start_text

View = dict[str, Any]


def repricing_facts(answer: View) -> list[tuple[str, str]]:
    """Names and values of those facts that are known."""
    change = f"{answer['priority']} → {answer['changed_priority']}"
    facts: list[tuple[str, str | None]] = [("priority", f"{change} (dry run: nothing was changed)")]
    start, size = answer["start"], answer["size"]
    if start is not None:
        facts += forecast_facts(start["changed"], "would start")
        facts += [("waits because", start["wait"]), ("without the change", start_text(start["as_it_is"]))]
    if size is not None:
        facts += _sizes(size)
    return [(name, text) for name, text in facts if text]


def _sizes(size: View) -> list[tuple[str, str | None]]:
    lose = [other for other in size["others"] if other["changed"] < other["as_it_is"]]
    gain = [other for other in size["others"] if other["changed"] > other["as_it_is"]]
    changed = "none (it would be stopped, and wait)" if not size["changed"] else f"{size['changed']}"
    return [
        ("workers now", f"{size['workers']}"),
        ("would settle at", changed),
        ("without the change", f"{size['as_it_is']}"),
        ("would lose", _changes(lose)),
        ("would gain", _changes(gain)),
        ("others", None if size["others"] else "no other job would change its size"),
        ("not known", None if size["settled"] else "the final sizes: the search ran out of time"),
    ]


def _changes(others: list[View]) -> str | None:
    named = [
        f"job {each['id']} ({each['name']}): {each['as_it_is']} → {each['changed']} workers"
        for each in others[:NAMED_MAX]
    ]
    more = len(others) - len(named)
    return "; ".join([*named, f"{more} more"] if more else named) or None
