"""Workloads in the simulator's own format: a CSV file with a column per field, or YAML with a list of `jobs`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from scheduler.config.numbers import Cpus, Duration, MemoryMib, Priority, Seconds, SlotsPerWorker, Workers
from scheduler.errors import InvalidInput, UserError
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.observation import SlotLoad
from scheduler.model.queue_tree import PATH_LENGTH_MAX, PATH_PATTERN
from scheduler.model.shape import shape_of
from scheduler.simulate.pairs import parse_pairs
from scheduler.simulate.speed import Speedup, parse_speedup
from scheduler.simulate.table import Row, parse_csv, validated
from scheduler.simulate.work import CurveWork
from scheduler.simulate.workload import Submission
from scheduler.simulate.yaml_items import read_items

Name = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
Share = Annotated[float, Field(ge=0, le=1)]
Labels = Annotated[dict[str, str], BeforeValidator(parse_pairs)]

#: What a simulated job is launched with; nobody runs it.
COMMAND = ("simulated",)


def _known_curve(text: Any) -> Any:
    try:
        parse_speedup(str(text))
    except InvalidInput as error:
        raise ValueError(error.rule) from None
    return str(text)


class JobRow(Row):
    """One job; fields have the names that job files use."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    #: Seconds from the beginning to its submission.
    at_seconds: Seconds
    #: What one worker alone would need for all of it.
    work_seconds: Annotated[float, Field(ge=1e-6, le=10**12)]
    min_workers: Workers = 1
    #: Equal to `min_workers` if not given.
    max_workers: Workers | None = None
    preferred_workers: Workers | None = None
    #: `linear`, `amdahl SHARE`, or points such as `1=1 2=1.9 4=3.4`; None: as all jobs without one.
    speed: Annotated[str, BeforeValidator(_known_curve)] | None = None
    #: How long the job stands still at each change of its membership.
    resize_seconds: Seconds = 0.0
    #: How long a worker that is asked to leave still holds its slots.
    leave_seconds: Seconds = 0.0
    slots_per_worker: SlotsPerWorker = 1
    cpus_per_worker: Cpus = 0.0
    memory_mib_per_worker: MemoryMib = 0
    gpu_type: Name | None = None
    node_selector: Labels = Field(default_factory=dict)
    priority: Priority = 0
    user: Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    #: Path of a queue of `--queues`.
    queue: Annotated[str, StringConstraints(max_length=PATH_LENGTH_MAX, pattern=f"{PATH_PATTERN}|^$")] = ""
    preemptible: bool | Literal["surplus"] = True
    oversell: bool = False
    #: Speed of its workers on slots that they share, in relation to slots of their own.
    shared_speed: float = Field(default=1.0, ge=1e-6, le=1)
    #: Share of the memory and of the time of each of its slots that a worker uses; None: nobody knows.
    slot_memory: Share | None = None
    slot_utilization: Share | None = None
    time_limit_seconds: Duration | None = None
    expected_seconds: Duration | None = None

    @model_validator(mode="after")
    def _bounds_agree(self) -> "JobRow":
        if self.min_workers > self.most_workers:
            raise ValueError(f"min_workers {self.min_workers} exceeds max_workers {self.most_workers}")
        if not self.min_workers <= (self.preferred_workers or self.min_workers) <= self.most_workers:
            bounds = f"{self.min_workers} and {self.most_workers}"
            raise ValueError(f"preferred_workers {self.preferred_workers} is not between {bounds}")
        return self

    @property
    def most_workers(self) -> int:
        return self.max_workers or self.min_workers

    def submission(self, speedup: Speedup) -> Submission:
        """`speedup`: of jobs that name none."""
        spec = JobSpec(
            name=self.name,
            command=COMMAND,
            user=self.user,
            runtime=Runtime.ELASTIC,
            priority=self.priority,
            min_workers=self.min_workers,
            max_workers=self.most_workers,
            shape=shape_of(self, oversell=self.oversell),
            time_limit_seconds=self.time_limit_seconds,
            queue=self.queue,
            preemptible=self.preemptible is True,
            surplus_preemptible=self.preemptible == "surplus",
            preferred_workers=self.preferred_workers,
            expected_seconds=self.expected_seconds,
        )
        curve = speedup if self.speed is None else parse_speedup(self.speed)
        work = CurveWork.lasting(self.work_seconds, 1, curve)
        load = SlotLoad(self.slot_memory, self.slot_utilization)
        return Submission(self.at_seconds, spec, work, self.resize_seconds, self.shared_speed, load, self.leave_seconds)


def from_csv(path: Path, text: str, speedup: Speedup) -> list[Submission]:
    """The jobs of a CSV file; `speedup` is that of jobs that name none. Raises `UserError`."""
    return _submissions(path, parse_csv(path, text, JobRow), speedup)


def from_yaml(path: Path, text: str, speedup: Speedup) -> list[Submission]:
    """The jobs of a YAML file, as `from_csv`. Raises `UserError`."""
    items = read_items(path, text, "jobs")
    rows = [(each.line, validated(JobRow, each.values, each.place, strict=True)) for each in items]
    return _submissions(path, rows, speedup)


def _submissions(path: Path, rows: list[tuple[int, JobRow]], speedup: Speedup) -> list[Submission]:
    refuse_repeated(path, [(line, row.name) for line, row in rows], "name")
    return [row.submission(speedup) for _, row in rows]


def refuse_repeated(path: Path, names: list[tuple[int, str]], field: str) -> None:
    """Raise `UserError` for the first name that stands there twice."""
    seen: dict[str, int] = {}
    for line, name in names:
        if name in seen:
            raise UserError(f"{path}:{line}: {field}: {name!r} is a duplicate, first given on line {seen[name]}")
        seen[name] = line


def resizable(name: str, max_workers: int, wanted: int) -> JobSpec:
    """A job of one to `max_workers` workers, which has the size `wanted` where sizes are fixed."""
    return JobSpec(
        name=name,
        command=COMMAND,
        runtime=Runtime.ELASTIC,
        min_workers=1,
        max_workers=max_workers,
        preferred_workers=min(wanted, max_workers),
    )
