"""Jobs barred from certain nodes: the planner treats these as not feasible for the shape of their workers."""

from dataclasses import dataclass, fields, replace

from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.shape import WorkerShape


@dataclass(frozen=True, slots=True)
class BarredShape(WorkerShape):
    """Needs of a worker that gets no slots of its own on certain nodes."""

    barred: frozenset[NodeName] = frozenset()


def barred_of(shape: WorkerShape) -> frozenset[NodeName]:
    """Nodes from which workers of this shape are barred."""
    return shape.barred if isinstance(shape, BarredShape) else frozenset()


def barred_from(job: Job, names: frozenset[NodeName], *, typed: bool = True) -> Job:
    """The job, and its fixed group, barred from these nodes, and from those that it was barred from before.

    Without `typed`, workers that name a GPU type are not.
    """
    spec = job.spec
    if typed or spec.shape.gpu_type is None:
        spec = replace(spec, shape=_barred(spec.shape, names))
    if spec.fixed is not None and (typed or spec.fixed.shape.gpu_type is None):
        spec = replace(spec, fixed=replace(spec.fixed, shape=_barred(spec.fixed.shape, names)))
    return replace(job, spec=spec)


def _barred(shape: WorkerShape, names: frozenset[NodeName]) -> BarredShape:
    needs = {field.name: getattr(shape, field.name) for field in fields(WorkerShape)}
    return BarredShape(**needs, barred=barred_of(shape) | names)
