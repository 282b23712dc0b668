"""Whether all of the demo happened, and what was measured: from events, workers' reports and their logs."""

import re
from collections.abc import Mapping
from typing import Any

from demo_record import Record

#: What an undisturbed run reaches within the demo's epochs, less a margin for noise.
ACCURACY_MIN = {"low": 0.93, "high": 0.90}
KILLED = 137
_EXACTLY_ONCE = re.compile(r"^epoch (\d+): every sample seen exactly once$", re.MULTILINE)
_ACCURACY = re.compile(r"^accuracy ([\d.]+) after (\d+) steps$", re.MULTILINE)


def missing(record: Record, slots: int, epochs: Mapping[str, int]) -> list[str]:
    """One line for each thing that should have happened and did not."""
    facts = {
        f"low trained with {slots} workers before high came": _size_between(record, slots, None, "JOB_SUBMITTED"),
        "low shrank for high": _shrank_for_high(record),
        "low trained on with 2 workers while high ran": _trained_beside_high(record),
        "high ran with 2 workers": any(size == 2 for _, size in record.sizes("high")),
        "low lost a worker to SIGKILL": _lost_a_worker(record),
        "the killed worker was replaced by a new member": _replacement_joined(record) is not None,
        f"low grew to {slots} workers after high had ended": _size_between(record, slots, "JOB_SUCCEEDED", None),
        "low was never stopped": all(job["attempt"] == 1 for job in record.jobs.values()),
    }
    for name in ("low", "high"):
        state = record.jobs[name]["state"] if name in record.jobs else "not submitted"
        facts[f"{name} finished (it is {state})"] = state == "SUCCEEDED"
    lines = [fact for fact, happened in facts.items() if not happened]
    for name, count in epochs.items():
        text = record.logs_of.get(name, "")
        absent = sorted(set(range(1, count + 1)) - _epochs_proved(text, count))
        if absent:
            lines.append(f"{name} saw every sample exactly once in each epoch (not shown for {absent})")
        accuracy = _accuracy(text)
        if accuracy is None or accuracy < ACCURACY_MIN[name]:
            lines.append(f"{name} reached accuracy {ACCURACY_MIN[name]} (it has {accuracy})")
    return lines


def results(record: Record) -> dict[str, Any]:
    """Accuracies and latencies; None where something did not happen."""
    submitted, shrunk = record.at("high", "JOB_SUBMITTED"), record.at("low", "JOB_SHRANK")
    running, ended = record.at("high", "JOB_RUNNING"), record.at("high", "JOB_SUCCEEDED")
    started = [w["started_at"] for w in record.workers.get("high", ()) if w["started_at"]]
    left = [w["ended_at"] for w in record.workers.get("low", ()) if w["leave_for"] == record.ids.get("high")]
    grown = [at for at, size in record.sizes("low") if ended is not None and at >= ended and size == 4]
    killed_at = record.killed[1] if record.killed else None
    return {
        "accuracy": {name: _accuracy(record.logs_of.get(name, "")) for name in record.ids},
        "seconds": {
            "high submitted -> both its workers started": _between(submitted, max(started, default=None)),
            "high submitted -> training (including its import of torch)": _between(submitted, running),
            "low asked to shrink -> its two slots are free": _between(shrunk, max(filter(None, left), default=None)),
            "low's pause at the shrink 4 -> 2 (measured by its workers)": record.pause_after("low", shrunk, 2),
            "low's pause at the loss of a worker (measured by the other)": record.pause_after("low", killed_at, 1),
            "worker killed -> its replacement is a member": _between(killed_at, _replacement_joined(record)),
            "high ended -> low has grown to 4": _between(ended, grown[0] if grown else None),
            "low's pause at the growth to 4 (measured by its workers)": record.pause_after("low", ended, 4),
        },
    }


def _between(since: float | None, until: float | None) -> float | None:
    return None if since is None or until is None else round(until - since, 3)


def _size_between(record: Record, size: int, after: str | None, before: str | None) -> bool:
    """Whether low had this size after and before what happened to high."""
    begin = record.at("high", after) if after else 0.0
    end = record.at("high", before) if before else record.now
    if begin is None or end is None:
        return False
    return any(begin <= at <= end and members == size for at, members in record.sizes("low"))


def _shrank_for_high(record: Record) -> bool:
    return any(e["for_job"] == record.ids.get("high") for e in record.events_of("low", "JOB_SHRANK"))


def _trained_beside_high(record: Record) -> bool:
    begin, end = record.at("high", "JOB_RUNNING"), record.at("high", "JOB_SUCCEEDED") or record.now
    if begin is None:
        return False
    steps = [step for at, step in record.steps["low"] if begin <= at <= end]
    return len(steps) >= 2 and steps[-1] > steps[0]


def _lost_a_worker(record: Record) -> bool:
    killed = record.killed[0] if record.killed else None
    return any(w["id"] == killed and w["exit_code"] == KILLED for w in record.workers.get("low", ()))


def _replacement_joined(record: Record) -> float | None:
    """When the first membership was published after the replacement had become ready."""
    replacement = record.replacement()
    ready = next((w["ready_at"] for w in record.workers.get("low", ()) if w["id"] == replacement), None)
    return next((at for at, _ in record.sizes("low") if ready is not None and at >= ready), None)


def _epochs_proved(text: str, count: int) -> set[int]:
    """Epochs for which the training itself counted; logs number them from 0 or 1."""
    numbers = {int(number) for number in _EXACTLY_ONCE.findall(text)}
    return {number + 1 for number in numbers} if 0 in numbers else numbers & set(range(1, count + 1))


def _accuracy(text: str) -> float | None:
    found = _ACCURACY.findall(text)
    return float(found[-1][0]) if found else None
