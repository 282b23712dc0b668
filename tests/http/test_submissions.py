"""Requests that submit a job at the same time: one transaction for them all, and none suffers from another."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from scheduler.http.admission.owner import Submitter
from scheduler.http.runtime import submissions
from scheduler.http.runtime.submissions import Answer, Submission, Submissions
from scheduler.model.identity import IdentifiedBy, Identity, Role
from tests.eventually import becomes
from tests.http.site import Site

CLIENTS = 6
ANN = Submitter(Identity("ann", Role.USER, IdentifiedBy.TOKEN, token_id=3))


def post_at_once(site: Site, bodies: Sequence[dict[str, Any]]) -> list[httpx.Response]:
    """The answers to these, all of which wait in the daemon while another transaction is under way."""
    waiting = site.app.throttle
    with ThreadPoolExecutor(len(bodies)) as clients:
        with site.store._database.write():
            posted = [clients.submit(site.client.post, "/v1/jobs", json={"command": ["true"], **b}) for b in bodies]
            becomes(lambda: sum(each.under_way for each in waiting._accounts.values()), len(bodies))
        return [each.result() for each in posted]


@contextmanager
def counted_writes(site: Site) -> Iterator[list[str]]:
    kinds: list[str] = []

    @contextmanager
    def measured(kind: str) -> Iterator[None]:
        if kind == "write":
            kinds.append(threading.current_thread().name)
        yield

    site.store.measure(measured)
    yield kinds


def test_those_that_arrive_during_a_transaction_share_the_next_one(site: Site) -> None:
    with counted_writes(site) as writes:
        answers = post_at_once(site, [{"name": f"job-{n}"} for n in range(CLIENTS)])
    assert [answer.status_code for answer in answers] == [201] * CLIENTS
    ids = [answer.json()["id"] for answer in answers]
    assert len(set(ids)) == CLIENTS
    jobs = {job.id: job.spec.name for job in map(site.store.get_job, ids) if job is not None}
    assert [jobs[job_id] for job_id in ids] == [f"job-{n}" for n in range(CLIENTS)]
    assert len(writes) <= 3  # that of the test, the first to arrive, all others


def test_a_group_has_a_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "GROUP_MAX", 2)
    assert {answer.status_code for answer in post_at_once(site, [{}] * CLIENTS)} == {201}


def test_what_is_refused_refuses_none_of_the_others(site: Site) -> None:
    site.client.post("/v1/queues", json={"path": "lab", "max_jobs": 2})
    bodies = [{"queue": "lab"}, {"queue": "lab"}, {"queue": "lab"}, {"queue": "nowhere"}, {"priority": "high"}, {}]
    answers = post_at_once(site, bodies)
    assert sorted(answer.status_code for answer in answers[:3]) == [201, 201, 429]
    assert [answer.status_code for answer in answers[3:]] == [422, 422, 201]
    assert answers[4].json()["error"]["field"] == "priority"


def test_of_one_key_there_is_one_job_and_another_user_is_told_whose_it_is(site: Site) -> None:
    answers = post_at_once(site, [{"client_key": "k", "user": user} for user in ("ann", "ann", "bob")])
    told = sorted(answer.status_code for answer in answers)
    assert told in ([200, 201, 409], [201, 409, 409])
    assert len({answer.json()["id"] for answer in answers if answer.is_success}) == 1


def test_while_the_store_is_away_all_are_told_to_try_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.store._database, "_busy_timeout_seconds", 0.05)
    with site.store._database.write():
        answer = site.client.post("/v1/jobs", json={"command": ["true"]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert site.submit()


def test_an_error_that_one_of_them_meets_is_no_matter_of_the_others() -> None:
    good, bad = (Submission(ANN, body, None) for body in (b"good", b"bad"))

    def serve(asked: Sequence[Submission]) -> list[Answer | Exception]:
        if bad in asked:
            raise OverflowError("too large")
        return [Answer(Response(), each.body.decode()) for each in asked]

    async def served() -> list[Answer | BaseException]:
        together = Submissions(serve)
        answers = await asyncio.gather(*map(together.submit, (good, bad, good)), return_exceptions=True)
        together.close()
        return answers

    first, second, third = asyncio.run(served())
    assert isinstance(second, OverflowError)
    assert [each.job for each in (first, third) if isinstance(each, Answer)] == ["good", "good"]
