"""The custom resource definition of TrainingJob: `python -m scheduler.daemon.trainingjobs` prints it.

Its spec has the fields of a job request in the spelling of Kubernetes, with the same limits, so that the API server
refuses at once what the daemon would refuse. It is structural (apiextensions.k8s.io/v1).
"""

import re
from collections.abc import Iterator
from typing import Any

from scheduler.clusters.kubernetes.api.custom_resource import GROUP, PLURAL, VERSION
from scheduler.http.schemas.fields import WORKDIR
from scheduler.http.schemas.requests import JobRequest
from scheduler.model.job_fields import JOB_FIELDS

Schema = dict[str, Any]

KIND = "TrainingJob"
#: Its object is kept until the job's workers are gone.
FINALIZER = f"{GROUP}/workers"

#: Fields of a request that an object does not set: it has a name and an identity of its own, and was made nowhere.
_OMITTED = frozenset({"name", "client_key", "workers", "export"})
#: Fields with another name than the request's in camel case.
_RENAMED = {"pod_template": "template", "fixed": "fixedReplicas"}
_FREE_FORM: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "format": "int64"}
_TIME: Schema = {"type": "string", "format": "date-time"}

_COLUMNS = (
    ("Phase", "string", ".status.phase", "State of the job."),
    ("Workers", "integer", ".status.workers", "Current number of workers."),
    ("Min", "integer", ".spec.minWorkers", JOB_FIELDS["min_workers"].sentence),
    ("Max", "integer", ".spec.maxWorkers", JOB_FIELDS["max_workers"].sentence),
    ("Priority", "integer", ".spec.priority", JOB_FIELDS["priority"].sentence),
    ("Generation", "integer", ".status.generation", "Number of membership changes."),
    ("Reason", "string", ".status.reason", "Reason why it waits, or how it ended."),
    ("Age", "date", ".metadata.creationTimestamp", "Time since creation."),
)
#: Shown by `kubectl get -o wide` only.
_WIDE = (("Queue", "string", ".status.queue", "Queue to which the job belongs."),)


def field_name(request_field: str) -> str:
    """The name in an object of a field of a job request."""
    camel = re.sub(r"_([a-z])", lambda found: found[1].upper(), request_field)
    return _RENAMED.get(request_field, camel)


def request_fields() -> Iterator[tuple[str, str]]:
    """(name in an object, name in a request) of what a spec may set."""
    for name in JobRequest.model_fields:
        if name not in _OMITTED:
            yield field_name(name), name


def definition() -> Schema:
    """The CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["tj"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object_schema()},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "description": text, "priority": wide}
                        for wide, columns in enumerate((_COLUMNS, _WIDE))
                        for name, kind, path, text in columns
                    ],
                }
            ],
        },
    }


def _object_schema() -> Schema:
    return {
        "type": "object",
        "description": "A training job of the elastic GPU scheduler.",
        "required": ["spec"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "spec": _spec_schema(),
            "status": _status_schema(),
        },
    }


def _spec_schema() -> Schema:
    schema = JobRequest.model_json_schema()
    fields, parts = schema["properties"], schema["$defs"]
    properties = {
        name: {**_structural(fields[field], parts), "description": JOB_FIELDS[field].sentence}
        for name, field in request_fields()
    }
    properties["workdir"]["pattern"] = WORKDIR  # a relative one belongs to a submitter's machine
    properties["suspend"] = {
        "type": "boolean",
        "description": "Suspend the job: it releases its slots and waits until this is false again.",
    }
    return {
        "type": "object",
        "description": "The job to run. After creation, only priority, minWorkers, maxWorkers and suspend can change.",
        "required": ["command"],
        "properties": dict(sorted(properties.items())),
    }


def _status_schema() -> Schema:
    return {
        "type": "object",
        "description": "Observed state, written by the scheduler.",
        "properties": {
            "phase": {**_TEXT, "description": "State of the job; Waiting: its queue is full; or Refused."},
            "jobId": {**_COUNT, "description": "Id of the job in the scheduler, as in `sched show`."},
            "queue": {**_TEXT, "description": "Queue to which the job belongs, whoever named it; none: no queue."},
            "workers": {**_COUNT, "description": "Number of workers that are not leaving, without fixed ones."},
            "fixedWorkers": {**_COUNT, "description": "Number of live workers of the fixed group."},
            "generation": {**_COUNT, "description": "Counter of published memberships."},
            "attempt": {**_COUNT, "description": "Number of starts."},
            "priority": {**_COUNT, "description": "Current priority; users of the scheduler may have changed it."},
            "minWorkers": {**_COUNT, "description": "Current minimum number of workers."},
            "maxWorkers": {**_COUNT, "description": "Current maximum number of workers."},
            "reason": {**_TEXT, "description": "Reason for waiting or stopping, in one word."},
            "message": {**_TEXT, "description": "Reason for waiting or stopping, in one line."},
            "startTime": {**_TIME, "description": "Start time of the current attempt."},
            "completionTime": {**_TIME, "description": "End time."},
            "observedGeneration": {**_COUNT, "description": "The metadata.generation that this status describes."},
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
                    "properties": {
                        "type": _TEXT,
                        "status": {**_TEXT, "enum": ["True", "False", "Unknown"]},
                        "reason": _TEXT,
                        "message": _TEXT,
                        "lastTransitionTime": _TIME,
                        "observedGeneration": _COUNT,
                    },
                },
            },
        },
    }


def _structural(field: Schema, parts: Schema) -> Schema:
    """A field's JSON schema as Kubernetes takes it: one type, no null, no patterns of names, nothing by reference."""
    shapes = [shape for shape in field.get("anyOf", [field]) if shape.get("type") != "null"]
    if {"boolean", "string"} == {shape.get("type") for shape in shapes}:  # Kubernetes has no type for both
        words = [shape["const"] for shape in shapes if "const" in shape]
        return {"x-kubernetes-preserve-unknown-fields": True, "enum": [True, False, *words], **_default(field)}
    shape = shapes[-1]  # of a string and a list, the list
    if "anyOf" in shape:
        return _structural(shape, parts)
    if "$ref" in shape:
        shape = parts[shape["$ref"].rpartition("/")[2]]
    if "properties" in shape:
        inner = {field_name(name): _structural(each, parts) for name, each in shape["properties"].items()}
        required = [field_name(name) for name in shape.get("required", ())]
        return {"type": "object", "required": required, "properties": dict(sorted(inner.items()))}
    if shape["type"] == "object":
        values = [*shape.get("patternProperties", {}).values()]
        if not values:
            return dict(_FREE_FORM)
        return {
            "type": "object",
            "additionalProperties": _structural(values[0], parts),
            **_kept(shape, "maxProperties"),
        }
    kept = _kept(shape, "type", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
    if shape["type"] == "integer":
        kept["format"] = "int64"
    if "pattern" in shape:
        kept["pattern"] = shape["pattern"].replace(r"\u0000", r"\x00")
    if "exclusiveMinimum" in shape:
        kept |= {"minimum": shape["exclusiveMinimum"], "exclusiveMinimum": True}
    if "items" in shape:
        kept["items"] = _structural(shape["items"], parts)
    return kept | _default(field)


def _default(field: Schema) -> Schema:
    return {} if field.get("default") in (None, "", False, 0) else {"default": field["default"]}


def _kept(schema: Schema, *names: str) -> Schema:
    return {name: schema[name] for name in names if name in schema}
