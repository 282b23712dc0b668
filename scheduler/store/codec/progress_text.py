"""What the workers of a job last reported, as JSON text."""

import json
import math
from typing import Any

from scheduler import bounds
from scheduler.bounds import Bound
from scheduler.model.job import Progress
from scheduler.model.speed import LOSSES_MAX, REPORTS_MAX, SCATTER_REPORTS_MAX, Scatter, SizeSpeed
from scheduler.store.codec.json_values import BrokenText, ascending, fields, items, maybe, number, two, whole
from scheduler.store.codec.json_values import text as a_text

_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode

_NOTHING = Progress()
_NOTHING_TEXT = "{}"
#: Earlier versions kept the last report of each size alone, as `throughput`.
_FIELDS = frozenset(Progress.__slots__) | {"throughput"}
_WORKERS_MAX = int(bounds.WORKERS.high)


def progress_to_text(progress: Progress) -> str:
    if progress is _NOTHING or progress == _NOTHING:
        return _NOTHING_TEXT
    return _encode(
        {
            "step": progress.step,
            "epoch": progress.epoch,
            "samples_per_second": progress.samples_per_second,
            "last_commit_at": progress.last_commit_at,
            "last_checkpoint_at": progress.last_checkpoint_at,
            "resize_seconds": progress.resize_seconds,
            "speeds": [(s.workers, s.per_second, s.reports, s.generation, s.losses) for s in progress.speeds],
            "scatter": (progress.scatter.variance, progress.scatter.reports),
            "fraction": progress.fraction,
            "whole_slot_seconds": progress.whole_slot_seconds,
            "recent_share": progress.recent_share,
            "slot_seconds": progress.slot_seconds,
            "efficiency": progress.efficiency,
            "metrics": progress.metrics,
            "reported_at": progress.reported_at,
            "adopted": progress.adopted,
        }
    )


def progress_from_text(text: str) -> Progress:
    if text == _NOTHING_TEXT:
        return _NOTHING
    data = fields(_decode(text))
    if unknown := data.keys() - _FIELDS:
        raise BrokenText(f"unknown field {sorted(unknown)[0]!r:.60}")
    return Progress(
        step=maybe(data.get("step"), whole),
        epoch=maybe(data.get("epoch"), whole),
        samples_per_second=_known(data.get("samples_per_second"), bounds.RATE),
        last_commit_at=_known(data.get("last_commit_at"), bounds.MOMENT),
        last_checkpoint_at=_known(data.get("last_checkpoint_at"), bounds.MOMENT),
        resize_seconds=_known(data.get("resize_seconds"), bounds.SECONDS),
        speeds=_speeds(data.get("speeds", data.get("throughput", []))),
        scatter=_scatter(data.get("scatter")),
        fraction=_known(data.get("fraction"), bounds.FRACTION),
        whole_slot_seconds=_known(data.get("whole_slot_seconds"), bounds.SLOT_SECONDS),
        recent_share=_known(data.get("recent_share"), bounds.SHARE) or 0.0,
        slot_seconds=_known(data.get("slot_seconds"), bounds.SLOT_SECONDS) or 0.0,
        efficiency=_known(data.get("efficiency"), bounds.EFFICIENCY),
        metrics=_metrics(data.get("metrics", [])),
        reported_at=_known(data.get("reported_at"), bounds.MOMENT),
        adopted=_adopted(data.get("adopted", [0, 0])),
    )


def _known(value: object, bound: Bound) -> float | None:
    """What workers have reported; what is infinite or no number counts as not reported, for they report it again."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if value is None else number(value, bound)


def _speeds(rows: object) -> tuple[SizeSpeed, ...]:
    speeds = tuple(speed for row in items(rows) if (speed := _speed(items(row))) is not None)
    ascending(speed.workers for speed in speeds)
    return speeds


def _speed(row: list[Any]) -> SizeSpeed | None:
    # Rows of earlier versions have the size and the speed alone.
    workers, rate, reports, generation, losses = items([*row, 1, 0, 0] if len(row) == 2 else row, 5)
    size, per_second = whole(workers, 1, _WORKERS_MAX), _known(rate, bounds.RATE)
    counts = whole(reports, 1, REPORTS_MAX), whole(generation), whole(losses, 0, LOSSES_MAX)
    return None if per_second is None else SizeSpeed(size, per_second, *counts)


def _scatter(value: object) -> Scatter:
    if value is None:
        return Scatter()
    variance, reports = items(value, 2)
    return Scatter(number(variance, bounds.FRACTION), whole(reports, 0, SCATTER_REPORTS_MAX))


def _metrics(shown: object) -> tuple[tuple[str, float], ...]:
    known = [(a_text(name), _known(value, bounds.METRIC)) for name, value in two(shown)]
    return tuple((name, value) for name, value in known if value is not None)


def _adopted(value: object) -> tuple[int, int]:
    generation, sub = items(value, 2)
    return whole(generation), whole(sub)
