"""Who writes and who reads which column of the jobs table: one that is missing in one place fails here."""

from dataclasses import replace

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.codec.job_rows import job_values, spec_values, submitted_values
from scheduler.store.sql.engine_tables import SUBMITTED, jobs
from tests.specs import spec_of
from tests.store.desk import NOW, SPEC, admitted, lead, started


def test_each_column_is_written_by_the_submission_or_by_what_becomes_of_the_job() -> None:
    submitted = {column.name for column in SUBMITTED}
    changing = set(job_values(Job(JobId(1), SPEC, 0, 1, 1, NOW, NOW), 1, 1))
    assert set(spec_values(SPEC)) | {"nonce"} == submitted
    assert {"id"} | submitted | changing == set(jobs.columns.keys())
    assert not submitted & changing


def test_a_submission_leaves_out_only_what_no_new_job_has(store: SqlStore) -> None:
    row = submitted_values(JobId(1), "", SPEC, NOW)
    left_out = set(jobs.columns.keys()) - set(store._statements.insert_jobs.names)
    assert left_out
    assert {name: row[name] for name in left_out} == dict.fromkeys(left_out)


def test_a_commit_writes_nothing_of_what_was_submitted(store: SqlStore) -> None:
    lease = lead(store)
    [job] = admitted(store, lease)
    another = spec_of("another", workers=3, user="eve", priority=9, expected_seconds=1.0, max_retries=9)
    store.commit(Changes(jobs=(replace(started(job, 0), spec=another, nonce="x"),)), lease, NOW)
    kept = store.get_job(job.id)
    assert kept is not None
    assert (kept.spec, kept.nonce) == (job.spec, job.nonce)
    assert kept.state is not job.state
