"""Absorb: turns observations and requests since the last tick into changes. Pure."""

from collections.abc import Mapping

from scheduler.config import EngineSettings
from scheduler.engine.absorb.dirty_jobs import Focus
from scheduler.engine.absorb.foreign import absorb_use
from scheduler.engine.absorb.held import end_cancelled, end_unstarted
from scheduler.engine.absorb.intents import absorb_inbox
from scheduler.engine.absorb.nodes import Gone, absorb_listed, absorb_nodes, count_failures
from scheduler.engine.absorb.worker_ends import expire, react
from scheduler.engine.absorb.workers import (
    absorb_job_workers,
    absorb_progress,
    absorb_report,
    find_strays,
)
from scheduler.engine.changeset import Changeset
from scheduler.engine.ports import TickInputs
from scheduler.engine.state.bookings import stop_released
from scheduler.engine.state.deadlines import absence, hang_deadline, silence
from scheduler.engine.state.membership import adopt, settle
from scheduler.engine.state.reports import Liveness
from scheduler.model.evolve import evolve
from scheduler.model.ids import WorkerId
from scheduler.model.job import Job
from scheduler.model.observation import Missed, Observation, WorkerReport
from scheduler.model.worker import LeaveReason, Worker


def absorb(
    changeset: Changeset, inputs: TickInputs, focus: Focus, liveness: Liveness, settings: EngineSettings
) -> None:
    """Put into the changeset what follows from observation, reports, deadlines and intents.

    `focus` has the jobs to look at, and `liveness` tells when a worker last reported.
    """
    observation = inputs.observation
    gone = absorb_nodes(changeset, observation.nodes, focus.nodes)
    absorb_use(changeset, observation.nodes, gone)
    gone = _absorb_strays(changeset, observation, focus, gone)  # those of jobs that came to be held, say
    for job in focus.jobs:
        report = focus.progress.get(job.id)
        if report is None:
            _absorb_job(changeset, job, inputs, liveness, settings)
        else:
            absorb_progress(changeset, job.id, report, liveness.reports.last_checkpoint_at(job), settings)
    absorb_inbox(changeset, inputs.inbox)
    for job_id in changeset.released:
        job = changeset.the_job(job_id)
        if job.state.active:
            _absorb_job(changeset, job, inputs, liveness, settings, released=True)
            stop_released(changeset, job_id)
    _absorb_strays(changeset, observation, focus, gone)  # those that jobs have left behind just now
    end_cancelled(changeset)


def _absorb_strays(changeset: Changeset, observation: Observation, focus: Focus, gone: Gone) -> Gone:
    """Absorb the strays, and what they hold of lost capacity; returns all losses."""
    strays = find_strays(changeset, observation, focus.moved)
    if strays == changeset.base.strays:
        return gone
    changeset.see_strays(strays)
    gone = gone | absorb_listed(changeset, observation.nodes, {stray.node for stray in strays.values()})
    absorb_use(changeset, observation.nodes, gone)
    return gone


def _absorb_job(
    changeset: Changeset,
    job: Job,
    inputs: TickInputs,
    liveness: Liveness,
    settings: EngineSettings,
    *,
    released: bool = False,
) -> None:
    """`released`: the job was held until now, and others may have the slots of its workers."""
    observation = inputs.observation
    ended = end_unstarted(changeset, job, observation) if released else []
    ended += absorb_job_workers(changeset, changeset.the_job(job.id) if ended else job, observation, inputs.uncertain)
    _absorb_reports(changeset, job, observation.reports, liveness, settings)
    if ended:
        count_failures(changeset, job, ended, settings)
        react(changeset, job.id, ended, settings)
    current = changeset.the_job(job.id)
    if current.state.active:
        expire(changeset, current)
        _condemn_hung(changeset, changeset.the_job(job.id), liveness, settings)
        settle(changeset, job.id, settings)


def _absorb_reports(
    changeset: Changeset,
    job: Job,
    reports: Mapping[WorkerId, WorkerReport],
    liveness: Liveness,
    settings: EngineSettings,
) -> None:
    if not reports:
        return
    for worker in job.fixed_workers:
        if worker.id in reports and worker.reported_generation == 0:
            current = changeset.the_job(job.id).worker(worker.id)
            if current is not None:  # whichever engine leads from now on expects it to go on
                changeset.put_worker(evolve(current, reported_generation=max(job.generation, 1)))
    for worker in job.workers:
        report = reports.get(worker.id)
        current = changeset.the_job(job.id).worker(worker.id) if report is not None else None
        if report is None or current is None:
            continue
        absorb_report(changeset, changeset.the_job(job.id), current, report)
        if report.agreed is not None:
            adopt(changeset, job.id, report.agreed)
        if report.missed is not None and current.wanted:
            _condemn_missed(changeset, changeset.the_job(job.id), current, report.missed)
        if current.rank == 0:
            absorb_progress(changeset, job.id, report, liveness.reports.last_checkpoint_at(job), settings)


def _condemn_hung(changeset: Changeset, job: Job, liveness: Liveness, settings: EngineSettings) -> None:
    """Mark hung workers to be killed. They keep their place until they are gone, and then count as failures."""
    for worker in job.all_workers:
        deadline = hang_deadline(job, worker, liveness, settings)
        if deadline is not None and changeset.now >= deadline and not worker.condemned:
            _condemn(changeset, worker, silence(job, worker, settings))


def _condemn_missed(changeset: Changeset, job: Job, waiting: Worker, missed: Missed) -> None:
    """Mark members to be killed that do not come to their group, in whatever step they hang.

    They may still report: a thread that does not train does that.
    """
    if missed.generation != job.generation or not waiting.member or waiting.condemned:
        return
    for worker in job.members:
        if worker.id in missed.workers and worker.id != waiting.id and worker.wanted and not worker.condemned:
            _condemn(changeset, worker, absence(job, missed.seconds, waiting))


def _condemn(changeset: Changeset, worker: Worker, detail: str) -> None:
    changeset.put_worker(evolve(worker, leave_reason=LeaveReason.HUNG, stop_deadline=changeset.now, detail=detail))
