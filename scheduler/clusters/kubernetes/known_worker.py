"""What is known of one worker: its pod, and its last seen state."""

from dataclasses import dataclass

from scheduler.clusters.kubernetes.pod_status import PodState
from scheduler.clusters.kubernetes.pods import WorkerPod
from scheduler.model.observation import Phase, WorkerObservation


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker, its pod, and its last seen state."""

    who: WorkerPod
    state: PodState
    #: When it was first seen; unix seconds.
    since: float
    #: Uid of its pod; empty for a worker whose pod the API refused.
    name: str = ""
    uid: str = ""
    version: int = 0
    container: str = ""
    #: Whether all of the pod has ended, sidecars included.
    over: bool = False
    #: Whether the API has no pod of it any more.
    gone: bool = False

    def observed(self, stuck_since: float) -> WorkerObservation:
        """The worker as the engine sees it; stuck where it is held up and was first seen by this unix time."""
        who, state = self.who, self.state
        return WorkerObservation(
            id=who.worker_id,
            job_id=who.job_id,
            node=who.node,
            phase=state.phase,
            slot_ids=who.slot_ids,
            cpus=who.cpus,
            memory_mib=who.memory_mib,
            shared=who.shared,
            exit_code=state.exit_code,
            detail=state.detail,
            stuck=state.phase is Phase.LAUNCHING and state.blocked and self.since <= stuck_since,
            cause=state.cause,
            started_at=state.started_at,
            ended_at=state.ended_at,
            nonce=who.nonce,
        )
