"""A worker that no job has."""

from dataclasses import dataclass

from scheduler.model.ids import JobId, NodeName, WorkerId


@dataclass(frozen=True, slots=True)
class Stray:
    """A worker seen alive on a node that no job has (any more). It holds its slots until it is confirmed gone."""

    id: WorkerId
    job_id: JobId
    node: NodeName
    slot_ids: tuple[int, ...]
    cpus: float = 0.0
    memory_mib: int = 0
    #: Whether it shares its slots.
    shared: bool = False
    #: Of the job that it was started for.
    nonce: str = ""
