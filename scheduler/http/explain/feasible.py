"""Whether a job could ever start on the cluster as it is, if it were empty."""

from scheduler.model.job import JobSpec
from scheduler.model.node import CPU_EPSILON, Node
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.capacity.request import fits_empty


def warnings_for(spec: JobSpec, world: World | None) -> list[str]:
    """Why the job cannot start before the cluster changes, in one line; None if it can, or nothing is known."""
    if world is None or not world.nodes:
        return []
    nodes = list(world.nodes.values())
    for shape in (spec.shape, *([spec.fixed.shape] if spec.fixed is not None else [])):
        if not any(node.suits(shape) for node in nodes):
            return [f"no node has {wishes(shape)}: the job waits until such a node is added"]
    suitable = [node for node in nodes if node.suits(spec.shape)]
    for shape in (spec.shape, *([spec.fixed.shape] if spec.fixed is not None else [])):
        worker = too_large(shape, [node for node in nodes if node.suits(shape)])
        if worker:
            return [f"{worker}: the job waits until a larger node is added"]
    fits = most_workers(spec, suitable)
    if fits < spec.min_workers:
        which = "the whole cluster" if len(suitable) == len(nodes) else "all suitable nodes"
        slots = sum(node.slots for node in suitable)
        would = f"{which} ({slots} slots) could hold {fits} when empty"
        needed = needs(spec, spec.min_workers)
        return [f"the job needs {needed}; {would}: it waits until nodes are added, or its minimum is lowered"]
    if spec.fixed is not None and not fits_empty(
        nodes, (spec.shape, spec.min_workers), (spec.fixed.shape, spec.fixed.replicas)
    ):
        together = f"{needs(spec, spec.min_workers)}{needs_fixed(spec)}"
        return [
            f"the job needs {together}, and the whole cluster cannot hold both, even empty: it waits for more nodes"
        ]
    return _unavailable(spec, suitable)


def _unavailable(spec: JobSpec, suitable: list[Node]) -> list[str]:
    usable = most_workers(spec, [node.reduced() for node in suitable if node.schedulable])
    if usable >= spec.min_workers:
        return []
    away = sorted(node.name for node in suitable if not node.schedulable)
    slots = [f"slot {each.slot} of {node.name}" for node in suitable if node.schedulable for each in node.closed_slots]
    told = [*away, *slots]
    named = ", ".join(told[:5]) + (", …" if len(told) > 5 else "")
    what = "nodes" if not slots else "nodes and slots" if away else "slots"
    return [f"the job waits while these {what} are closed to new workers: {named}"]


def most_workers(spec: JobSpec, nodes: list[Node]) -> int:
    """Workers that the nodes would hold if they were empty, all on slots of their own or all on shared ones."""
    own = sum(node.fits_empty(spec.shape) for node in nodes)
    return max(own, sum(node.fits_shared(spec.shape) for node in nodes))


def too_large(shape: WorkerShape, nodes: list[Node]) -> str:
    """Resources of one worker that no node has; empty if it fits on one of them, or there are none."""
    if not nodes or any(node.fits_empty(shape) or node.fits_shared(shape) for node in nodes):
        return ""
    takes: list[tuple[float, float, str]] = [
        (shape.slots, max(node.slots for node in nodes), "slot" if shape.slots == 1 else "slots"),
        (shape.cpus, max(node.cpus for node in nodes), "CPU" if shape.cpus == 1 else "CPUs"),
        (shape.memory_mib, max(node.memory_mib for node in nodes), "MiB"),
    ]
    beyond = [
        f"{taken:.12g} {unit} (no node has more than {most:.12g})"
        for taken, most, unit in takes
        if taken > most + CPU_EPSILON
    ]
    return f"a worker needs {' and '.join(beyond) or f'{_each(shape)} (no node has all of these)'}"


def wishes(shape: WorkerShape) -> str:
    """Text: the labels and GPU type that a node must have."""
    wanted = [f"label {key}={value}" for key, value in shape.node_selector]
    if shape.gpu_type is not None:
        wanted.append(f"GPU type {shape.gpu_type}")
    return " and ".join(wanted)


def needs(spec: JobSpec, workers: int) -> str:
    """Text: the resources that `workers` workers take."""
    return f"{workers} worker{'s' if workers > 1 else ''} of {_each(spec.shape)} each"


def needs_fixed(spec: JobSpec) -> str:
    """Text: the resources that the job's fixed group takes besides; empty if it has none."""
    if spec.fixed is None:
        return ""
    count = spec.fixed.replicas
    return f" and, at the same time, {count} fixed worker{'s' if count > 1 else ''} of {_each(spec.fixed.shape)} each"


def _each(shape: WorkerShape) -> str:
    each = [f"{shape.slots} slot{'' if shape.slots == 1 else 's'}"]
    if shape.cpus > 0:
        each.append(f"{shape.cpus:g} CPU{'' if shape.cpus == 1 else 's'}")
    if shape.memory_mib > 0:
        each.append(f"{shape.memory_mib} MiB")
    return ", ".join(each)
