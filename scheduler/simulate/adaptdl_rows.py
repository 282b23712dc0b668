"""The job tables of AdaptDL's simulator, whose applications have measured profiles."""

import os
from pathlib import Path

from pydantic import Field

from scheduler.config.numbers import Seconds, Workers
from scheduler.errors import UserError
from scheduler.simulate.adaptdl_profile import Application
from scheduler.simulate.adaptdl_work import AdaptdlWork, FixedBatch, TunedBatch
from scheduler.simulate.job_rows import Name, refuse_repeated, resizable
from scheduler.simulate.table import Row, parse_csv
from scheduler.simulate.workload import Submission, Workload

#: What a change of membership costs in AdaptDL's simulator.
ADAPTDL_RESIZE_SECONDS = 30.0
#: There these run on one worker only, with their whole batch.
_SINGLE = frozenset({"ncf"})


class _AdaptdlRow(Row):
    name: Name
    time: Seconds
    application: Name
    num_replicas: Workers
    batch_size: int = Field(ge=1, le=10**9)


def adaptdl_workload(path: Path, text: str, profiles: Path | None, *, tuned: bool) -> Workload:
    """AdaptDL's table (name, time, application, num_replicas, batch_size) with measured profiles.

    A job may have as many workers as its batch size feeds, but no more than were measured. With `tuned`, workers
    choose the batch size themselves. Raises `UserError`.
    """
    rows = parse_csv(path, text, _AdaptdlRow)
    refuse_repeated(path, [(line, row.name) for line, row in rows], "name")
    if profiles is None:
        raise UserError(f"{path}: the workload has applications: give the directory of their profiles with --profiles")
    applications: dict[str, Application] = {}
    works: dict[tuple[str, int], AdaptdlWork] = {}
    submissions = []
    for line, row in rows:
        application = applications.get(row.application)
        if application is None:
            application = applications[row.application] = _application(f"{path}:{line}", profiles, row.application)
        if not application.batch_min <= row.batch_size <= application.batch_max:
            bounds = f"{application.batch_min} and {application.batch_max}"
            raise UserError(f"{path}:{line}: batch_size: {row.batch_size} is not between {bounds}, as measured")
        tunes = tuned and application.name not in _SINGLE
        batch = application.batch_max if tunes else row.batch_size
        work = works.get((application.name, batch))
        if work is None:
            batching = TunedBatch() if tunes else FixedBatch(batch)
            work = works[application.name, batch] = AdaptdlWork(application, batching)
        most = min(max(batch // application.local_batch_min, 1), application.workers_max)
        spec = resizable(row.name, 1 if application.name in _SINGLE else most, row.num_replicas)
        submissions.append(Submission(row.time, spec, work, ADAPTDL_RESIZE_SECONDS))
    slots_max = min(application.workers_per_node_max for application in applications.values())
    return Workload.of(path.stem, submissions, node_slots_max=slots_max)


def _application(where: str, profiles: Path, name: str) -> Application:
    known = sorted(each.name for each in profiles.iterdir() if each.is_dir()) if os.path.isdir(profiles) else None
    if known is None:
        raise UserError(f"--profiles: {profiles}: no such directory")
    if name not in known:
        raise UserError(
            f"{where}: application: {name!r} has no profile: {profiles} contains {', '.join(known) or 'none'}"
        )
    return Application(profiles / name)
