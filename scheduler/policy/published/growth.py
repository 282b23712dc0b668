"""Growth of running jobs, and of those that start, to a size that was decided elsewhere, as far as slots are free."""

from collections.abc import Mapping

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.policy.capacity.ledger import View
from scheduler.policy.draft import Draft
from scheduler.policy.resize.bounds import more_node_counts


def grow_to(draft: Draft, targets: Mapping[JobId, int]) -> None:
    """Grow jobs as near to their targets as fits now, most important first, then by age."""
    jobs = [job for job_id in targets if (job := draft.world.job(job_id)) is not None]
    for job in sorted(jobs, key=lambda job: (-job.priority, job.submitted_at, job.id)):
        if job.id in draft.starts:
            _start_larger(draft, job, targets[job.id])
        elif may_grow(draft, job):
            missing = targets[job.id] - len(draft.staying(job))
            grow_by(draft, job, missing)


def grow_by(draft: Draft, job: Job, most: int) -> int:
    """Add up to `most` workers to a running job, as far as they fit; returns their number."""
    fits = draft.places.feasible(job.shape).fits(View.OPEN)
    most = min(most, fits.most())
    for count in range(most, 0, -1):
        node_counts = more_node_counts(draft, job, count)
        if node_counts is not None:
            draft.grow(job, node_counts)
            return count
    return 0


def may_grow(draft: Draft, job: Job) -> bool:
    """Whether the job runs undisturbed and has cooled down; if only cooling down is in the way, look again then."""
    if job.state is not JobState.RUNNING or job.finishing or draft.touched(job):
        return False
    if not job.workers or not all(worker.wanted and worker.member for worker in job.workers):
        return False
    cooled = (job.last_resize_at or 0.0) + draft.settings.grow_cooldown_seconds
    draft.look_at(cooled)
    return cooled <= draft.now


def _start_larger(draft: Draft, job: Job, target: int) -> None:
    """Place a starting job anew, as a whole, at up to its target."""
    own = dict(draft.starts[job.id][0])
    for i, count in own.items():
        draft.ledger.take(i, job.shape, -count)
    fits = draft.places.feasible(job.shape).fits(View.OPEN)
    size = max(min(target, fits.most()), sum(own.values()))
    node_counts = fits.place(size)
    draft.starts[job.id][0].clear()
    draft.grow(job, own if node_counts is None else node_counts)
