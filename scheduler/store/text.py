"""Lists and mappings of the model as JSON text. Floats, also NaN and infinity, come back exactly."""

import json
from collections.abc import Iterable
from typing import Any

import orjson

from scheduler.model.data import DataSet
from scheduler.model.export import Export
from scheduler.model.fixed import FixedGroup
from scheduler.model.hosts import Member
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.job import JobSpec, Placement, Progress, Runtime
from scheduler.model.node import NodeFailure
from scheduler.model.ranges import NOTHING, Ranges
from scheduler.model.shape import WorkerShape

_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode

#: Command, environment, working directory, pod template and fixed group.
Launch = tuple[tuple[str, ...], tuple[tuple[str, str], ...], str | None, str | None, FixedGroup | None]

#: Speed by number of workers.
Speedup = tuple[tuple[int, float], ...]

EMPTY = "[]"
_NO_PROGRESS = Progress()
_NO_PROGRESS_TEXT = "{}"


def pairs_to_text(pairs: Iterable[tuple[str, object]]) -> str:
    return _encode(list(pairs)) if pairs else EMPTY


def labels_from_text(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in _decode(text)) if text != EMPTY else ()


def label_needle(key: str, value: str) -> str:
    """What the text of labels holds if, and only if, this label is among them: quotes inside strings are escaped."""
    return _encode([key, value])


def launch_to_text(spec: JobSpec) -> str:
    launch: dict[str, object] = {"command": spec.command, "env": spec.env, "workdir": spec.workdir}
    if spec.pod_template is not None:
        launch["pod_template"] = spec.pod_template
    if spec.fixed is not None:
        launch["fixed"] = _fixed_to_data(spec.fixed)
    return _encode(launch)


def launch_from_text(text: str) -> Launch:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        data = _decode(text)  # arguments that are not UTF-8 are lone surrogates, which orjson refuses
    env = tuple(map(tuple, data["env"]))
    return tuple(data["command"]), env, data["workdir"], data.get("pod_template"), _fixed_from_data(data.get("fixed"))


def speedup_to_text(speedup: Speedup) -> str | None:
    return _encode(speedup) if speedup else None


def speedup_from_text(text: str | None) -> Speedup:
    return speedup_from_data(_decode(text)) if text else ()


def speedup_from_data(points: Iterable[tuple[int, float]]) -> Speedup:
    return tuple((workers, speed) for workers, speed in points)


def export_to_text(export: Export) -> str:
    return _encode(_export_to_data(export))


def export_from_text(text: str) -> Export:
    return _export_from_data(_decode(text))


def data_to_text(data: DataSet) -> str:
    return _encode({name: getattr(data, name) for name in DataSet.__slots__})


def data_from_text(text: str) -> DataSet:
    return DataSet(**_decode(text))


def ranges_to_text(ranges: Ranges) -> str:
    return orjson.dumps(ranges.spans).decode() if ranges else EMPTY


def ranges_from_text(text: str) -> Ranges:
    return ranges_from_data(orjson.loads(text)) if text != EMPTY else NOTHING


def levels_to_text(levels: tuple[Ranges, ...]) -> str:
    return orjson.dumps([level.spans for level in levels]).decode()


def levels_from_text(text: str) -> tuple[Ranges, ...]:
    return tuple(ranges_from_data(spans) for spans in orjson.loads(text))


def ranges_from_data(spans: Iterable[tuple[int, int]]) -> Ranges:
    return Ranges(tuple((first, end) for first, end in spans))


def placement_from_text(text: str) -> Placement:
    return tuple((NodeName(node), count) for node, count in _decode(text)) if text != EMPTY else ()


def numbers_to_text(numbers: tuple[int, ...]) -> str:
    return _encode(numbers)


def numbers_from_text(text: str) -> tuple[int, ...]:
    return tuple(_decode(text))


def words_to_text(words: tuple[str, ...]) -> str:
    return _encode(words)


def words_from_text(text: str) -> tuple[str, ...]:
    return tuple(_decode(text))


def progress_to_text(progress: Progress) -> str:
    if progress is _NO_PROGRESS or progress == _NO_PROGRESS:
        return _NO_PROGRESS_TEXT
    return _encode(
        {
            "step": progress.step,
            "epoch": progress.epoch,
            "samples_per_second": progress.samples_per_second,
            "last_commit_at": progress.last_commit_at,
            "resize_seconds": progress.resize_seconds,
            "throughput": progress.throughput,
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
    if text == _NO_PROGRESS_TEXT:
        return _NO_PROGRESS
    data = _decode(text)
    data["throughput"] = tuple((workers, rate) for workers, rate in data["throughput"])
    data["metrics"] = tuple((name, value) for name, value in data["metrics"])
    data["adopted"] = tuple(data.get("adopted", (0, 0)))
    return Progress(**data)


def failures_to_text(failures: tuple[NodeFailure, ...]) -> str:
    return _encode([(failure.job_id, failure.at) for failure in failures])


def failures_from_text(text: str) -> tuple[NodeFailure, ...]:
    return tuple(NodeFailure(JobId(job_id), at) for job_id, at in _decode(text))


def members_to_text(members: tuple[Member, ...]) -> str:
    return _encode([(m.id, m.rank, m.host, m.slots, m.endpoint, m.peer) for m in members])


def members_from_text(text: str) -> tuple[Member, ...]:
    # Rows of earlier versions have no peer.
    return tuple(Member(WorkerId(worker), *rest) for worker, *rest in _decode(text))


def spec_to_text(spec: JobSpec) -> str:
    """All of a spec, for what is submitted again later."""
    fields = {name: getattr(spec, name) for name in JobSpec.__slots__}
    fields["data"] = None if spec.data is None else {name: getattr(spec.data, name) for name in DataSet.__slots__}
    fields["shape"] = _shape_to_data(spec.shape)
    fields["fixed"] = None if spec.fixed is None else _fixed_to_data(spec.fixed)
    fields["export"] = None if spec.export is None else _export_to_data(spec.export)
    return _encode(fields)


def spec_from_text(text: str) -> JobSpec:
    data = _decode(text)
    return JobSpec(
        **{
            **data,
            "command": tuple(data["command"]),
            "env": _pairs(data["env"]),
            "labels": _pairs(data["labels"]),
            "runtime": Runtime(data["runtime"]),
            "speedup": speedup_from_data(data.get("speedup", ())),
            "data": None if (declared := data.get("data")) is None else DataSet(**declared),
            "shape": _shape_from_data(data["shape"]),
            "fixed": _fixed_from_data(data.get("fixed")),
            "export": None if (export := data.get("export")) is None else _export_from_data(export),
        }
    )


def _shape_to_data(shape: WorkerShape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in WorkerShape.__slots__}


def _shape_from_data(data: dict[str, Any]) -> WorkerShape:
    return WorkerShape(**{**data, "node_selector": _pairs(data["node_selector"])})


def _fixed_to_data(fixed: FixedGroup) -> dict[str, Any]:
    fields = {name: getattr(fixed, name) for name in FixedGroup.__slots__}
    return {**fields, "shape": _shape_to_data(fixed.shape)}


def _fixed_from_data(data: dict[str, Any] | None) -> FixedGroup | None:
    if data is None:
        return None
    read = {"command": tuple(data["command"]), "env": _pairs(data["env"]), "shape": _shape_from_data(data["shape"])}
    return FixedGroup(**{**data, **read})


def _export_to_data(export: Export) -> dict[str, Any]:
    return {name: getattr(export, name) for name in Export.__slots__}


def _export_from_data(data: dict[str, Any]) -> Export:
    return Export(**{**data, "env": _pairs(data["env"])})


def _pairs(items: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in items)
