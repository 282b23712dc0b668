"""Effects of another priority of a job: its start, and the sizes at which it and others settle. Pure.

The real planner answers on two copies of the world, one as it is and one in which the job has the other priority.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from scheduler.config import Settings
from scheduler.engine.whatif.forecast import PLANS_MAX, Forecast, forecast
from scheduler.engine.whatif.lookahead import Rollout
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.world import Changes, World


@dataclass(frozen=True, slots=True)
class StartForecasts:
    """Starts of a waiting job, with both priorities."""

    as_it_is: Forecast
    changed: Forecast


@dataclass(frozen=True, slots=True)
class Size:
    """Workers of a job, once only the end of a job would change that; 0: it waits."""

    job_id: JobId
    name: str
    as_it_is: int
    changed: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes at which a job with workers would settle, and every other job for which that makes a difference."""

    own: Size
    #: Other jobs, the largest losses first.
    others: tuple[Size, ...]
    #: False: there was no time to look until everything has settled.
    settled: bool


def reprice(
    world: World, job: Job, priority: int, now: float, settings: Settings, in_time: Callable[[], bool]
) -> StartForecasts | Sizes:
    """The difference that a priority makes for a job that waits or has workers, and is not being stopped."""
    changed = replace(job, priority=priority)
    if job.state is JobState.QUEUED:
        as_it_is = forecast(world, job, now, settings, in_time)
        return StartForecasts(as_it_is, forecast(world, changed, now, settings, in_time))
    before, settled_before = _settled(world, now, settings, in_time)
    after, settled_after = _settled(world.evolve(Changes(jobs=(changed,))), now, settings, in_time)
    sizes = [_size(other.id, before, after) for other in world.all_jobs()]
    own = next(size for size in sizes if size.job_id == job.id)
    others = [size for size in sizes if size.job_id != job.id and size.as_it_is != size.changed]
    others.sort(key=lambda size: (size.changed - size.as_it_is, size.job_id))
    return Sizes(own, tuple(others), settled_before and settled_after)


def _settled(world: World, now: float, settings: Settings, in_time: Callable[[], bool]) -> tuple[World, bool]:
    rollout = Rollout(world, now, settings)
    for _ in range(PLANS_MAX):  # what starts now may be what another job may take from
        if not rollout.decide().actions:
            break
    settled = rollout.settle(in_time)
    return rollout.world, settled


def _size(job_id: JobId, before: World, after: World) -> Size:
    old, new = before.job(job_id), after.job(job_id)
    named = old or new
    return Size(
        job_id,
        named.spec.name if named is not None else "",
        len(old.wanted_workers) if old is not None else 0,
        len(new.wanted_workers) if new is not None else 0,
    )
