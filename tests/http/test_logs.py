"""Logs by offset, of the worker that was asked for or of the one that speaks for the job."""

from pathlib import Path

from scheduler.clusters.logs.files import log_path
from scheduler.model.ids import JobId, WorkerId, job_key
from tests.http.site import Site


def write(site: Site, job_id: int, worker: str, text: bytes) -> None:
    """What the local cluster would have written."""
    key = job_key(JobId(job_id), site.get(JobId(job_id)).nonce)
    path = Path(log_path(Path(site.directory), key, WorkerId(worker)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


def test_a_log_is_read_on_from_the_offset_of_the_last_answer(site: Site) -> None:
    job_id = site.submit(workers=2)
    site.advance(1)
    write(site, job_id, f"{job_id}-1", b"hello world")
    write(site, job_id, f"{job_id}-2", b"other")
    first = site.client.get(f"/v1/jobs/{job_id}/logs?limit=5")
    assert (first.text, first.headers["x-sched-offset"]) == ("hello", "5")
    assert first.headers["x-sched-worker"] == f"{job_id}-1", "rank 0 speaks for the job"
    rest = site.client.get(f"/v1/jobs/{job_id}/logs?offset=5")
    assert (rest.text, rest.headers["x-sched-offset"]) == (" world", "11")
    assert site.client.get(f"/v1/jobs/{job_id}/logs?offset=-3").text == "rld"
    assert site.client.get(f"/v1/jobs/{job_id}/logs?worker={job_id}-2").text == "other"


def test_an_ended_job_still_has_its_log(site: Site) -> None:
    job_id = site.submit(grace_seconds=0)
    site.advance(1)
    write(site, job_id, f"{job_id}-1", b"last words")
    site.client.post(f"/v1/jobs/{job_id}/cancel")
    site.settle()
    assert site.client.get(f"/v1/jobs/{job_id}/logs").text == "last words"


def test_the_log_of_a_job_of_the_same_id_from_before_a_backup_was_restored_is_not_shown(site: Site) -> None:
    job_id = site.submit()
    site.advance(1)
    for former in (str(job_id), f"{job_id}-0123456789"):
        path = Path(site.directory) / "logs" / former / f"{job_id}-1.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"of another")
    assert site.client.get(f"/v1/jobs/{job_id}/logs").text == ""


def test_a_job_without_workers_has_an_empty_log_and_foreign_workers_none(site: Site) -> None:
    job_id = site.submit(workers=99)
    answer = site.client.get(f"/v1/jobs/{job_id}/logs")
    assert (answer.status_code, answer.text, answer.headers["x-sched-offset"]) == (200, "", "0")
    for worker in (f"{job_id + 1}-1", f"{job_id}-1", "1-0"):
        assert site.client.get(f"/v1/jobs/{job_id}/logs?worker={worker}").status_code == 404
    for worker in ("../x", "1", ""):
        assert site.client.get(f"/v1/jobs/{job_id}/logs?worker={worker}").status_code == 422
