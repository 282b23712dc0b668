"""Why a job is being stopped, suspended or held, and how it ended."""

from scheduler.http.explain.words import STOP_TEXTS, job_name
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.world import World


def why_stopped(job: Job, world: World) -> str:
    """The sentence for a job that is being stopped, or is suspended."""
    if job.state is JobState.SUSPENDED and job.stop_reason is StopReason.NO_ACCOUNT:
        return f"Suspended, since it could run as nobody: {job.detail}."
    if job.state is JobState.SUSPENDED:
        return "Suspended until a user resumes it."
    why = STOP_TEXTS[job.stop_reason] if job.stop_reason is not None else "requested"
    whom = f" for {job_name(job.stop_for, world)}" if job.stop_for is not None else ""
    detail = f" ({job.detail})" if job.detail else ""
    return f"Is being stopped: {why}{whom}{detail}. Workers still to leave: {len(job.all_workers)}."


def why_held(job: Job) -> str:
    """The sentence for a job that is held because ticks failed at it."""
    if job.cancelled and job.held_from is not JobState.STOPPING:
        return f"Is being cancelled. It was held: {job.detail}."
    was = f"was {job.held_from}" if job.held_from is not None else "waits"
    workers = f"; its workers go on ({len(job.all_workers)})" if job.all_workers else ""
    return f"Held: the scheduler failed while it dealt with this job ({job.detail}). It {was}{workers}."


def how_it_ended(job: Job) -> str:
    """The sentence for a job that has ended."""
    why = "" if job.stop_reason is None else f": {STOP_TEXTS[job.stop_reason]}"
    detail = f" ({job.detail})" if job.detail else ""
    code = f", exit code {job.exit_code}" if job.exit_code not in (None, 0) else ""
    return f"Has {job.state.lower() if job.state is not JobState.CANCELLED else 'been cancelled'}{why}{detail}{code}."
