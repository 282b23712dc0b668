"""What a TrainingJob object asks for, and the status that it is given. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from scheduler.config import KubernetesSettings
from scheduler.daemon.trainingjobs.crd import FINALIZER, field_name, request_fields
from scheduler.errors import InvalidInput
from scheduler.http.schemas.requests import DataRequest, FixedRequest, JobRequest, check_request
from scheduler.model.client_key import training_job_key
from scheduler.model.ids import JobId
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.pod_permissions import broken_pod_rule, named_namespaces, run_in

Document = dict[str, Any]

#: Phase of an object that is no job.
REFUSED = "Refused"
#: Reason where a spec is no job.
INVALID = "InvalidSpec"
#: Reason where a queue does not take it as it is; queues may change.
QUEUE_REFUSES = "QueueRefuses"
#: Phase and reason of an object whose queue takes no more jobs for now.
WAITING = "Waiting"
QUEUE_FULL = "QueueFull"
QUEUE_UNREADABLE = "QueueUnreadable"
#: States of a job, as phases are written.
PHASES = {state: state.value.capitalize() for state in JobState}
_ENDED = frozenset({REFUSED, *(PHASES[state] for state in JobState if state.terminal)})


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """An object as it was read."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    finalizers: tuple[str, ...]
    deleting: bool

    @property
    def key(self) -> str:
        """The client key of its job."""
        return training_job_key(self.uid)

    @property
    def held(self) -> bool:
        """Whether the scheduler has asked for it to be kept until its job is over."""
        return FINALIZER in self.finalizers

    @property
    def changed(self) -> bool:
        """Whether its spec is newer than what its status is about, or waits for its queue to be changed."""
        conditions = self.status.get("conditions", ())
        waits = any(each["type"] == "Accepted" and each["reason"] == QUEUE_REFUSES for each in conditions)
        return waits or bool(self.generation != self.status.get("observedGeneration"))

    @property
    def over(self) -> bool:
        """Whether its job has ended, or it is none and nobody has changed that."""
        phase = self.status.get("phase")
        return phase in _ENDED and not (phase == REFUSED and self.changed)

    @property
    def suspend(self) -> bool:
        return bool(self.spec.get("suspend", False))

    @property
    def job_id(self) -> JobId | None:
        """The job that it was given, as far as its status tells."""
        number = self.status.get("jobId")
        return JobId(number) if isinstance(number, int) else None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object is no job, or why its job is not changed."""

    reason: str
    error: InvalidInput

    @property
    def passing(self) -> bool:
        """Whether it may end without a change of the object."""
        return self.reason == QUEUE_REFUSES


@dataclass(frozen=True, slots=True)
class Change:
    """A request to the job that follows from a change of its object."""

    kind: IntentKind
    priority: int | None = None
    min_workers: int | None = None
    max_workers: int | None = None


def training_job(item: Document) -> TrainingJob:
    """The object that a document of the API holds."""
    metadata = item["metadata"]
    return TrainingJob(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        spec=item.get("spec") or {},
        status=item.get("status") or {},
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting=metadata.get("deletionTimestamp") is not None,
    )


def job_spec(wanted: TrainingJob, settings: KubernetesSettings) -> JobSpec:
    """The job that it asks for, in its own namespace. Raises `InvalidInput`: the field of the object, and the rule."""
    names = dict(request_fields())
    given = {names[name]: value for name, value in wanted.spec.items() if name in names}
    for field, inner in _INNER.items():
        if isinstance(value := given.get(field), Mapping):
            given[field] = {inner.get(name, name): each for name, each in value.items()}
    try:
        request = check_request(JobRequest, {**given, "name": wanted.name, "client_key": wanted.key})
        return _in_its_namespace(request.spec(), wanted.namespace, settings)
    except InvalidInput as error:
        field = "metadata.name" if error.field == "name" else f"spec.{_in_object(error.field)}"
        raise InvalidInput(field, error.rule) from None


def _in_its_namespace(spec: JobSpec, namespace: str, settings: KubernetesSettings) -> JobSpec:
    for field, named in named_namespaces(spec):
        if named != namespace:
            raise InvalidInput(field, f"must be {namespace}: pods run in the namespace of their TrainingJob")
    if namespace != settings.namespace:
        spec = run_in(spec, namespace)
    broken = broken_pod_rule(spec, settings)
    if broken is not None:
        raise InvalidInput(*broken)
    return spec


def changes(wanted: TrainingJob, spec: JobSpec, job: Job) -> list[Change]:
    """What to ask of the job, where its object was changed since it was looked at."""
    if not wanted.changed or job.state.terminal:
        return []
    asked = []
    if spec.priority != job.priority:
        asked.append(Change(IntentKind.PRIORITY, priority=spec.priority))
    if (spec.min_workers, spec.max_workers) != (job.min_workers, job.max_workers):
        asked.append(Change(IntentKind.SCALE, min_workers=spec.min_workers, max_workers=spec.max_workers))
    if wanted.suspend != _is_suspended(job):
        asked.append(Change(IntentKind.SUSPEND if wanted.suspend else IntentKind.RESUME))
    return asked


def as_asked(job: Job, requests: Iterable[Intent]) -> Job:
    """The job once these requests, in their order, are carried out; those about other jobs do not count."""
    for request in requests if not job.state.terminal else ():
        if request.job_id == job.id:
            job = _once_done(job, request)
    return job


def _once_done(job: Job, request: Intent) -> Job:
    match request.kind:
        case IntentKind.PRIORITY if request.priority is not None:
            return replace(job, priority=request.priority)
        case IntentKind.SCALE:
            low = job.min_workers if request.min_workers is None else request.min_workers
            high = job.max_workers if request.max_workers is None else request.max_workers
            return replace(job, min_workers=low, max_workers=high)
        case IntentKind.SUSPEND:
            return replace(job, state=JobState.SUSPENDED)
        case IntentKind.RESUME if _is_suspended(job):
            return replace(job, state=JobState.QUEUED)
        case _:
            return job


def _is_suspended(job: Job) -> bool:
    """Whether it waits until it is resumed, or will once it has stopped."""
    stopping = job.state is JobState.STOPPING and job.stop_reason is StopReason.SUSPENDED
    return job.state is JobState.SUSPENDED or stopping


def frozen_fields(spec: JobSpec, job: Job) -> list[str]:
    """Names of fields of the object that differ from the job's, and that a job cannot change."""
    before = replace(
        job.spec, priority=spec.priority, min_workers=spec.min_workers, max_workers=spec.max_workers, name=spec.name
    )
    own = [each.name for each in fields(spec) if getattr(spec, each.name) != getattr(before, each.name)]
    shape = [
        each.name for each in fields(spec.shape) if getattr(spec.shape, each.name) != getattr(job.shape, each.name)
    ]
    named = dict.fromkeys("preemptible" if name == "surplus_preemptible" else name for name in own if name != "shape")
    return [*map(_in_object, named), *(_OF_SHAPE[name] for name in shape)]


def status_of(
    wanted: TrainingJob, job: Job, message: str, now: float, ignored: list[str], refused: Refusal | None = None
) -> Document:
    """The object's status while it has a job.

    `ignored` are changed fields that came too late, `refused` says why no change of the object was taken.
    """
    reason = job.wait_reason if job.state is JobState.QUEUED else job.stop_reason
    status: Document = {
        "phase": PHASES[job.state],
        "jobId": job.id,
        "queue": job.spec.queue or None,
        "workers": len(job.wanted_workers),
        "fixedWorkers": len(job.fixed_workers) if job.spec.fixed is not None else None,
        "generation": job.generation,
        "attempt": job.attempt,
        "priority": job.priority,
        "minWorkers": job.min_workers,
        "maxWorkers": job.max_workers,
        "reason": reason.value if reason is not None else None,
        "message": message,
        "startTime": _written(job.started_at),
        "completionTime": _written(job.finished_at),
        "observedGeneration": wanted.generation,
    }
    accepted = (True, "Accepted", "is a job")
    if refused is not None:
        accepted = (False, refused.reason, f"{refused.error}; the job goes on as it was")
    elif ignored:
        told = f"{', '.join(ignored)}: cannot be changed after creation: delete the object and create another"
        accepted = (False, "FieldsIgnored", told)
    conditions = {
        "Accepted": accepted,
        "Running": (job.state is JobState.RUNNING, PHASES[job.state], message),
        "Complete": (job.state is JobState.SUCCEEDED, PHASES[job.state], message),
        "Failed": (job.state is JobState.FAILED, PHASES[job.state], message),
    }
    status["conditions"] = [_condition(wanted, kind, *said, now) for kind, said in conditions.items()]
    return status


def refusal(wanted: TrainingJob, refused: Refusal, now: float) -> Document:
    """The status of an object that is no job."""
    return _no_job(wanted, REFUSED, refused.reason, str(refused.error), now)


def not_yet(wanted: TrainingJob, reason: str, error: str, now: float) -> Document:
    """The status of an object that becomes a job once its queue takes one."""
    return _no_job(wanted, WAITING, reason, error, now)


def _no_job(wanted: TrainingJob, phase: str, reason: str, message: str, now: float) -> Document:
    return {
        "phase": phase,
        "reason": reason,
        "message": message,
        "observedGeneration": wanted.generation,
        "conditions": [_condition(wanted, "Accepted", False, reason, message, now)],
    }


def differs(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the new status says anything that the old one does not; of messages, only why a queue refuses counts."""
    return _facts(old) != _facts(new)


def _facts(status: Mapping[str, Any]) -> Document:
    facts = {name: value for name, value in status.items() if value is not None and name != "message"}
    facts["conditions"] = {
        each["type"]: (each["status"], each["reason"], each["message"] if each["reason"] == QUEUE_REFUSES else "")
        for each in status.get("conditions", ())
    }
    return facts


def _condition(wanted: TrainingJob, kind: str, holds: bool, reason: str, message: str, now: float) -> Document:
    value = "True" if holds else "False"
    before = next((each for each in wanted.status.get("conditions", ()) if each["type"] == kind), None)
    since = before["lastTransitionTime"] if before is not None and before["status"] == value else _written(now)
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": wanted.generation,
    }


def _written(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_OF_SHAPE = {
    "slots": "slotsPerWorker",
    "cpus": "cpusPerWorker",
    "memory_mib": "memoryMibPerWorker",
    "node_selector": "nodeSelector",
    "gpu_type": "gpuType",
    "oversell": "oversell",
}


#: Fields that are objects themselves: names in an object to names in a request.
_INNER = {
    field: {field_name(name): name for name in model.model_fields}
    for field, model in (("data", DataRequest), ("fixed", FixedRequest))
}


def _in_object(field: str) -> str:
    """A field of a request, as its object calls it."""
    parts = field.split(".")
    names = {request: name for name, request in request_fields()}
    if parts[0] in _INNER:
        parts[1:2] = map(field_name, parts[1:2])
    return ".".join([names.get(parts[0], parts[0]), *parts[1:]])
