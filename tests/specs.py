"""Specs of jobs in the words that all builders of worlds take: `workers=(2, 8), slots_per_worker=2`."""

from typing import Any

from scheduler.model.job import JobSpec
from scheduler.model.shape import WorkerShape


def spec_of(
    name: str,
    *,
    workers: int | tuple[int, int] = 1,
    slots_per_worker: int = 1,
    cpus: float = 0.0,
    memory_mib: int = 0,
    selector: dict[str, str] | None = None,
    gpu_type: str | None = None,
    oversell: bool = False,
    **fields: Any,
) -> JobSpec:
    """`workers` is a fixed number or (min, max); `fields` are further ones of `JobSpec`."""
    low, high = (workers, workers) if isinstance(workers, int) else workers
    shape = WorkerShape(
        slots=slots_per_worker,
        cpus=cpus,
        memory_mib=memory_mib,
        node_selector=tuple(sorted((selector or {}).items())),
        gpu_type=gpu_type,
        oversell=oversell,
    )
    return JobSpec(name, ("train",), min_workers=low, max_workers=high, shape=shape, **fields)
