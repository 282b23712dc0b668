"""Lists and mappings of the model as JSON text. Floats, also NaN and infinity, come back exactly."""

import json
import re
from collections.abc import Iterable
from typing import Any

import orjson

from scheduler import bounds
from scheduler.bounds import NESTING_MAX, Bound, nested_too_deeply
from scheduler.model.data import DataSet
from scheduler.model.export import Export
from scheduler.model.fixed import FixedGroup
from scheduler.model.hosts import Member
from scheduler.model.identity import IdentifiedBy, Identity, Role
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.job import JobSpec, Placement, Runtime
from scheduler.model.node import NodeFailure
from scheduler.model.queue import ROOT, SlotsByType
from scheduler.model.ranges import NOTHING, Ranges
from scheduler.model.shape import WorkerShape
from scheduler.model.slot import ClosedSlot, SlotClosure
from scheduler.store.codec.json_values import (
    BrokenText,
    ascending,
    fields,
    flag,
    items,
    maybe,
    number,
    pairs,
    texts,
    two,
    whole,
)
from scheduler.store.codec.json_values import text as a_text

_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode

#: Command, environment, working directory, pod template and fixed group.
Launch = tuple[tuple[str, ...], tuple[tuple[str, str], ...], str | None, str | None, FixedGroup | None]

#: Speed by number of workers.
Speedup = tuple[tuple[int, float], ...]

EMPTY = "[]"
_WORKERS_MAX = int(bounds.WORKERS.high)
#: As of the column of jobs.
_PRIORITY_MAX = 2**31
_HOST = re.compile(r".*:[0-9]{1,5}")


def pairs_to_text(pairs: Iterable[tuple[str, object]]) -> str:
    return _encode(list(pairs)) if pairs else EMPTY


def labels_from_text(text: str) -> tuple[tuple[str, str], ...]:
    return pairs(_decode(text)) if text != EMPTY else ()


def label_needle(key: str, value: str) -> str:
    """What the text of labels holds if, and only if, this label is among them: quotes inside strings are escaped."""
    return _encode([key, value])


def launch_to_text(spec: JobSpec) -> str:
    launch: dict[str, object] = {"command": spec.command, "env": spec.env, "workdir": spec.workdir}
    if spec.pod_template is not None:
        launch["pod_template"] = spec.pod_template
    if spec.fixed is not None:
        launch["fixed"] = _fixed_to_data(spec.fixed)
    try:
        return orjson.dumps(launch).decode()
    except orjson.JSONEncodeError:
        return _encode(launch)  # arguments that are not UTF-8 are lone surrogates, which orjson refuses


def launch_from_text(text: str) -> Launch:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        data = _decode(text)  # arguments that are not UTF-8 are lone surrogates, which orjson refuses
    template = maybe(data.get("pod_template"), _template)
    return (*_what_runs(data), maybe(data["workdir"], a_text), template, _fixed_from_data(data.get("fixed")))


def speedup_to_text(speedup: Speedup) -> str | None:
    return _encode(speedup) if speedup else None


def speedup_from_text(text: str | None) -> Speedup:
    return speedup_from_data(_decode(text)) if text else ()


def speedup_from_data(points: object) -> Speedup:
    found = tuple((whole(size, 1, _WORKERS_MAX), number(speed, bounds.SPEED)) for size, speed in two(points))
    ascending(size for size, _ in found)
    return found


def export_to_text(export: Export) -> str:
    return _encode(_export_to_data(export))


def export_from_text(text: str) -> Export:
    return _export_from_data(_decode(text))


def data_to_text(data: DataSet) -> str:
    return _encode({name: getattr(data, name) for name in DataSet.__slots__})


def data_from_text(text: str) -> DataSet:
    return _data_from_data(_decode(text))


def ranges_to_text(ranges: Ranges) -> str:
    return orjson.dumps(ranges.spans).decode() if ranges else EMPTY


def ranges_from_text(text: str) -> Ranges:
    return ranges_from_data(orjson.loads(text)) if text != EMPTY else NOTHING


def levels_to_text(levels: tuple[Ranges, ...]) -> str:
    return orjson.dumps([level.spans for level in levels]).decode()


def levels_from_text(text: str) -> tuple[Ranges, ...]:
    return tuple(ranges_from_data(spans) for spans in items(orjson.loads(text)))


def ranges_from_data(spans: object) -> Ranges:
    found = tuple((whole(first), whole(end)) for first, end in two(spans))
    ascending(edge for span in found for edge in span)
    return Ranges(found)


def placement_from_text(text: str) -> Placement:
    if text == EMPTY:
        return ()
    return tuple((NodeName(a_text(node)), whole(count, 0, _WORKERS_MAX)) for node, count in two(_decode(text)))


def numbers_to_text(numbers: tuple[int, ...]) -> str:
    return _encode(numbers)


def numbers_from_text(text: str) -> tuple[int, ...]:
    numbers = tuple(whole(each, 0, int(bounds.SLOTS.high) - 1) for each in items(_decode(text)))
    if len(set(numbers)) < len(numbers):
        raise BrokenText("must not name a slot twice")
    return numbers


def hosts_to_text(hosts: tuple[str, ...]) -> str:
    return _encode(hosts)


def hosts_from_text(text: str) -> tuple[str, ...]:
    """Hosts with their ports."""
    hosts = texts(_decode(text))
    if (wrong := next((host for host in hosts if not _HOST.fullmatch(host)), None)) is not None:
        raise BrokenText(f"must be a list of HOST:PORT, not {wrong[:60]!r}")
    return hosts


def names_to_text(names: tuple[str, ...]) -> str:
    return _encode(names) if names else EMPTY


def names_from_text(text: str) -> tuple[str, ...]:
    """Different names."""
    names = texts(_decode(text)) if text != EMPTY else ()
    if len(set(names)) < len(names):
        raise BrokenText("must not have a name twice")
    return names


def slots_by_type_to_text(slots: SlotsByType) -> str:
    return pairs_to_text(slots)


def slots_by_type_from_text(text: str) -> SlotsByType:
    if text == EMPTY:
        return ()
    found = tuple(
        (a_text(kind), whole(count, 0, int(bounds.SLOTS_OF_QUEUE.high))) for kind, count in two(_decode(text))
    )
    kinds = [kind for kind, _ in found]
    if kinds != sorted(set(kinds)):
        raise BrokenText("must have each GPU type once, in their order")
    return found


def failures_to_text(failures: tuple[NodeFailure, ...]) -> str:
    return _encode([(failure.job_id, failure.at, failure.user) for failure in failures])


def failures_from_text(text: str) -> tuple[NodeFailure, ...]:
    return tuple(map(_failure, items(_decode(text))))


def _failure(value: object) -> NodeFailure:
    """One of a daemon that kept no users has two parts."""
    parts = items(value)
    job, at, user = parts if len(parts) == 3 else (*items(value, 2), "")
    return NodeFailure(JobId(whole(job)), number(at, bounds.MOMENT), a_text(user))


def slots_to_text(slots: tuple[ClosedSlot, ...]) -> str:
    return _encode([(each.slot, each.closure.value, each.detail) for each in slots])


def slots_from_text(text: str) -> tuple[ClosedSlot, ...]:
    highest = int(bounds.SLOTS.high) - 1
    rows = (items(each, 3) for each in items(_decode(text)))
    slots = tuple(ClosedSlot(whole(slot, 0, highest), SlotClosure(why), a_text(told)) for slot, why, told in rows)
    ascending(each.slot for each in slots)
    return slots


def members_to_text(members: tuple[Member, ...]) -> str:
    return _encode([(m.id, m.rank, m.host, m.slots, m.endpoint, m.peer) for m in members])


def members_from_text(text: str) -> tuple[Member, ...]:
    # Rows of earlier versions have no peer.
    return tuple(_member(*items(each)) for each in items(_decode(text)))


def _member(worker: object, rank: object, host: object, slots: object, endpoint: object, peer: object = None) -> Member:
    places = maybe(endpoint, a_text), maybe(peer, a_text)
    return Member(WorkerId(a_text(worker)), whole(rank), a_text(host), whole(slots), *places)


def submitter_to_text(submitter: Identity) -> str:
    """Who submits, without the token: another one of the same user does as well."""
    said = {"user": submitter.user, "role": submitter.role, "by": submitter.by, "groups": sorted(submitter.groups)}
    return _encode(said)


def submitter_from_text(text: str) -> Identity:
    data = fields(_decode(text))
    user, groups = maybe(data["user"], a_text), frozenset(texts(data["groups"]))
    return Identity(user, Role(data["role"]), IdentifiedBy(data["by"]), groups=groups)


def spec_to_text(spec: JobSpec) -> str:
    """All of a spec, for what is submitted again later."""
    parts = {name: getattr(spec, name) for name in JobSpec.__slots__}
    parts["data"] = None if spec.data is None else {name: getattr(spec.data, name) for name in DataSet.__slots__}
    parts["shape"] = _shape_to_data(spec.shape)
    parts["fixed"] = None if spec.fixed is None else _fixed_to_data(spec.fixed)
    parts["export"] = None if spec.export is None else _export_to_data(spec.export)
    return _encode(parts)


def spec_from_text(text: str) -> JobSpec:
    data = fields(_decode(text))
    command, env = _what_runs(data)
    low, high = (whole(data[name], 1, _WORKERS_MAX) for name in ("min_workers", "max_workers"))
    return JobSpec(
        name=a_text(data["name"]),
        command=command,
        user=a_text(data.get("user", "")),
        env=env,
        workdir=maybe(data.get("workdir"), a_text),
        labels=pairs(data["labels"]),
        runtime=Runtime(data["runtime"]),
        priority=whole(data["priority"], -_PRIORITY_MAX, _PRIORITY_MAX),
        min_workers=low,
        max_workers=high,
        shape=_shape_from_data(data["shape"]),
        time_limit_seconds=_within(data.get("time_limit_seconds"), bounds.DURATION),
        max_retries=whole(data["max_retries"]),
        grace_seconds=number(data["grace_seconds"], bounds.GRACE),
        heartbeat_seconds=_within(data.get("heartbeat_seconds"), bounds.HEARTBEAT),
        preemptible=flag(data["preemptible"]),
        surplus_preemptible=flag(data.get("surplus_preemptible", False)),
        preferred_workers=maybe(data.get("preferred_workers"), whole),
        expected_seconds=_within(data.get("expected_seconds"), bounds.DURATION),
        speedup=speedup_from_data(data.get("speedup", [])),
        booking=maybe(data.get("booking"), a_text),
        queue=a_text(data.get("queue", ROOT)),
        client_key=maybe(data.get("client_key"), a_text),
        pod_template=maybe(data.get("pod_template"), _template),
        data=maybe(data.get("data"), _data_from_data),
        fixed=_fixed_from_data(data.get("fixed")),
        export=maybe(data.get("export"), _export_from_data),
    )


def _within(value: object, bound: Bound) -> float | None:
    return None if value is None else number(value, bound)


def _what_runs(data: dict[str, Any]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Command and environment."""
    command = texts(data["command"])
    if not command:
        raise BrokenText("command: must not be empty")
    return command, pairs(data["env"])


def _template(value: object) -> str:
    template = a_text(value)
    if nested_too_deeply(fields(json.loads(template))):
        raise BrokenText(f"pod_template: must not be nested more than {NESTING_MAX} levels deep")
    return template


def _data_from_data(value: object) -> DataSet:
    data = fields(value)
    # Their product is bounded where a job is submitted; jobs that were accepted with more of them go on.
    return DataSet(
        shards=whole(data["shards"], 1, int(bounds.SHARDS.high)),
        epochs=whole(data.get("epochs", 1), 1, 10**6),
        shuffle=flag(data.get("shuffle", False)),
        seed=whole(data.get("seed", 0)),
        lease_seconds=number(data.get("lease_seconds", 60.0), bounds.DURATION),
        max_attempts=whole(data.get("max_attempts", 3), 1),
    )


def _shape_to_data(shape: WorkerShape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in WorkerShape.__slots__}


def _shape_from_data(value: object) -> WorkerShape:
    data = fields(value)
    return WorkerShape(
        slots=whole(data["slots"], 0, int(bounds.SLOTS.high)),
        cpus=number(data["cpus"], bounds.CPUS),
        memory_mib=whole(data["memory_mib"], 0, int(bounds.MEMORY_MIB.high)),
        node_selector=pairs(data["node_selector"]),
        gpu_type=maybe(data["gpu_type"], a_text),
        oversell=flag(data["oversell"]),
    )


def _fixed_to_data(fixed: FixedGroup) -> dict[str, Any]:
    parts = {name: getattr(fixed, name) for name in FixedGroup.__slots__}
    return {**parts, "shape": _shape_to_data(fixed.shape)}


def _fixed_from_data(value: object) -> FixedGroup | None:
    if value is None:
        return None
    data = fields(value)
    command, env = _what_runs(data)
    return FixedGroup(
        replicas=whole(data["replicas"], 1, _WORKERS_MAX),
        command=command,
        env=env,
        shape=_shape_from_data(data["shape"]),
        pod_template=maybe(data.get("pod_template"), _template),
    )


def _export_to_data(export: Export) -> dict[str, Any]:
    return {name: getattr(export, name) for name in Export.__slots__}


def _export_from_data(value: object) -> Export:
    data = fields(value)
    return Export(pairs(data["env"]), maybe(data.get("workdir"), a_text), maybe(data.get("host"), a_text))
