"""The published host list of a job's generation: what discover_hosts answers."""

from dataclasses import dataclass

from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState


@dataclass(frozen=True, slots=True)
class Member:
    id: WorkerId
    rank: int
    host: str
    slots: int
    endpoint: str | None
    #: Where it answers the others.
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class HostList:
    """Members of one generation in rank order, oldest first."""

    job_id: JobId
    generation: int
    members: tuple[Member, ...]

    @property
    def rendezvous(self) -> str | None:
        """Endpoint of rank 0."""
        return self.members[0].endpoint if self.members else None

    def text(self) -> str:
        """One `host:slots` per line, oldest host first, newline at the end: Horovod's discovery format."""
        slots: dict[str, int] = {}
        for member in self.members:
            slots[member.host] = slots.get(member.host, 0) + member.slots
        return "".join(f"{host}:{count}\n" for host, count in slots.items())


def host_list(job: Job) -> HostList | None:
    """The list that is published for the job now.

    None where there is none: queued, stopping, ended, or a member is gone and no membership of at least the
    minimum could be published since.
    """
    if job.state not in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING) or job.published_size == 0:
        return None
    members = job.members
    if len(members) != job.published_size:
        return None
    return HostList(
        job.id,
        job.generation,
        tuple(Member(w.id, w.rank or 0, w.host, len(w.slot_ids), w.endpoint, w.peer) for w in members),
    )
