"""Replicas with TLS: what a worker says to a standby reaches the leader."""

import asyncio
import ssl
from pathlib import Path

import pytest

from scheduler.engine.ports import Leader
from scheduler.http.errors import Refusal
from scheduler.http.runtime.relay import Relay
from tests.certificates import Authority
from tests.daemon import running_daemon
from tests.e2e.replicas import leader_and_standby
from tests.e2e.test_failover import assert_heard, role, runs, submit
from tests.eventually import eventually
from tests.tls_front import tls_front

NAME = "sched.example"


@pytest.mark.postgres
def test_what_a_worker_says_to_a_standby_reaches_the_leader(
    tmp_path: Path, database: str, authority: Authority
) -> None:
    own = authority.issue(tmp_path / "own", name="worker")
    http = {**authority.issue(tmp_path / "pair").settings, "tls_ca": authority.file, "tls_client_ca": authority.file}
    http |= {"tls_client_certificate": own.certificate, "tls_client_key": own.key}
    with leader_and_standby(tmp_path, database, {"http": http}) as (leader, standby):
        assert (role(leader), role(standby)) == ("leader", "standby")
        token = tmp_path / "token"
        job = submit(standby, f"echo $SCHED_TOKEN > {token}.new; mv {token}.new {token}; exec sleep 600")
        eventually(lambda: runs(leader, job) and runs(standby, job), "the job does not start")
        eventually(token.exists, "the worker does not start")
        assert_heard(standby, leader, job, token.read_text().strip())


def relayed(relay: Relay) -> int:
    """The status of the leader's answer, or of the refusal where it cannot be asked."""

    async def fetch() -> int:
        try:
            return (await relay.fetch("/healthz", None, forwarded=False)).status_code
        except Refusal as refusal:
            return refusal.status
        finally:
            await relay.close()

    return asyncio.run(fetch())


def test_replicas_with_the_addresses_of_pods_are_checked_by_the_name_that_all_of_them_have(
    tmp_path: Path, authority: Authority
) -> None:
    trust = ssl.create_default_context(cafile=str(authority.file))
    strange = ssl.create_default_context(cafile=str(Authority.made(tmp_path / "else").file))
    with running_daemon(tmp_path) as daemon:
        inside = int(daemon.url.rpartition(":")[2])
        with tls_front(inside, authority.server(tmp_path / "pair", NAME)) as port:
            url = f"https://127.0.0.1:{port}"
            assert relayed(Relay(lambda: leader_at(url), lambda: trust, NAME)) == 200
            assert relayed(Relay(lambda: leader_at(url), lambda: trust)) == 503
            assert relayed(Relay(lambda: leader_at(url), lambda: trust, "other.example")) == 503
            assert relayed(Relay(lambda: leader_at(url), lambda: strange, NAME)) == 503


def leader_at(url: str) -> Leader:
    return Leader(name="leader", term=1, url=url)


def test_renewed_trust_takes_effect_at_the_next_request(tmp_path: Path, authority: Authority) -> None:
    with running_daemon(
        tmp_path, http={**authority.issue(tmp_path / "pair").settings, "tls_ca": authority.file}
    ) as daemon:
        known = ssl.create_default_context(cafile=str(authority.file))
        strange = ssl.create_default_context(cafile=str(Authority.made(tmp_path / "else").file))
        by_now = [known]
        relay = Relay(lambda: leader_at(daemon.url), lambda: by_now[-1])

        async def statuses() -> list[int]:
            found = []
            for trust in (known, strange, known):
                by_now.append(trust)
                try:
                    found.append((await relay.fetch("/healthz", None, forwarded=False)).status_code)
                except Refusal as refusal:
                    found.append(refusal.status)
            await relay.close()
            return found

        assert asyncio.run(statuses()) == [200, 503, 200]
