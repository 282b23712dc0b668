"""The difference between what is desired and what was observed, as calls to the cluster: stops before starts."""

from collections.abc import Iterable, Set

from scheduler.engine.apply.launch import LaunchContext, start_workers
from scheduler.engine.ports import ClusterAction, ForgetWorker, StopWorker
from scheduler.model.ids import WorkerId
from scheduler.model.job import Job
from scheduler.model.observation import Observation, WorkerObservation
from scheduler.model.worker import Desired, Worker, WorkerState
from scheduler.model.world import World

#: Longest grace of a cancelled job that is held.
HELD_GRACE_SECONDS_MAX = 3600.0


def due_actions(
    world: World,
    unsettled: Iterable[Job],
    observation: Observation,
    ended: Iterable[WorkerObservation],
    stop_sent: Set[WorkerId],
    launch: LaunchContext,
    now: float,
) -> list[ClusterAction]:
    """The actions that the cluster should carry out now.

    `unsettled` are jobs with workers that may have to be started or stopped; `ended` are workers that the cluster still
    lists although their end was observed. `stop_sent` are workers that this engine has already asked to stop: asking
    again is harmless, but only needed once their deadline has passed.
    """
    stops: list[ClusterAction] = []
    for stray in world.ending_strays():
        held = world.held_job_of(stray)
        grace_seconds = _grace_seconds(held) if held is not None else 0.0
        stops.append(StopWorker(stray.id, stray.node, grace_seconds, stray.nonce))
    starts: list[ClusterAction] = []
    for job in unsettled:
        to_start = []
        for worker in job.all_workers:
            if worker.desired is Desired.STOP or worker.condemned:
                grace_seconds = max(0.0, (worker.stop_deadline or now) - now)
                if worker.id not in stop_sent or grace_seconds == 0.0:
                    stops.append(StopWorker(worker.id, worker.node, grace_seconds, job.nonce))
            elif _to_start(job, worker, observation, now):
                to_start.append(worker)
        if to_start:
            starts += start_workers(job, to_start, launch)
    forgets: list[ClusterAction] = [ForgetWorker(seen.id, seen.node) for seen in ended if not _is_live(world, seen)]
    return [*stops, *forgets, *starts]


def _grace_seconds(job: Job) -> float:
    """The grace of a job; of a held one, no number is trusted."""
    seconds: object = job.spec.grace_seconds
    return seconds if isinstance(seconds, int | float) and 0 <= seconds <= HELD_GRACE_SECONDS_MAX else 0.0


def _to_start(job: Job, worker: Worker, observation: Observation, now: float) -> bool:
    """Whether it is the worker's turn: fixed workers come first, the others once these run."""
    if worker.state is not WorkerState.PENDING or worker.not_before > now:
        return False
    seen = observation.workers.get(worker.id)
    # One of another life of the database, which has the same id, must have ended; it is forgotten before this starts.
    if seen is not None and (seen.alive or seen.nonce == job.nonce):
        return False
    return worker.fixed or job.fixed_ready


def _is_live(world: World, seen: WorkerObservation) -> bool:
    """Whether the worker's job counts it, now or once the job goes on or can be read: its end is not stored yet."""
    job = world.active.get(seen.job_id) or world.held.get(seen.job_id)
    counts = job is not None and job.nonce == seen.nonce and job.worker(seen.id) is not None
    return counts or world.unread(seen.job_id) is not None
