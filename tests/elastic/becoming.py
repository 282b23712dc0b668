"""This process as a worker of a real scheduler that is served over HTTP, for the library."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.model.ids import JobId
from tests.http.site import Site


@contextmanager
def served_site(directory: Path, **http: Any) -> Iterator[Site]:
    """A scheduler with a node of four slots, whose ticks are the test's."""
    site = Site(directory, **http)
    site.node("a", slots=4)
    site.tick()
    with capture_logs(), site.served():
        yield site
    site.close()


def become_worker(monkeypatch: pytest.MonkeyPatch, site: Site, job_id: JobId, ordinal: int = 1) -> None:
    """From here on this process is that worker, for the library."""
    monkeypatch.setenv("SCHED_URL", site.url)
    monkeypatch.setenv("SCHED_JOB_ID", str(job_id))
    monkeypatch.setenv("SCHED_WORKER_ID", f"{job_id}-{ordinal}")
    monkeypatch.setenv("SCHED_TOKEN", site.worker_token(job_id))
    monkeypatch.setenv("SCHED_GRACE_SECONDS", "10")


def running(site: Site, workers: int | tuple[int, int] = 1, **data: object) -> JobId:
    """A job of ten shards that runs."""
    low, high = (workers, workers) if isinstance(workers, int) else workers
    job_id = site.submit(min_workers=low, max_workers=high, data={"shards": 10, **data})
    site.advance(1)
    return job_id


def done(site: Site, job_id: JobId) -> int:
    """How many of its shards are."""
    return site.store.read_queues([job_id])[job_id].done
