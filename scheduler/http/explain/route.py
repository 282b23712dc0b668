"""`GET /v1/jobs/{job}/explain`: the reason for a job's state, since when, and remedies."""

from fastapi import APIRouter
from starlette.responses import Response

from scheduler.config import PolicySettings
from scheduler.engine.whatif.forecast import forecast
from scheduler.http.errors import Refusal, documented
from scheduler.http.explain.explanation import Explanation, explain
from scheduler.http.explain.past import Past, past_of
from scheduler.http.explain.planner_query import asking, look
from scheduler.http.explain.remedies import remedies
from scheduler.http.json import JsonResponse
from scheduler.http.routes.jobs import find_job
from scheduler.http.schemas.forecast import ForecastView, forecast_view
from scheduler.http.schemas.parameters import JobNumber
from scheduler.http.services import Services, ServicesDep
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.world import World
from scheduler.policy.explain.counterfactuals import Trials
from scheduler.policy.explain.growth_limits import GrowthLimits
from scheduler.policy.explain.held_slots import Look
from scheduler.policy.planner import plan

router = APIRouter(tags=["jobs"])


class ExplainView(Explanation, Past):
    #: Actions that would change its state or size, each in one sentence; empty: there are none.
    would_change: list[str]
    #: Forecast of the start of a waiting job; null for others, and while too many requests ask.
    forecast: ForecastView | None


@router.get("/v1/jobs/{job_id}/explain", response_model=ExplainView, responses=documented(404))
def explain_job(services: ServicesDep, job_id: JobNumber) -> Response:
    """Explain the state of a job: why, since when, what would change it, and when a waiting job starts."""
    job = find_job(services, job_id)
    world, now, policy = services.board.world or World(), services.clock.now(), services.settings.policy
    seen, would_change = _asked(services, job, world, now)
    explanation = explain(job, world, policy, now, seen)
    trouble = None if job.state.terminal else services.not_ready()
    if trouble is not None:
        explanation["summary"] += f" The scheduler is not making decisions: {trouble}."
    view: ExplainView = {
        **explanation,
        **past_of(services.store, job, world),
        "would_change": would_change,
        "forecast": _forecast(services, job),
    }
    return JsonResponse(view)


def _asked(services: Services, job: Job, world: World, now: float) -> tuple[Look | None, list[str]]:
    """The planner's look at the world, if that matters to the job, and remedies."""
    policy = services.settings.policy
    kept = _may_be_kept(job, world, policy, now)
    try:
        if kept or job.state is JobState.QUEUED:
            with asking(services) as in_time:
                seen = look(world, now, policy) if kept else None
                trials = Trials(world, job, lambda changed: plan(changed, now, policy), in_time)
                return seen, remedies(job, world, policy, now, seen, trials)
    except Refusal:
        pass  # the explanation is less detailed then
    return None, remedies(job, world, policy, now, None, None)


def _may_be_kept(job: Job, world: World, policy: PolicySettings, now: float) -> bool:
    """Whether there seems to be room for the job, so that only the planner knows who it is kept for."""
    match job.state:
        case JobState.QUEUED:
            others = bool(world.bookings or world.demands or world.queues)
            return others and job.wait_reason in (WaitReason.INSUFFICIENT_SLOTS, WaitReason.BEHIND_BOOKING)
        case JobState.RUNNING | JobState.RESIZING:
            return GrowthLimits(world, now, policy).of(job).has_room
        case _:
            return False


def _forecast(services: Services, job: Job) -> ForecastView | None:
    """Forecast of the job's start; None if it does not wait, or nothing can be said now."""
    world = services.board.world
    if world is None or job.state is not JobState.QUEUED:
        return None
    try:
        with asking(services) as in_time:
            return forecast_view(forecast(world, job, services.clock.now(), services.settings, in_time))
    except Refusal:
        return None
