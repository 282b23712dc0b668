"""Requests of users: every field with its limits; unknown fields are refused."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, StringConstraints, ValidationError

from scheduler.bounds import SHARDS
from scheduler.config.numbers import (
    Cpus,
    Duration,
    Grace,
    Heartbeat,
    MemoryMib,
    Moment,
    Priority,
    Slots,
    SlotsPerWorker,
    Workers,
)
from scheduler.errors import InvalidInput
from scheduler.http.errors import invalid_input
from scheduler.http.json import parse_json, with_all_digits
from scheduler.http.schemas.fields import (
    PLAIN,
    PRINTABLE,
    SHELL,
    AnyWorkdir,
    BookingName,
    BrokenRule,
    ClientKey,
    Command,
    ExportedName,
    GpuType,
    Labels,
    Line,
    OwnerName,
    Preemptible,
    QueuePath,
    Request,
    SpeedAt,
    Text,
    VariableName,
    Workdir,
)
from scheduler.model import horovod, torchrun
from scheduler.model.data import DataSet
from scheduler.model.export import BYTES_MAX, VARIABLES_MAX, Export, is_schedulers
from scheduler.model.fixed import FixedGroup
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.job_fields import JOB_FIELDS
from scheduler.model.pod_template import broken_template_rule, canonical_template
from scheduler.model.queue import ROOT
from scheduler.model.shape import shape_of

#: Limit on positions: many languages read larger numbers in JSON as floats.
POSITION_MAX = 2**53
#: Most workers of a fixed group.
REPLICAS_MAX = 256


class FixedRequest(Request):
    """Workers of a job beside the scaled ones: parameter servers, a master. Resources are per worker."""

    #: Number of fixed workers.
    replicas: int = Field(ge=1, le=REPLICAS_MAX)
    #: Program and arguments; null: those of the job.
    command: Command | None = None
    #: Variables, laid over those of the job.
    env: Annotated[dict[VariableName, Text], Field(max_length=1024)] = Field(default_factory=dict)
    #: Slots of each, all on one node; 0: it uses no accelerator.
    slots_per_worker: Slots = 0
    cpus_per_worker: Cpus = 0.0
    memory_mib_per_worker: MemoryMib = 0
    node_selector: Labels = Field(default_factory=dict)
    gpu_type: GpuType | None = None
    #: Kubernetes: the pod template of fixed workers; null: that of the job.
    pod_template: dict[str, Any] | None = None

    def broken_rule(self) -> BrokenRule | None:
        return None if self.pod_template is None else broken_template_rule(self.pod_template)

    def group(self, job: "JobRequest") -> FixedGroup:
        template = job.pod_template if self.pod_template is None else self.pod_template
        return FixedGroup(
            replicas=self.replicas,
            command=tuple(self.command or job.command),
            env=_pairs(self.env),
            shape=shape_of(self),
            pod_template=None if template is None else canonical_template(template),
        )


class DataRequest(Request):
    """A data set that workers take in shards: shards times epochs make 1,000,000,000 at most."""

    #: Number of shards; the script defines the content of a shard.
    shards: int = Field(ge=1, le=int(SHARDS.high))
    #: Number of passes over all shards.
    epochs: int = Field(default=1, ge=1, le=10**6)
    #: Whether each epoch has its own order, derived from the seed.
    shuffle: bool = False
    #: Seed of the order of shuffled epochs.
    seed: int = Field(default=0, ge=0, le=2**53)
    #: How long a reader may be silent before it loses its shards.
    lease_seconds: float = Field(default=60.0, ge=1, le=86400)
    #: Failures in an epoch after which a shard is set aside.
    max_attempts: int = Field(default=3, ge=1, le=100)

    def broken_rule(self) -> BrokenRule | None:
        total = self.shards * self.epochs
        if SHARDS.admits(total):
            return None
        return "shards", f"{self.shards:,} in {self.epochs:,} epochs are {total:,}, more than {SHARDS.high:,}"

    def data(self) -> DataSet:
        return DataSet(**self.model_dump())


class ExportRequest(Request):
    """The submitter's environment for a job. Only workers on the submitter's machine get it, none in pods."""

    #: Variables; the job's own `env` overrides them.
    env: Annotated[dict[ExportedName, Text], Field(max_length=VARIABLES_MAX)] = Field(default_factory=dict)
    #: Directory of a job that names none, or the absolute path of the relative one that it names.
    workdir: Workdir | None = None
    #: The submitter's machine, if it may differ from the daemon's.
    host: Line | None = None

    def broken_rule(self) -> BrokenRule | None:
        for name in self.env:
            if is_schedulers(name):
                return f"env.{name}", "must not be set: variables that start with SCHED_ are reserved"
        size = sum(len(text.encode(errors="surrogatepass")) for item in self.env.items() for text in item)
        if size > BYTES_MAX:
            return "env", f"has {size // 1024} KiB, more than {BYTES_MAX // 1024} KiB: name fewer variables"
        return None

    def export(self) -> Export:
        return Export(env=_pairs(self.env), workdir=self.workdir, host=self.host)


def _describe(schema: dict[str, Any]) -> None:
    for name, field in schema["properties"].items():
        field["description"] = JOB_FIELDS[name].description


class JobRequest(Request):
    """A job to run."""

    # `JOB_FIELDS` says what each field means.
    model_config = ConfigDict(json_schema_extra=_describe)

    command: Command
    name: Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=PLAIN), PRINTABLE] | None = None
    user: OwnerName = ""
    env: Annotated[dict[VariableName, Text], Field(max_length=1024)] = Field(default_factory=dict)
    workdir: AnyWorkdir | None = None
    labels: Labels = Field(default_factory=dict)
    runtime: Literal["command", "elastic", "torchrun", "horovod"] = "command"
    priority: Priority = 0
    workers: Workers | None = None
    min_workers: Workers | None = None
    max_workers: Workers | None = None
    slots_per_worker: SlotsPerWorker = 1
    cpus_per_worker: Cpus = 0.0
    memory_mib_per_worker: MemoryMib = 0
    node_selector: Labels = Field(default_factory=dict)
    gpu_type: GpuType | None = None
    time_limit_seconds: Duration | None = None
    max_retries: int = Field(default=3, ge=0, le=10_000)
    grace_seconds: Grace = 30.0
    heartbeat_seconds: Heartbeat | None = None
    preemptible: Preemptible = True
    preferred_workers: Workers | None = None
    expected_seconds: Duration | None = None
    speedup: Annotated[list[SpeedAt], Field(max_length=64)] = Field(default_factory=list)
    oversell: bool = False
    booking: BookingName | None = None
    queue: QueuePath | None = None
    client_key: ClientKey | None = None
    pod_template: dict[str, Any] | None = None
    data: DataRequest | None = None
    fixed: FixedRequest | None = None
    export: ExportRequest | None = None

    def broken_rule(self) -> BrokenRule | None:
        if self.workers is not None and (self.min_workers is not None or self.max_workers is not None):
            return "workers", "cannot be combined with min_workers or max_workers"
        low, high = self.bounds
        if low > high:
            return "min_workers", f"{low} exceeds max_workers {high}"
        if self.preferred_workers is not None and not low <= self.preferred_workers <= high:
            return (
                "preferred_workers",
                f"{self.preferred_workers} is not between min_workers {low} and max_workers {high}",
            )
        sizes = [workers for workers, _ in self.speedup]
        if any(size % 1 for size in sizes) or sizes != sorted(set(sizes)):
            return "speedup", "must be a list of pairs [workers, speed] with integer, ascending numbers of workers"
        if self.runtime == "torchrun" and (wrong := torchrun.broken_command_rule(self.command)) is not None:
            return "command", wrong
        if self.runtime == "horovod" and (wrong := horovod.broken_command_rule(self.command)) is not None:
            return "command", wrong
        broken = None if self.pod_template is None else broken_template_rule(self.pod_template)
        return broken or self._broken_fixed() or self._broken_export() or self._broken_data()

    def _broken_data(self) -> BrokenRule | None:
        broken = None if self.data is None else self.data.broken_rule()
        return None if broken is None else (f"data.{broken[0]}", broken[1])

    def _broken_export(self) -> BrokenRule | None:
        given = self.export is not None and self.export.workdir is not None
        if self.workdir is not None and not self.workdir.startswith("/") and not given:
            return "workdir", f"must be an absolute path, not {self.workdir[:100]!r}"
        broken = None if self.export is None else self.export.broken_rule()
        return None if broken is None else (f"export.{broken[0]}", broken[1])

    def _broken_fixed(self) -> BrokenRule | None:
        driven = self.runtime == "horovod"
        if driven and self.fixed is not None:
            return "fixed", "cannot be combined with runtime horovod, whose driver is the fixed group"
        if self.fixed is None and not driven:
            return None
        group = "runtime horovod" if driven else "fixed"
        if self.oversell:
            return "oversell", f"cannot be combined with {group}: a job with a fixed group does not share slots"
        if self.booking is not None:
            return "booking", f"cannot be combined with {group}: the workers of a booking must all be alike"
        if self.fixed is None:
            return None
        broken = self.fixed.broken_rule()
        return None if broken is None else (f"fixed.{broken[0]}", broken[1])

    @property
    def bounds(self) -> tuple[int, int]:
        """Fewest and most workers."""
        if self.workers is not None:
            return self.workers, self.workers
        low = self.min_workers if self.min_workers is not None else 1
        return low, self.max_workers if self.max_workers is not None else low

    def spec(self) -> JobSpec:
        low, high = self.bounds
        template = None if self.pod_template is None else canonical_template(self.pod_template)
        return JobSpec(
            name=self.name or _name_of(self.command),
            command=tuple(self.command),
            user=self.user,
            env=_pairs(self.env),
            workdir=self.workdir,
            labels=_pairs(self.labels),
            runtime=Runtime(self.runtime),
            priority=self.priority,
            min_workers=low,
            max_workers=high,
            shape=shape_of(self, oversell=self.oversell),
            time_limit_seconds=self.time_limit_seconds,
            max_retries=self.max_retries,
            grace_seconds=self.grace_seconds,
            heartbeat_seconds=self.heartbeat_seconds,
            preemptible=self.preemptible is True,
            surplus_preemptible=self.preemptible == "surplus",
            preferred_workers=self.preferred_workers,
            expected_seconds=self.expected_seconds,
            speedup=tuple((int(workers), speed) for workers, speed in self.speedup),
            booking=self.booking,
            queue=ROOT if self.queue is None else self.queue,
            client_key=self.client_key,
            pod_template=template,
            data=None if self.data is None else self.data.data(),
            fixed=self._fixed_group(template),
            export=None if self.export is None else self.export.export(),
        )

    def _fixed_group(self, template: str | None) -> FixedGroup | None:
        if self.runtime == "horovod":
            return horovod.driver_group(self.command, _pairs(self.node_selector), template)
        return None if self.fixed is None else self.fixed.group(self)


class BatchRequest(Request):
    """Jobs that are stored together or not at all. Describes the body; `batch` reads it."""

    #: The jobs, stored in this order.
    jobs: Annotated[list[JobRequest], Field(min_length=1)]


class ChangeRequest(Request):
    """New priority or bounds of a job; omitted fields stay."""

    #: New priority; null: unchanged.
    priority: Priority | None = None
    #: New minimum; null: unchanged.
    min_workers: Workers | None = None
    #: New maximum; null: unchanged.
    max_workers: Workers | None = None

    def broken_rule(self) -> BrokenRule | None:
        if self.priority is None and self.min_workers is None and self.max_workers is None:
            return "body", "must contain at least one of priority, min_workers and max_workers"
        return None


class RecurringRequest(Request):
    """A job that is submitted repeatedly."""

    #: When it runs: minute, hour, day of month, month, day of week.
    cron: Annotated[str, StringConstraints(min_length=9, max_length=200, pattern=PLAIN), PRINTABLE]
    #: Zone of these times.
    timezone: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_+/-]+$")] = "UTC"
    #: The job that each run submits; its own key is that of each run, and cannot be given.
    job: JobRequest
    #: Key of the request: one that is sent again under the same key creates no second recurring job.
    client_key: ClientKey | None = None

    def broken_rule(self) -> BrokenRule | None:
        broken = self.job.broken_rule()
        return None if broken is None else (f"job.{broken[0]}", broken[1])


class BookingRequest(Request):
    """Capacity to be promised for a window of time."""

    #: Its name, which jobs give as `booking`.
    name: BookingName
    #: When its window begins; unix seconds; null: now.
    start_at: Moment | None = None
    #: Length of the window.
    duration_seconds: Duration
    #: Number of slots; null: `nodes` is given.
    slots: int | None = Field(default=None, ge=1, le=10**9)
    #: Number of whole nodes, in place of `slots`.
    nodes: int | None = Field(default=None, ge=1, le=10**6)
    #: Slots that have to be together on a node: the size of one worker of the jobs that use the booking.
    slots_per_worker: SlotsPerWorker = 1
    cpus_per_worker: Cpus = 0.0
    memory_mib_per_worker: MemoryMib = 0
    node_selector: Labels = Field(default_factory=dict)
    gpu_type: GpuType | None = None
    #: Only for jobs of this user.
    user: OwnerName | None = None
    #: Only for jobs of at least this priority.
    priority_min: Priority | None = None

    def broken_rule(self) -> BrokenRule | None:
        if (self.slots is None) == (self.nodes is None):
            return "slots", "either slots or nodes must be given"
        if self.nodes is not None and self.slots_per_worker != 1:
            return "slots_per_worker", "cannot be combined with nodes, which are booked whole"
        if self.slots is not None and self.slots % self.slots_per_worker:
            return "slots", f"{self.slots} is not a multiple of slots_per_worker {self.slots_per_worker}"
        return None


Model = TypeVar("Model", bound=Request)


def parse_request(model: type[Model], body: bytes) -> Model:
    """Parse the request in a body. Raises `InvalidInput` naming the field and the rule."""
    value = parse_json(body)
    try:
        return check_request(model, value)
    except InvalidInput:
        with suppress(ValueError):  # a huge number breaks the rule of its bound, and is shown as it was written
            check_request(model, with_all_digits(body))
        raise


def check_request(model: type[Model], value: Any, prefix: Sequence[str | int] = ()) -> Model:
    """Validate a parsed value as a request. `prefix`: its place in the body. Raises `InvalidInput`."""
    try:
        request = model.model_validate(value)
    except ValidationError as error:
        raise invalid_input(error, prefix) from None
    broken = request.broken_rule()
    if broken is not None:
        raise InvalidInput(".".join([*map(str, prefix), broken[0]]), broken[1])
    return request


def _pairs(mapping: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(mapping.items()))


def _name_of(command: list[str]) -> str:
    words = command[2].split() if tuple(command[:2]) == SHELL and len(command) > 2 else command
    plain = "".join(c for c in words[0].rpartition("/")[2] if c.isprintable()) if words else ""
    return plain[:128] or "job"
