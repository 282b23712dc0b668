"""`GET /v1/jobs/{job}/explain`: why a job is as it is, since when, and what would change that."""

from fastapi import APIRouter
from starlette.responses import Response

from scheduler.engine.forecast import forecast
from scheduler.http.errors import Refusal, documented
from scheduler.http.explain.explanation import Explanation, explain
from scheduler.http.explain.past import Past, past_of
from scheduler.http.explain.remedies import remedies
from scheduler.http.forecast import ForecastView, forecast_view
from scheduler.http.jobs import find_job
from scheduler.http.json import JsonResponse
from scheduler.http.parameters import JobNumber
from scheduler.http.services import Services, Use
from scheduler.model.job import Job, JobState
from scheduler.model.world import World

router = APIRouter(tags=["jobs"])

#: How long an explanation waits for its turn to look ahead, and how long it looks then.
FORECAST_SECONDS = 0.5


class ExplainView(Explanation, Past):
    #: What would change its state or size, each in one sentence; empty: nothing that anybody could do.
    would_change: list[str]
    #: When it starts, where it waits; null also while too many ask.
    forecast: ForecastView | None


@router.get("/v1/jobs/{job_id}/explain", response_model=ExplainView, responses=documented(404))
def explain_job(services: Use, job_id: JobNumber) -> Response:
    """Why the job is as it is, since when, what would change that, and when it starts if it waits."""
    job = find_job(services, job_id)
    world, now, policy = services.board.world or World(), services.clock.now(), services.settings.policy
    explanation = explain(job, world, policy, now)
    trouble = None if job.state.terminal else services.not_ready()
    if trouble is not None:
        explanation["summary"] += f" Nothing is being decided now: {trouble}."
    view: ExplainView = {
        **explanation,
        **past_of(services.store, job),
        "would_change": remedies(job, explanation["reason"], world, policy, now),
        "forecast": _forecast(services, job),
    }
    return JsonResponse(view)


def _forecast(services: Services, job: Job) -> ForecastView | None:
    """When the job starts; None where it does not wait, or nothing can be said now."""
    world = services.board.world
    if world is None or job.state is not JobState.QUEUED:
        return None
    try:
        with services.questions.turn(FORECAST_SECONDS):
            in_time = services.within(FORECAST_SECONDS)
            return forecast_view(forecast(world, job, services.clock.now(), services.settings, in_time))
    except Refusal:
        return None
