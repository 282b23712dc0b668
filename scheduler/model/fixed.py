"""A job's fixed group: workers beside those that are scaled, such as parameter servers or a master."""

from dataclasses import dataclass

from scheduler.model.shape import WorkerShape


@dataclass(frozen=True, slots=True)
class FixedGroup:
    """What a job's fixed group is made of. It starts before the other workers, stops after them, and never changes."""

    #: How many fixed workers, all of them or none.
    replicas: int
    command: tuple[str, ...]
    #: Laid over the job's own variables.
    env: tuple[tuple[str, str], ...] = ()
    #: What each of them needs; no slots for those that use no accelerator.
    shape: WorkerShape = WorkerShape(slots=0)
    #: As of the job: canonical JSON, see `model.pod_template`.
    pod_template: str | None = None
