"""Running jobs that were faster with fewer workers give the others back, for jobs that can use them."""

from scheduler.model.worker import LeaveReason
from scheduler.policy.draft import Draft
from scheduler.policy.snapshot.peers import pays_to_shrink


def give_back(draft: Draft) -> None:
    """Shrink each such job to the size at which it was fastest, its youngest workers first."""
    for peer in draft.snapshot.peers.slowed():
        job, faster = peer.job, peer.faster
        if faster is None or job.spec.booking is not None or draft.touched(job) or draft.near_end(job):
            continue
        if peer.ready_at > draft.now or not pays_to_shrink(job, peer.marginal_gain, faster, draft.settings):
            draft.look_at(peer.changes_at)
            continue
        staying = sorted(draft.staying(job), key=lambda worker: -worker.ordinal)
        draft.shrink(job, tuple(staying[: len(staying) - faster.workers]), LeaveReason.NO_GAIN)
