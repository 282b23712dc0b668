"""From the name of a workload to the workload: which format a file has, which generator is meant."""

import os
from dataclasses import dataclass
from pathlib import Path

from scheduler.errors import UserError
from scheduler.simulate import generate, job_rows
from scheduler.simulate.elasticflow_rows import elasticflow_workload
from scheduler.simulate.extras import needs
from scheduler.simulate.speed import Linear, Speedup
from scheduler.simulate.table import header_of, read_text
from scheduler.simulate.workload import Workload

_FORMATS = (
    "needs columns name,at_seconds,work_seconds, or AdaptDL's name,time,application,num_replicas,batch_size, "
    "or ElasticFlow's job_id,submission_time,num_gpu,duration"
)


@dataclass(frozen=True, slots=True)
class Source:
    """What reading may need beside the file."""

    #: Directory of measured profiles.
    profiles: Path | None = None
    #: Whether workers choose their batch sizes.
    tuned: bool = False
    #: For jobs of which the workload does not tell it.
    speedup: Speedup = Linear()
    #: For generated ones.
    seed: int = 0


def read_workload(name: str, source: Source) -> Workload:
    """The workload of a file, or a generated one (`poisson`, `kueue`, with `:key=value,...`). Raises `UserError`."""
    kind, _, parameters = name.partition(":")
    if kind in generate.GENERATORS and not os.path.exists(name):
        return generate.generated(kind, parameters, source.speedup, source.seed)
    path = Path(name)
    text = read_text(path)
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        return Workload.of(path.stem, job_rows.from_yaml(path, text, source.speedup))
    columns = set(header_of(text))
    if "work_seconds" in columns or "at_seconds" in columns:
        return Workload.of(path.stem, job_rows.from_csv(path, text, source.speedup))
    if {"application", "batch_size"} <= columns:
        with needs("scipy"):
            from scheduler.simulate.adaptdl_rows import adaptdl_workload
        return adaptdl_workload(path, text, source.profiles, tuned=source.tuned)
    if "num_gpu" in columns or "submission_time" in columns:
        return elasticflow_workload(path, text, source.speedup)
    if not text.strip():
        raise UserError(f"{path}: the file is empty")
    raise UserError(f"{path}:1: unknown columns: {_FORMATS}")
