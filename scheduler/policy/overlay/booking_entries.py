"""Who comes to have slots of its own by a plan, and whose workers leave."""

from collections.abc import Iterator

from scheduler.model.job import Job
from scheduler.model.plan import Placing, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.overlay.booking_moment import kept_workers


def entries(world: World, made: Plan) -> Iterator[tuple[Job, Placing]]:
    """What jobs get by this plan, and what is held for them once it is done."""
    for action in made.actions:
        if isinstance(action, Placing) and (job := world.job(action.job_id)) is not None:
            yield job, action
    settled = {action.job_id for action in made.actions if isinstance(action, Start | Reserve | Release)}
    for job in world.reserved.values():
        if job.id in world.queued and job.id not in settled:
            yield job, Reserve(job.id, job.reservation, job.reservation_shared, job.fixed_reservation)


def leavers(world: World, made: Plan) -> Iterator[tuple[Job, Worker]]:
    """Workers that leave by this plan."""
    for action in made.actions:
        if isinstance(action, Shrink | StopJob):
            job = world.active[action.job_id]
            for worker in kept_workers(job):
                if isinstance(action, StopJob) or worker.id in action.workers:
                    yield job, worker
