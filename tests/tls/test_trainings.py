"""Trainings whose daemon speaks TLS and asks for certificates: torchrun's rendezvous, and `scheduler.elastic`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.daemon import Daemon, running_daemon
from tests.elastic.test_torchrun import Counting, assert_every_step_counted, restarts, rival
from tests.elastic.test_training_survives import Job

pytestmark = [pytest.mark.slow, pytest.mark.torch]


@pytest.fixture
def asking(tmp_path: Path, authority: Authority) -> Iterator[Daemon]:
    own = authority.issue(tmp_path / "own", name="worker")
    http = {**authority.issue(tmp_path / "pair").settings, "tls_ca": authority.file, "tls_client_ca": authority.file}
    http |= {"tls_client_certificate": own.certificate, "tls_client_key": own.key}
    with running_daemon(tmp_path, slots=3, http=http) as daemon:
        yield daemon


def test_torchrun_is_resized_over_tls_and_loses_no_step(asking: Daemon, tmp_path: Path) -> None:
    first = rival(asking, workers=2, priority=5)
    job = Counting(asking, tmp_path / "slow")
    job.wait_for_workers(1)
    first.cancel()
    job.wait_for_workers(3)
    output = job.finish()
    assert restarts(output) == {0}
    assert_every_step_counted(output)


def test_an_elastic_training_is_resized_over_tls(asking: Daemon, tmp_path: Path) -> None:
    first = rival(asking, workers=2, priority=5)
    job = Job(asking, tmp_path / "slow")
    job.wait_for_workers(1)
    first.cancel()
    job.wait_for_workers(3)
    job.finish()
    assert job.show()["retries_used"] == 0
