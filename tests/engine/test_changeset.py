"""Which jobs of a changeset have only progressed: of these the store writes nothing else."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.changeset import Changeset
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.world import World

SPEC = JobSpec("train", ("train",), max_workers=9)
PUT, TELL = "put", "tell progress"


@given(steps=st.lists(st.tuples(st.sampled_from([PUT, TELL]), st.sampled_from([1, 2, 3])), max_size=8))
def test_a_job_that_was_put_otherwise_has_not_only_progressed(steps: list[tuple[str, int]]) -> None:
    jobs = {JobId(n): Job(JobId(n), SPEC, 0, 1, 9, 0.0, 0.0, state=JobState.RUNNING) for n in (1, 2)}
    changeset = Changeset(World(active=jobs), 1.0)
    for number, (step, job_id) in enumerate(steps):
        job = changeset.job(JobId(job_id)) or Job(JobId(job_id), SPEC, 0, 1, 9, 0.0, 0.0, state=JobState.RUNNING)
        if step is PUT:
            changeset.put(replace(job, exit_code=number))
        elif job_id in jobs:
            changeset.put_progress(job, replace(job.progress, step=number))
    changes = changeset.changes()
    known = [job for job in changes.jobs if job.id in jobs]
    assert changes.progressed == {job.id for job in known if job.only_progressed(jobs[job.id])}
