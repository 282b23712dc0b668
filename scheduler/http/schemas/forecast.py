"""Views of a forecast."""

from typing_extensions import TypedDict

from scheduler.engine.whatif.forecast import Forecast, Loss
from scheduler.engine.whatif.job_ends import Ending
from scheduler.model.job import Job

#: Jobs in an answer; of a longer list it has the length as well.
JOBS_MAX = 20


class LossView(TypedDict):
    #: Id of the job.
    id: int
    #: Its name.
    name: str
    #: Workers that it has now.
    workers_before: int
    #: 0: it is stopped, and goes back to the queue.
    workers_after: int
    #: Work that it would lose now: in the pause of a shrink, or since its last save.
    lost_slot_seconds: float


class EndingView(TypedDict):
    #: Id of the job.
    id: int
    #: Its name.
    name: str
    #: When it ends; unix seconds.
    at: float
    #: Basis of this time: TIME_LIMIT, DECLARED, REPORTED or FINISHING.
    basis: str


class SilentView(TypedDict):
    #: Id of the job.
    id: int
    #: Its name.
    name: str


class ForecastView(TypedDict):
    #: Moment of the request; unix seconds.
    at: float
    #: CERTAIN, UPPER_BOUND (it may be sooner), ESTIMATE or UNKNOWN.
    certainty: str
    #: Start of the job; null: not known. If certain and later than `at`: once others have left, at the latest then.
    start_at: float | None
    #: End of the search: the job does not start before.
    looked_until: float
    #: Workers at its start.
    workers: int
    #: Workers at which it settles until a job ends; 0: the search had no time to find out.
    settled_workers: int
    #: Nodes and numbers of workers.
    placement: list[tuple[str, int]]
    #: Whether it shares these slots with others.
    shared: bool
    #: Jobs that give up workers for it.
    losses: list[LossView]
    #: Ends of jobs that the start depends on, the last ones of them.
    rests_on: list[EndingView]
    #: Number of ends that the start depends on.
    rests_on_count: int
    #: Jobs in its way with unknown durations, if no start is known.
    silent: list[SilentView]
    #: How many such jobs there are.
    silent_count: int
    #: Why no start was found: IMPOSSIBLE, NOTHING_KNOWN, HORIZON, ROUNDS or TIME.
    cut_off: str | None


def forecast_view(forecast: Forecast) -> ForecastView:
    return {
        "at": forecast.at,
        "certainty": forecast.certainty,
        "start_at": forecast.start_at,
        "looked_until": forecast.looked_until,
        "workers": forecast.workers,
        "settled_workers": forecast.settled_workers,
        "placement": [(node, count) for node, count in forecast.placement],
        "shared": forecast.shared,
        "losses": [_loss_view(loss) for loss in forecast.losses],
        "rests_on": [_ending_view(ending) for ending in forecast.rests_on[-JOBS_MAX:]],
        "rests_on_count": len(forecast.rests_on),
        "silent": [_silent_view(job) for job in forecast.silent[:JOBS_MAX]],
        "silent_count": len(forecast.silent),
        "cut_off": forecast.cut_off,
    }


def _loss_view(loss: Loss) -> LossView:
    return {
        "id": loss.job_id,
        "name": loss.name,
        "workers_before": loss.before,
        "workers_after": loss.after,
        "lost_slot_seconds": loss.slot_seconds,
    }


def _ending_view(ending: Ending) -> EndingView:
    return {"id": ending.job_id, "name": ending.name, "at": ending.at, "basis": ending.basis}


def _silent_view(job: Job) -> SilentView:
    return {"id": job.id, "name": job.spec.name}
