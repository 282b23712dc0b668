"""Replicas of the real daemon over one PostgreSQL database: the leader dies or leaves, the server restarts."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon
from tests.e2e.replicas import leader_and_standby
from tests.eventually import becomes, eventually
from tests.postgres import PostgresServer

pytestmark = pytest.mark.postgres

#: Longer than the silence of a leader that only waits for a core.
LEASE_SECONDS = 6.0
#: Of a leader whose silence would replace it only after it was no longer waited for.
LONG_LEASE_SECONDS = 3600.0


@pytest.fixture
def replicas(tmp_path: Path, database: str) -> Iterator[tuple[Daemon, Daemon]]:
    """A leader and a standby that share the workers of this machine."""
    with leader_and_standby(tmp_path, database, {"engine": {"lease_seconds": LEASE_SECONDS}}) as pair:
        yield pair


def role(daemon: Daemon) -> str | None:
    answer = daemon.client.get("/readyz")
    return str(answer.json()["role"]) if answer.status_code == 200 else None


def submit(daemon: Daemon, command: str, **fields: Any) -> int:
    answer = daemon.client.post("/v1/jobs", json={"command": command, **fields})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def state(daemon: Daemon, job: int) -> str:
    return str(daemon.client.get(f"/v1/jobs/{job}").json().get("state"))


def runs(daemon: Daemon, job: int) -> bool:
    return state(daemon, job) == "RUNNING"


def assert_heard(standby: Daemon, leader: Daemon, job: int, token: str) -> None:
    """What a worker says to the standby is known to the leader."""
    step = leader.client.get(f"/v1/jobs/{job}").json()["progress"]["step"] or 0

    def answered() -> tuple[int, int | None]:
        answer = standby.client.post(
            f"/v1/jobs/{job}/workers/{job}-1",
            json={"generation": 1, "ready": True, "step": step + 1},
            headers={"authorization": f"Bearer {token}"},
        )
        return answer.status_code, answer.json().get("generation")

    becomes(answered, (200, 1))  # workers repeat what nobody could be reached for
    assert leader.client.get(f"/v1/jobs/{job}").json()["progress"]["step"] == step + 1


def test_a_killed_leader_is_replaced_and_its_workers_go_on(replicas: tuple[Daemon, Daemon], tmp_path: Path) -> None:
    first, second = replicas
    assert (role(first), role(second)) == ("leader", "standby")
    go_on, token = tmp_path / "go-on", tmp_path / "token"
    job = submit(second, f"echo $SCHED_TOKEN > {token}; while [ ! -e {go_on} ]; do sleep 0.05; done", workers=2)
    eventually(lambda: runs(first, job) and runs(second, job), "a job submitted at the standby does not start")
    hosts = "127.0.0.1:2\n"
    for daemon in replicas:  # each shows the commit a moment after it
        becomes(lambda at=daemon: at.client.get(f"/v1/jobs/{job}/discover_hosts").text, hosts)
    for leader, standby in ((first, second), (second, first), (first, second)):
        leader.kill()
        assert standby.client.get(f"/v1/jobs/{job}/discover_hosts").text == hosts
        later = submit(standby, "true")
        eventually(lambda at=standby, j=later: state(at, j) == "SUCCEEDED", "the standby does not decide")
        assert role(standby) == "leader"
        leader.start()
        assert role(leader) == "standby"
        assert_heard(leader, standby, job, token.read_text().strip())
    go_on.touch()
    eventually(lambda: state(first, job) == "SUCCEEDED", "the job does not end")
    view = first.client.get(f"/v1/jobs/{job}").json()
    assert (view["attempt"], view["retries_used"]) == (1, 0)
    assert len(first.client.get(f"/v1/jobs/{job}/workers").json()["workers"]) == 2
    terms = {daemon.client.get("/v1/cluster").json()["leader"]["term"] for daemon in replicas}
    # A term more for each time that the leader stood still for longer than its lease.
    assert len(terms) == 1
    assert min(terms) >= 4


@pytest.mark.slow
def test_a_leader_that_stood_still_comes_back_as_a_standby(replicas: tuple[Daemon, Daemon], tmp_path: Path) -> None:
    first, second = replicas
    starts = tmp_path / "starts"
    jobs = [submit(first, f"echo $SCHED_WORKER_ID >> {starts}; sleep 600")]
    eventually(lambda: runs(second, jobs[0]), "the job does not start")
    os.kill(first.pid, signal.SIGSTOP)
    try:
        jobs.append(submit(second, f"echo $SCHED_WORKER_ID >> {starts}; sleep 600"))
        eventually(lambda: runs(second, jobs[1]), "the standby does not decide")
    finally:
        os.kill(first.pid, signal.SIGCONT)
    eventually(lambda: role(first) == "standby", "it takes itself for the leader still")
    jobs.append(submit(first, f"echo $SCHED_WORKER_ID >> {starts}; sleep 600"))
    eventually(lambda: runs(second, jobs[2]), "the new leader does not take what comes in at the former one")
    assert role(second) == "leader"
    # Each worker was started once; it writes that down a moment later.
    becomes(lambda: sorted(starts.read_text().split()), [f"{job}-1" for job in jobs])


@pytest.mark.slow
def test_a_leader_that_is_told_to_stop_hands_over_at_once(tmp_path: Path, database: str) -> None:
    with leader_and_standby(tmp_path, database, {"engine": {"lease_seconds": LONG_LEASE_SECONDS}}) as (first, second):
        job = submit(first, "sleep 600")
        eventually(lambda: runs(second, job), "the job does not start")
        assert first.stop() == 0
        becomes(lambda: role(second), "leader")
        second.client.post(f"/v1/jobs/{job}/cancel")
        becomes(lambda: state(second, job), "CANCELLED")


@pytest.mark.slow
def test_a_restart_of_the_database_loses_nothing(
    replicas: tuple[Daemon, Daemon], postgres_server: PostgresServer, tmp_path: Path
) -> None:
    first, second = replicas
    go_on = tmp_path / "go-on"
    job = submit(first, f"while [ ! -e {go_on} ]; do sleep 0.05; done")
    eventually(lambda: runs(second, job), "the job does not start")
    postgres_server.stop()
    try:
        eventually(lambda: role(first) is role(second) is None, "a daemon without its database says it is ready")
        refused = first.client.post("/v1/jobs", json={"command": "true"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        assert first.client.get(f"/v1/jobs/{job}/discover_hosts").text == "127.0.0.1:1\n", "hosts come from memory"
        go_on.touch()
    finally:
        postgres_server.start()
    eventually(lambda: {role(first), role(second)} == {"leader", "standby"}, "the daemons do not come back")
    eventually(lambda: state(second, job) == "SUCCEEDED", "the end of the job is lost")
    later = submit(second, "true")
    eventually(lambda: state(first, later) == "SUCCEEDED", "a later job does not run")
